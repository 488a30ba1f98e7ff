"""Which outcome of a label is favourable: as a contract states it, and as words say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import (
    describe_outcome,
    favourable_in_words,
    favourable_not_stated,
    guess_favourable,
    guess_side,
)
from evenhand.data_contracts.inference import infer_contract
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract, parse_contract

DENIED = Column("denied", "string", True, allowed=("no", "yes"), role="label", positive="yes")


@pytest.mark.parametrize(
    ("name", "values", "favourable"),
    [
        # the name of the label, where its values only affirm or deny
        ("denied", (0, 1), 0),
        ("hired", ("no", "yes"), "yes"),
        ("default.payment.next.month", (0, 1), 0),
        ("two_year_recid", (0, 1), 0),
        ("fraud_reported", ("Y", "N"), "N"),
        ("dropped_out", (False, True), False),
        ("Reoffended", ("t", "f"), "f"),
        ("benefitDenied", ("yes", "no"), "no"),
        ("not_denied", (True, False), True),
        ("default_free", (0, 1), 1),
        ("fraud-free", ("no", "yes"), "yes"),
        ("offer_rejected", (0, 1), 0),
        ("flagged_for_audit", (0, 1), 0),
        ("Attrition", ("Yes", "No"), "No"),
        # the words of the values, whatever the name
        ("y", ("Charged Off", "Fully Paid"), "Fully Paid"),
        ("denied", ("granted", "refused"), "granted"),
        ("outcome", ("default", "no default"), "no default"),
        ("x", ("not hired", "hired"), "hired"),
        ("bescheid", ("bewilligt", "abgelehnt"), "bewilligt"),
        ("class", ("bad", "good"), "good"),
        # nothing says it
        ("y", (0, 1), None),
        ("income", ("<=50K", ">50K"), None),
        ("denied", (1, 2), None),
        ("passenger", (0, 1), None),
        ("badge", ("no", "yes"), None),
        ("selected_for_audit", (0, 1), None),
        ("benefit_cut", (0, 1), None),
        ("status", ("late", "overdue"), None),
        ("denied", (1,), None),
    ],
)
def test_words_say_which_outcome_is_favourable(
    name: str, values: tuple[Any, ...], favourable: Any
) -> None:
    guess = guess_favourable(name, values)
    assert (None if guess is None else guess.value) == favourable
    # the order of the values does not matter
    assert guess_favourable(name, values[::-1]) == guess


def test_the_contract_states_it_by_value_or_by_the_positive() -> None:
    adverse = replace(DENIED, favourable={"positive": "adverse"})
    assert adverse.favourable == "no"
    assert replace(DENIED, favourable="no") == adverse
    assert replace(DENIED, favourable={"positive": "favourable"}).favourable == "yes"
    assert [adverse.favourable_code, DENIED.favourable_code] == [0, 1]
    assert (DENIED.states_favourable, adverse.states_favourable) == (False, True)
    # a label whose other value has no name
    unlisted = replace(DENIED, allowed=None, favourable={"positive": "adverse"})
    assert (unlisted.favourable_code, unlisted.favourable_value) == (0, None)
    assert describe_outcome(unlisted) == {
        "column": "denied", "code": 0, "favourable": None, "adverse": "yes", "stated": True
    }  # fmt: skip
    assert favourable_in_words(unlisted) == "any value of denied but yes"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"favourable": "perhaps"}, "favourable is not among validValues"),
        ({"favourable": {"positive": "bad"}}, "{positive: adverse} or {positive: favourable}"),
        ({"favourable": 1}, "favourable holds a value that is no text"),
        (
            {"role": "feature", "positive": None, "is_feature": True, "favourable": "no"},
            "of which one is positive",
        ),
        ({"allowed": ("a", "b", "c"), "positive": None, "favourable": "a"}, "a label of two values"),
    ],
)  # fmt: skip
def test_wrong_statements_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match="favourable") as refused:
        replace(DENIED, **changes)
    assert message in str(refused.value)


def contract(**changes: Any) -> Contract:
    feature = Column("x", "number", True, is_feature=True)
    return Contract("t", "0.1.0", "", (feature, replace(DENIED, **changes)))


@pytest.mark.parametrize(
    "changes", [{}, {"favourable": "no"}, {"favourable": {"positive": "adverse"}}]
)
def test_it_survives_yaml_and_json(changes: dict[str, Any]) -> None:
    for label in (changes, {**changes, "allowed": None}):
        written = contract(**label)
        assert parse_contract(to_yaml(written)) == written
        assert Contract.from_dict(written.to_dict()) == written


def test_models_published_before_keep_their_contract() -> None:
    """A contract that does not say it is the one of before, and one that now says it has the same
    digest.
    """
    silent, stated = contract(), contract(favourable="no")
    assert "favourable" not in silent.to_dict()["columns"][1]
    assert silent.digest == stated.digest
    assert stated.without_favourable() == silent


def test_shipped_contracts_say_it() -> None:
    favourable = {
        name: load_contract(name).label.favourable_value
        for name in (
            "adult",
            "bank",
            "compas",
            "compas-charges",
            "german",
            "german-sex",
            "hiring",
            "loans",
        )
    }
    assert favourable == {
        "adult": ">50K",
        "bank": "yes",
        "compas": 0,
        "compas-charges": 0,
        "german": "good",
        "german-sex": "good",
        "hiring": 1,
        "loans": 1,
    }
    assert load_contract("compas").label.favourable_code == 0
    assert load_contract("compas-charges").label.favourable_code == 1


def test_an_inferred_contract_states_the_words_or_the_option() -> None:
    table = pa.table({"x": [k % 7 for k in range(100)], "denied": ["yes", "no", "no", "no"] * 25})
    assert infer_contract(table, "t", "denied", []).label.favourable == "no"
    assert infer_contract(table, "t", "denied", [], favourable="YES").label.favourable == "yes"
    with pytest.raises(
        ContractError, match="favourable is 'maybe', but label column 'denied' holds 'no'"
    ):
        infer_contract(table, "t", "denied", [], favourable="maybe")
    silent = table.rename_columns(["x", "y"])
    label = infer_contract(silent, "t", "y", []).label
    assert label.favourable is None
    assert "selection rates and impact ratios are of y = yes" in favourable_not_stated(label)
    classes = table.set_column(1, "kind", pa.array(["a", "b", "c", "a"] * 25))
    with pytest.raises(ContractError, match="'kind' has 3 classes: leave it out"):
        infer_contract(classes, "t", "kind", [], favourable="a")


def test_a_threshold_has_a_favourable_side():
    assert guess_side("default_amount").value == "below"
    assert guess_side("income") is None
    label = Column("income", "number", True, role="label", at_least=50000, favourable="below")
    assert describe_outcome(label) == {
        "column": "income",
        "code": 0,
        "favourable": "below 50,000",
        "adverse": "at least 50,000",
        "stated": True,
    }
