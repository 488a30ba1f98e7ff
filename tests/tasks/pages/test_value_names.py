"""Pages with names of coded values: the page of coded documents is the page of documents in
words.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from filter_documents import filter_documents, two_attributes
from page_examples import drift_documents, evaluation_documents, run_documents

from evenhand.tasks.pages.build import build
from evenhand.tasks.pages.page_model import Documents
from evenhand.tasks.pages.value_names import label_name, shown_names, with_names

SEX = {"sex": {"1": "Female", "2": "Male"}}
BIN = {"mean": 0.4, "share": 0.5, "low": 0.3, "high": 0.7, "n": 40}


def coded(documents: Documents, names: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The same documents with codes in place of names, wherever a name is a whole text or key."""
    code_of = {name: code for column in names.values() for code, name in column.items()}
    code_of |= {
        f"{a}={name}": f"{a}={code}" for a, column in names.items() for code, name in column.items()
    }

    def change(part: Any) -> Any:
        if isinstance(part, dict):
            return {code_of.get(key, key): change(value) for key, value in part.items()}
        if isinstance(part, list):
            return [change(item) for item in part]
        return code_of.get(part, part) if isinstance(part, str) else part

    found: dict[str, Any] = change(json.loads(json.dumps(documents)))
    assert found != documents
    found["run"]["value_names"] = names
    return found


def whole_run() -> dict[str, Any]:
    """A run with every document that has groups."""
    documents = run_documents()
    groups = {"sex": {"Female": [BIN], "Male": [{**BIN, "mean": 0.6}]}}
    documents["reliability"] = {"overall": [BIN], "groups": groups}
    entry = {"name": "hours", "value": 0.5, "groups": {"sex": {"Female": 0.4, "Male": None}}}
    documents["drivers"] = {"kind": "contribution", "rows": 900, "columns": [entry]}
    documents["leaks"] = {
        "columns": [],
        "stand_ins": {"sex": [{"name": "relationship", "group": "Male", "auc": 0.91}]},
    }
    documents["audit"] = {
        "budget": 0.5,
        "loss": 0.5,
        "adversarial_loss": 0.9,
        "gap": {"value": 0.4, "low": 0.3, "high": 0.5},
        "multiplier": 0.25,
        "spent": 0.5,
        "people": 200,
        "moved": 50,
        "distances": None,
        "flows": {"sex": {"groups": ["Female", "Male"], "counts": [[30, 10], [20, 140]]}},
        "pairs": [],
    }
    return documents


def drift_in_words() -> dict[str, Any]:
    text = json.dumps(drift_documents()).replace('"F"', '"Female"').replace('"M"', '"Male"')
    found: dict[str, Any] = json.loads(text)
    return found


LETTERS = {"calm": {"10": "a", "20": "b"}, **SEX}
BANK = {"sex": {"1": "female", "2": "male"}, "job": {"3": "retired"}}
INCOME = {**SEX, "income": {"0": "<=50K", "1": ">50K"}}


@pytest.mark.parametrize(
    ("kind", "documents", "names"),
    [
        ("run", whole_run(), SEX),
        ("evaluation", evaluation_documents(), INCOME),
        ("drift", drift_in_words(), LETTERS),
        ("filter", filter_documents(balance=two_attributes()), BANK),
    ],
)
def test_a_page_of_codes_is_the_page_of_their_names(
    kind: str, documents: dict[str, Any], names: dict[str, dict[str, str]]
) -> None:
    given = coded(documents, names)
    before = copy.deepcopy(given)
    page = build(kind, given)
    assert given == before
    assert page == build(kind, {**documents, "run": {**documents["run"], "value_names": names}})
    # without the names the page has the codes
    given["run"]["value_names"] = {}
    assert build(kind, given) != page


def test_a_proxys_own_page_shows_names() -> None:
    balance = filter_documents(balance=two_attributes())["balance"]
    shown = with_names(
        {"run": {"value_names": BANK}, "balance": coded({"run": {}, **balance}, BANK)}
    )
    assert shown["balance"]["attributes"] == balance["attributes"]
    assert shown["balance"]["groups"] == balance["groups"]


def test_intersections_are_named_part_by_part() -> None:
    names = {"sex": {"1": "woman", "2": "man"}, "race": {"1": "black"}}
    assert shown_names(names, "sex&race", ["1 & 1", "1 & 2", "2 & missing"]) == {
        "1 & 1": "woman & black",
        "1 & 2": "woman & 2",
        "2 & missing": "man & missing",
    }
    assert shown_names(names, "age&sex", ["<25 & 1"]) == {"<25 & 1": "<25 & woman"}
    # no intersection: a column that is called so, with values of its own
    assert shown_names({"a&b": {"1": "x"}}, "a&b", ["1", "1 & 1"]) == {"1": "x", "1 & 1": "1 & 1"}


def test_a_name_that_is_another_code_says_its_code() -> None:
    assert shown_names({"sex": {"1": "2"}}, "sex", ["1", "2"]) == {"1": "2 (1)", "2": "2"}
    assert shown_names({"sex": {"1": "missing"}}, "sex", ["1", "missing"]) == {
        "1": "missing (1)",
        "missing": "missing",
    }
    documents = run_documents()
    documents["run"]["value_names"] = {"sex": {"Female": "Male"}}
    groups = {cell["group"] for cell in with_names(documents)["metrics"]["counts"]["sex"]}
    assert groups == {"Male (Female)", "Male"}
    assert list(with_names(documents)["histograms"]["sex"]["groups"]) == ["Male (Female)", "Male"]


def test_names_of_one_column_are_not_those_of_another() -> None:
    assert shown_names(SEX, "race", ["1", "2"]) == {"1": "1", "2": "2"}
    assert shown_names(SEX, "sex", ["1", "3"]) == {"1": "Female", "3": "3"}


@pytest.mark.parametrize(
    ("value", "name"), [(1, "yes"), (1.0, "yes"), ("1", "yes"), (0, 0), ("x", "x")]
)
def test_the_label_has_names(value: Any, name: Any) -> None:
    assert label_name({"hired": {"1": "yes"}}, "hired", value) == name
    assert label_name({}, "hired", value) == value
