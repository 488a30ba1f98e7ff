"""Two versions side by side: which is better, and what may be chance."""

from __future__ import annotations

import pytest

from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.flows.app.comparison_views import Compared, _compared, _count, _is_of_fairness
from evenhand.tasks.pages.page_model import Cell

VERSIONS = ("3", "8")


@pytest.mark.parametrize(
    ("metric", "values", "ends", "words", "better"),
    [
        ("accuracy", (0.7, 0.8), (0.05, 0.15), "version 8", 1),
        ("brier", (0.1, 0.2), (0.05, 0.15), "version 3", 0),
        ("gap_max.sex", (0.4, 0.2), (-0.3, -0.1), "version 8", 1),
        ("accuracy", (0.7, 0.8), (-0.05, 0.25), "no significant difference", None),
        ("accuracy", (0.7, 0.8), None, "version 8", None),
        ("accuracy", (0.7, 0.7), None, "equal", None),
        ("probability_spread", (0.7, 0.9), None, "has no better side", None),
    ],
)
def test_the_better_version_is_named(
    metric: str,
    values: tuple[float, float],
    ends: tuple[float, float] | None,
    words: str,
    better: int | None,
) -> None:
    paired = None
    if ends is not None:
        paired = MetricValue(values[1] - values[0], *ends)
    compared = _compared(metric, values, paired, VERSIONS)
    cell = compared.row[-1]
    assert (cell.text if isinstance(cell, Cell) else cell) == words
    assert compared.better == better


def test_only_differences_beyond_chance_are_counted() -> None:
    both = [Compared([], 0), Compared([], 1), Compared([], 1), Compared([], None)]
    assert _count("Fairness", both, VERSIONS) == (
        "Fairness: beyond chance, version 3 is better in 1 and version 8 is better in 2 of 4 "
        "metrics."
    )
    assert _count("Fairness", both[3:], VERSIONS) == "Fairness: no difference is significant."


def test_metrics_of_groups_and_of_pairs_are_of_fairness() -> None:
    fair = ["impact_ratio.sex", "theil_index", "consistency.sex", "certificate.drf"]
    assert all(_is_of_fairness(name) for name in fair)
    assert not any(_is_of_fairness(name) for name in ("auc", "ece", "log_loss_gain"))
