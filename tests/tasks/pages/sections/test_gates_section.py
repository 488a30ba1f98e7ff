"""The section of gates: how each ended, and many of them."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import page, said, table, tables
from page_examples import gate, run_documents


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("passed", "here all passed"),
        ("refused", "here at least one refused"),
        ("insufficient_evidence", "here the rows were too few to decide"),
    ],
)
def test_the_gates_say_how_it_ended(documents: dict[str, Any], verdict: str, words: str) -> None:
    documents["decision"]["verdict"] = verdict
    assert words in said(page("run", documents)["gates"])


def test_a_gate_says_its_metric_once_unless_it_judges_by_another(documents: dict[str, Any]) -> None:
    texts = (
        "auc is 0.700 and must be at least 0.800",
        "auc.proved, by which a max of auc is judged, is 0.7",
    )
    documents["decision"]["results"] = [
        gate("auc", "min", 0.8, 0.7) | {"text": text} for text in texts
    ]
    rows = table(page("run", documents)["gates"], "Every gate").rows
    assert [row[2] for row in rows] == ["Is 0.700 and must be at least 0.800", f"A{texts[1][1:]}"]


def test_many_gates_are_folded_and_no_gate_is_a_sentence(documents: dict[str, Any]) -> None:
    results = documents["decision"]["results"]
    assert not tables(page("run", documents)["gates"])[0].folded
    documents["decision"]["results"] = results * 4
    assert tables(page("run", documents)["gates"])[0].folded
    documents["decision"]["results"] = []
    assert said(page("run", documents)["gates"]) == (
        "The job sets no gate, so the model was not held to any limit."
    )
