"""YAML of people's texts: what is written is what is shown, and it is read back."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract
from evenhand.data_contracts.yaml_loader import load_strictly
from evenhand.data_contracts.yaml_writer import comment, dump_plainly

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
HOSTILE = (
    "a\u202eb",
    "\u2066x\u2069",
    "\x1b[2J",
    "x\u2028publish: {}",
    "y\x85seed: 1",
    "# no",
    "a: b",
    "&a",
    "\ud7ff",
    "line\nnext: 1",
    "Zürich",
)


@given(st.text(max_size=30))
def test_a_text_is_read_back_and_nothing_is_hidden(text: str) -> None:
    written = dump_plainly({"name": [text]}, width=20)
    assert yaml.safe_load(written) == {"name": [text]}
    assert not HIDDEN.search(written)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_ends_where_its_line_does(text: str) -> None:
    line = comment(f"of {text}")
    assert load_strictly(f"a: 1\n{line}") == {"a": 1}
    assert not HIDDEN.search(line)


def test_letters_stay_letters() -> None:
    assert dump_plainly({"ort": "Zürich", "שם": "a"}) == "ort: Zürich\nשם: a\n"


def test_a_contract_of_hostile_names_is_read_back() -> None:
    columns = [Column("paid", "boolean", True, "", role="label", positive=True)]
    for place, text in enumerate(HOSTILE):
        name = f"{place}{text}"
        columns.append(Column(name, "string", True, text, allowed=(text, "b"), is_feature=True))
    contract = Contract("people", "1.0.0", HOSTILE[0], tuple(columns))
    written = to_yaml(contract, [f"{text}, a note" for text in HOSTILE])
    assert not HIDDEN.search(written)
    assert parse_contract(written).columns == contract.columns
