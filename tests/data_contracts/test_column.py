"""Rules of one column: its encoding, and its use as a sensitive attribute."""

from __future__ import annotations

import pytest

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Column, Contract


def _with(column: Column, **options: object) -> Contract:
    label = Column("y", "integer", True, role="label", positive=1)
    return Contract("t", "1", "", (label, column), **options)  # type: ignore[arg-type]


def test_rules_of_encoding():
    with pytest.raises(ContractError, match="standard does not fit a string"):
        Column("c", "string", role="feature", is_feature=True, encoding="standard")
    with pytest.raises(ContractError, match="binary needs positive"):
        Column(
            "c", "string", role="feature", is_feature=True, encoding="binary", allowed=("a", "b")
        )
    with pytest.raises(ContractError, match="exactly two values"):
        Column(
            "c",
            "string",
            role="feature",
            is_feature=True,
            encoding="binary",
            positive="a",
            allowed=("a", "b", "c"),
        )
    with pytest.raises(ContractError, match="positive is not among"):
        Column(
            "c",
            "string",
            role="feature",
            is_feature=True,
            encoding="binary",
            positive="z",
            allowed=("a", "b"),
        )
    flag = Column("c", "boolean", role="feature", is_feature=True, encoding="binary")
    assert flag.positive is True
    with pytest.raises(ContractError, match="encoding is for model inputs"):
        Column("c", "string", role="id", encoding="onehot")


def test_an_ignored_column_may_keep_its_encoding() -> None:
    kept = Column("c", "string", role="ignore", encoding="onehot")
    assert kept.encoding is None
    assert kept == Column("c", "string", role="ignore")


def test_a_unit_encoding_needs_both_bounds():
    def column(kind: str = "number", **bounds: object) -> Column:
        return Column("x", kind, role="feature", is_feature=True, encoding="unit", **bounds)  # type: ignore[arg-type]

    assert column(minimum=-1, maximum=3.5).encoding == "unit"
    assert column("integer", minimum=0, maximum=1).encoding == "unit"
    needed = "^column 'x': encoding: unit needs logicalTypeOptions with a minimum below its maximum"
    for bounds in ({}, {"minimum": 0}, {"maximum": 3}, {"minimum": 2, "maximum": 2}):
        with pytest.raises(ContractError, match=needed):
            column(**bounds)
    with pytest.raises(ContractError, match=needed):
        column(minimum=-1e308, maximum=1e308)  # their distance is no finite number
    with pytest.raises(ContractError, match="minimum is above maximum"):
        column(minimum=3, maximum=2)
    for kind in ("string", "boolean", "date"):
        with pytest.raises(ContractError, match=f"unit does not fit a {kind}"):
            column(kind)
    with pytest.raises(ContractError, match="positive is for the label"):
        column(minimum=0, maximum=1, positive=1)


def test_sensitive_rules():
    with pytest.raises(ContractError, match="date cannot be sensitive"):
        Column("born", "date", role="sensitive")
    Column(
        "code", "integer", role="sensitive", allowed=(0, 1)
    )  # few values are groups by themselves
    age = Column("age", "integer", role="sensitive", is_feature=True, bins=(25,))
    with pytest.raises(ContractError, match="own_group cannot encode a missing 'age'"):
        _with(age, missing_sensitive="own_group")
    with pytest.raises(ContractError, match="missingSensitive is 'keep'"):
        _with(age, missing_sensitive="keep")
    with pytest.raises(ContractError, match="quarantineShare is 1.5"):
        _with(age, quarantine_share=1.5)


def _threshold(logical_type: str = "number", **options: object) -> Column:
    settings = {"role": "label", "at_least": 50000, **options}
    return Column("income", logical_type, True, **settings)  # type: ignore[arg-type]


def test_a_threshold_names_its_two_outcomes():
    label = _threshold(at_least=1234.5)
    assert label.outcome.allowed == ("below 1,234.5", "at least 1,234.5")
    assert label.outcome.positive == "at least 1,234.5"
    assert (label.classes, label.favourable_code, label.states_favourable) == ((), 1, False)
    below = _threshold(favourable="below")
    assert (below.favourable_code, below.outcome.favourable_value) == (0, "below 50,000")
    reached = _threshold(favourable="at-least")
    assert (reached.favourable_code, reached.outcome.favourable_code) == (1, 1)
    assert reached.no_input("ignore").at_least is None
    plain = Column("y", "integer", True, role="label", positive=1)
    assert plain.outcome is plain


@pytest.mark.parametrize(
    ("logical_type", "options", "message"),
    [
        ("string", {}, "atLeast is for a label of numbers"),
        ("number", {"role": "feature", "is_feature": True}, "atLeast is for a label of numbers"),
        ("number", {"positive": 1.0}, "keep one of them"),
        ("number", {"allowed": (1.0, 2.0)}, "keep one of them"),
        ("number", {"value_names": {"1": "one"}}, "mean nothing with atLeast"),
        ("number", {"at_least": "50k"}, "atLeast must hold finite numbers"),
        ("number", {"at_least": float("nan")}, "atLeast must hold finite numbers"),
        ("number", {"minimum": 50000.0}, "on one side: move it"),
        ("number", {"maximum": 49999.0}, "on one side: move it"),
        ("number", {"favourable": "yes"}, "expected at-least or below"),
    ],
)
def test_rules_of_a_threshold(logical_type, options, message):
    with pytest.raises(ContractError, match=message):
        _threshold(logical_type, **options)


def test_only_features_are_legitimate() -> None:
    marked = Column("experience", "integer", is_feature=True, legitimate=True)
    assert marked.to_dict()["legitimate"] is True
    assert Column.from_dict(marked.to_dict()) == marked
    assert marked.no_input("ignore").legitimate is None
    unmarked = Column("experience", "integer", is_feature=True, legitimate=False)
    # so that the digest does not depend on how it is left out
    assert "legitimate" not in unmarked.to_dict()
    with pytest.raises(ContractError, match="column 'sex': legitimate is for features"):
        Column("sex", "string", role="sensitive", legitimate=True)
    with pytest.raises(ContractError, match="legitimate is 'yes', expected true or false"):
        Column("experience", "integer", is_feature=True, legitimate="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"other": "rest"}, "other is not among validValues"),
        ({"other": "b", "allowed": None}, "other is not among validValues"),
        ({"other": "b", "encoding": "ordinal"}, "with the encoding onehot only"),
        ({"other": "b", "encoding": "binary", "positive": "a"}, "with the encoding onehot only"),
        ({"other": "b", "role": "label", "is_feature": False}, "categories in text"),
    ],
)
def test_a_value_for_all_others_is_one_of_a_category(options: dict, words: str) -> None:
    attributes = {"allowed": ("a", "b"), "is_feature": True, **options}
    with pytest.raises(ContractError, match=words):
        Column("firm", "string", **attributes)


def test_a_role_of_weights_is_refused_with_the_way_to_use_them() -> None:
    with pytest.raises(ContractError, match=r"without weights: set role ignore, .* --weight w`"):
        Column("w", "number", role="sample_weight")
