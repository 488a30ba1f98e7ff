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
