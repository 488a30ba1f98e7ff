"""Texts of reasons: the largest contributions in the contract's words, and principal reasons."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenhand.fairlib.methods import reasons
from evenhand.tasks.filtering.predicting import RowPredictor, reason_texts

COLUMNS = ["hours-per-week", "job_kind", "member", "since"]
ROWS = pa.RecordBatch.from_pydict(
    {
        "hours-per-week": [60, None, 35],
        "job_kind": pa.array(["A1", "A2", None]).dictionary_encode(),
        "member": [True, False, None],
        "since": [dt.date(2020, 1, 2), None, dt.date(2021, 3, 4)],
        "sex": ["F", "M", "F"],
    }
)
FOUND = np.array([[0.414, -0.2, 0.05, 0.001], [-0.3, 0.3, -1.25, 0.0], [0.0, 0.004, -0.004, 0.2]])
NAMES = {"job_kind": {"A1": "clerk"}}


def texts(most: int, negative: Any = None) -> list[str | None]:
    found: list[str | None] = reason_texts(FOUND, ROWS, COLUMNS, NAMES, most, negative).to_pylist()
    return found


def test_the_largest_contributions_come_first() -> None:
    """They are in the contract's words."""
    assert texts(2) == [
        "hours per week: 60 (+0.41); job kind: clerk (-0.20)",
        # of equal ones the first column
        "member: false (-1.25); hours per week: missing (-0.30)",
        # what would be shown as 0.00 is no reason
        "since: 2021-03-04 (+0.20)",
    ]
    assert (
        texts(9)[0] == "hours per week: 60 (+0.41); job kind: clerk (-0.20); member: true (+0.05)"
    )


def test_ranked_reasons_lowered_a_negative_decision() -> None:
    assert texts(4, np.array([False, True, True])) == [
        None,
        "principal reasons: member: false; hours per week: missing",
        None,  # nothing lowered it
    ]
    assert texts(1, np.array([True, False, False]))[0] == "principal reasons: job kind: clerk"


def test_a_batch_without_rows_has_no_reasons() -> None:
    assert reason_texts(FOUND[:0], ROWS.slice(0, 0), COLUMNS, NAMES, 3, None).to_pylist() == []


@pytest.mark.parametrize("favourable", [0, 1])
def test_principal_reasons_are_of_the_unfavourable_decision(
    favourable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a label such as rejected the positive decision is the unfavourable one."""
    monkeypatch.setattr(reasons, "contributions", lambda *_: FOUND)
    label = SimpleNamespace(favourable_code=favourable)
    predictor: Any = SimpleNamespace(
        model=SimpleNamespace(encoder=SimpleNamespace(groups_=COLUMNS)),
        wanted=SimpleNamespace(adverse=True, reasons=2),
        bundle=SimpleNamespace(contract=SimpleNamespace(label=label)),
        classifier=None,
        reference=None,
        names=NAMES,
    )
    positive = np.array([True, False] * len(FOUND))[: len(FOUND)]
    found = RowPredictor._reasons(predictor, FOUND.astype(np.float32), ROWS, positive)
    unfavourable = positive != (favourable == 1)
    against = FOUND if favourable else -FOUND
    assert found.equals(reason_texts(against, ROWS, COLUMNS, NAMES, 2, unfavourable))
    assert all(found[place].as_py() is None for place in np.flatnonzero(~unfavourable))
