"""Which descriptions of columns `init` wrote, and which a person."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from evenhand.data_contracts.inference import infer_contract
from evenhand.data_contracts.init_notes import is_note_of_init, people_description


def test_every_description_of_an_inferred_contract_is_a_note() -> None:
    rows = 400
    day = datetime.date(2024, 1, 1)
    table = pa.table(
        {
            "person": [f"p{row}" for row in range(rows)],
            "sex": ["f", "m"] * (rows // 2),
            "age": [20 + row % 40 for row in range(rows)],
            "score": [row / 7 for row in range(rows)],
            "city": [("Ulm", "Bonn", "Kiel")[row % 3] for row in range(rows)],
            "size": [("small", "medium", "large")[row % 3] for row in range(rows)],
            "remote": [("yes", "no")[row % 2] for row in range(rows)],
            "member": [row % 2 for row in range(rows)],
            "since": [day + datetime.timedelta(days=row) for row in range(rows)],
            "hired": [int(row % 5 > 2) for row in range(rows)],
        }
    )
    contract = infer_contract(table, "people", label="hired", sensitive=["sex"])
    for column in contract.columns:
        assert is_note_of_init(column.description), column.description
        assert people_description(column.description) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Number of children who live in the household",
        "Whole number of years since the first job",
        "True if the person has a licence",
        "Date of the first contract",
        "Category of the licence",
    ],
)
def test_a_description_of_a_person_is_shown(text: str) -> None:
    assert people_description(text) == text
