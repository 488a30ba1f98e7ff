"""Batches of a file are rewritten to plain numbers and dates, as the contract says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.plain_forms import Wanted, refuse_two_readings, rewrite_batch


def test_batches_of_a_file_are_rewritten_by_the_contract() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"a": ["1.234,5", "7"], "d": ["31.12.2024", None], "t": ["1,5", "x"]}
    )
    kinds = {"a": "number", "d": "date", "t": "string"}
    rows = rewrite_batch(
        batch, Wanted("comma", "day-first", kinds), 0, "t.csv", "predict"
    ).to_pydict()
    assert rows == {"a": ["1234.5", "7"], "d": ["2024-12-31", None], "t": ["1,5", "x"]}
    with pytest.raises(InputError, match=r"comma in line 102.*predict\.decimal is point.*a: comma"):
        rewrite_batch(batch, Wanted("point", None, kinds), 100, "t.csv", "predict")


def test_a_file_to_predict_with_two_readings_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["7", "14,168"], "t": ["14,168", "x"]})
    refuse_two_readings(batch, {"a": "string", "t": "string"}, 0, "t.csv", "predict")
    with pytest.raises(
        InputError, match=r"'a' of t.csv has two readings .line 3 .*set predict\.decimal"
    ):
        refuse_two_readings(batch, {"a": "number", "t": "string"}, 0, "t.csv", "predict")
