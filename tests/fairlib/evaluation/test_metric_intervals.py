"""Metrics that are the largest difference of a declared rate: they need no interval of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from evenhand.fairlib.evaluation import group_selection, metric_intervals
from evenhand.fairlib.evaluation.closed_intervals import exact_interval, pairwise_differences
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, evaluate
from evenhand.fairlib.evaluation.group_audit import audit
from evenhand.fairlib.evaluation.metrics import (
    GROUP_METRICS,
    Metric,
    Rate,
    rate_difference,
    theil_index,
)
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.predictions import measurable

Build = Callable[..., Outcomes]

SELECTION = Rate(hits=((0, 1), (1, 1)), base=((0, 0), (0, 1), (1, 0), (1, 1)))
TRUE_POSITIVE = Rate(hits=((1, 1),), base=((1, 0), (1, 1)))
FALSE_OMISSION = Rate(hits=((1, 0),), base=((0, 0), (1, 0)))
NAME = "false_omission_rate_difference"


@pytest.fixture
def with_omission(monkeypatch: pytest.MonkeyPatch) -> Metric:
    """The false omission rate difference among the metrics."""
    metric = rate_difference(FALSE_OMISSION, "cells")
    monkeypatch.setitem(GROUP_METRICS, NAME, metric)
    monkeypatch.setitem(group_selection.GROUP_NEEDS, NAME, "cells")
    return metric


def test_every_metric_has_an_interval_or_a_rate() -> None:
    by_rate = {name for name, metric in GROUP_METRICS.items() if metric.rate is not None}
    assert by_rate.isdisjoint(metric_intervals.GROUP_INTERVALS)
    assert by_rate | set(metric_intervals.GROUP_INTERVALS) == set(GROUP_METRICS)


@pytest.mark.parametrize(
    ("name", "rate"),
    [("demographic_parity_difference", SELECTION), ("equal_opportunity_difference", TRUE_POSITIVE)],
)
@pytest.mark.parametrize("kind", ["rows", "weights", "people", "favourable 0"])
def test_a_rate_gives_the_interval_in_closed_form(
    random_outcomes: Build, monkeypatch: pytest.MonkeyPatch, name: str, rate: Rate, kind: str
) -> None:
    outcomes = random_outcomes(400, 3)
    weights = None
    if kind == "weights":
        weights = np.random.default_rng(0).gamma(1.0, 1.0, 400)
    elif kind == "people":
        outcomes = replace(outcomes, people=np.arange(400) // 3)
    elif kind == "favourable 0":
        outcomes = replace(outcomes, favourable=0)

    def measured() -> Evaluation:
        return evaluate(outcomes, sample_weight=weights, draws=20)

    expected = measured()
    monkeypatch.setitem(GROUP_METRICS, name, rate_difference(rate, GROUP_METRICS[name].needs))
    monkeypatch.delitem(metric_intervals.GROUP_INTERVALS, name)
    found = measured()
    for attribute in ("sex", "race"):
        flat = f"{name}.{attribute}"
        ends = [found.metrics[flat].value, found.metrics[flat].low, found.metrics[flat].high]
        other = expected.metrics[flat]
        assert ends == pytest.approx([other.value, other.low, other.high])


@pytest.mark.usefixtures("with_omission")
def test_a_metric_more_is_measured_by_hand(from_cells: Build) -> None:
    cells = {("F", 0, 0): 40, ("F", 0, 1): 10, ("F", 1, 0): 10, ("F", 1, 1): 40}
    cells |= {("M", 0, 0): 45, ("M", 0, 1): 5, ("M", 1, 0): 25, ("M", 1, 1): 25}
    outcomes = from_cells(cells)
    found = evaluate(outcomes, draws=20)
    # of those predicted 0, 10 of 50 women and 25 of 70 men have label 1
    differences = pairwise_differences(exact_interval([25, 10], [70, 50], 0.95))
    metric = found.metrics[f"{NAME}.sex"]
    assert metric.value == pytest.approx(25 / 70 - 10 / 50)
    assert metric.low == pytest.approx(max(0.0, differences.low[0, 1]))
    assert metric.high == pytest.approx(differences.high[0, 1])
    audited = audit(
        outcomes.y_true, outcomes.y_pred, sensitive_features=outcomes.sensitive, metrics=[NAME]
    )
    row = audited.gaps().set_index("metric").loc[NAME]
    assert [row["value"], row["lower"], row["upper"]] == pytest.approx(
        [metric.value, metric.low, metric.high]
    )


@pytest.mark.usefixtures("with_omission")
def test_no_row_in_the_base_of_a_rate_is_undefined(from_cells: Build) -> None:
    cells = {("F", 0, 0): 9, ("F", 1, 0): 9, ("M", 0, 1): 9, ("M", 1, 1): 9}
    metric = evaluate(from_cells(cells), draws=20).metrics[f"{NAME}.sex"]
    assert metric.value is None
    assert "undefined" in metric.reason


@pytest.mark.usefixtures("with_omission")
def test_a_metric_more_stands_before_the_calibration(random_outcomes: Build) -> None:
    names = list(evaluate(random_outcomes(200, 1), draws=0).metrics)
    place = names.index(f"{NAME}.sex")
    assert names[place - 1] == "balanced_accuracy_difference.sex"
    assert names[place + 1] == "calibration_gap.sex"


@pytest.mark.parametrize(
    ("rate", "needs_labels"),
    [
        (SELECTION, False),
        (TRUE_POSITIVE, True),
        (FALSE_OMISSION, True),
        (Rate(hits=((1, 0), (1, 1)), base=SELECTION.base), True),  # share of positive labels
        (Rate(hits=((0, 1), (1, 1)), base=((0, 1), (1, 1), (1, 0))), True),
    ],
)
def test_only_rates_of_predictions_need_no_labels(
    monkeypatch: pytest.MonkeyPatch, rate: Rate, needs_labels: bool
) -> None:
    metric = rate_difference(rate, "rows")
    assert metric.needs_labels == needs_labels
    # an audit without labels has the metric only if they are not needed
    monkeypatch.setitem(GROUP_METRICS, NAME, metric)
    values = {f"{NAME}.sex": MetricValue(0.1, None, None)}
    measured = measurable(values, is_labelled=False, is_scored=False)
    assert bool(measured) != needs_labels


def test_balanced_accuracy_has_the_interval_of_its_group_alone() -> None:
    # three groups of two labels: the numbers of groups and of labels must not be mixed up
    counts = np.array([[[8.0, 2.0], [1.0, 9.0]], [[5, 5], [3, 7]], [[19, 1], [4, 16]]])
    cells = metric_intervals.RateCells(counts, counts.sum(axis=(1, 2)), counts.sum(axis=2))
    together = metric_intervals.balanced_accuracy_estimates(cells, 0.95)
    for group in range(3):
        one = metric_intervals.RateCells(*(column[group : group + 1] for column in cells))
        alone = metric_intervals.balanced_accuracy_estimates(one, 0.95)
        for ends, end in zip(together, alone, strict=True):
            assert ends[group] == pytest.approx(end[0])
    # by hand: recalls of .8 and .9 with 10 rows each are worth 20 rows with their variance
    variance = (0.8 * 0.2 / 10 + 0.9 * 0.1 / 10) / 4
    rows = 0.85 * 0.15 / variance
    exact = exact_interval(np.array(0.85 * rows), np.array(rows), 0.95)
    assert together.low[0] <= exact.low
    assert together.high[0] >= exact.high


@pytest.mark.parametrize("counts", [[[80, 0], [60, 60]], [[80, 60], [0, 60]]])
def test_the_theil_interval_tells_the_two_errors_apart(counts: list[list[int]]) -> None:
    table = np.array(counts, dtype=float)
    value = float(theil_index(table))
    low, high = metric_intervals.theil_interval(
        table, table.sum(), 0.95, 400, np.random.default_rng(0)
    )
    assert low < value < high
    assert high - low < 0.6 * value


def test_a_theil_index_that_most_draws_lack_has_no_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def undefined_from(share: float) -> Callable[[np.ndarray], np.ndarray]:
        def index_of(tables: np.ndarray) -> np.ndarray:
            values = np.linspace(0.1, 0.2, len(tables))
            values[int(share * len(tables)) :] = np.nan
            return values

        return index_of

    def interval() -> tuple[float | None, float | None]:
        table = np.array([[5.0, 1.0], [1.0, 5.0]])
        return metric_intervals.theil_interval(table, 12, 0.9, 100, np.random.default_rng(0))

    monkeypatch.setattr(metric_intervals, "theil_index", undefined_from(0.4))
    assert interval() == (None, None)
    monkeypatch.setattr(metric_intervals, "theil_index", undefined_from(0.6))
    low, high = interval()
    assert low is not None
    assert high is not None


def test_the_theil_interval_is_of_two_distributions_of_shares() -> None:
    # one with a person more who is right, one with a person more of each error
    counts = np.array([[30.0, 2.0], [3.0, 25.0]])
    found = metric_intervals.theil_interval(counts, 60, 0.9, 40_000, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    ends = []
    for right, negative, positive in ((56, 3, 2), (55, 4, 3)):
        shares = rng.dirichlet((right, negative, positive), 40_000)
        tables = np.zeros((40_000, 2, 2))
        tables[:, 1, 1] = shares[:, 0]
        tables[:, 1, 0] = shares[:, 1]
        tables[:, 0, 1] = shares[:, 2]
        ends.append(np.quantile(theil_index(tables), [0.05, 0.95]))
    assert found == pytest.approx((ends[0][0], ends[1][1]), rel=0.02)


def test_the_theil_interval_is_that_of_its_two_distributions() -> None:
    counts = np.array([[30.0, 6.0], [4.0, 20.0]])
    effective = 45.0
    low, high = metric_intervals.theil_interval(
        counts, effective, 0.9, 200, np.random.default_rng(5)
    )
    right, negative, positive = 50 * 0.75, 4 * 0.75, 6 * 0.75
    rng = np.random.default_rng(5)
    ends = []
    for shape in ([right + 1, negative, positive], [right, negative + 1, positive + 1]):
        indices = []
        for drawn_right, drawn_negative, drawn_positive in rng.standard_gamma(shape, (200, 3)):
            # benefits 1, 0 and 2; the index is the mean of b / mean * log(b / mean)
            total = drawn_right + drawn_negative + drawn_positive
            mean = (drawn_right + 2 * drawn_positive) / total
            entropy = drawn_right / mean * np.log(1 / mean)
            entropy += drawn_positive * 2 / mean * np.log(2 / mean)
            indices.append(entropy / total)
        ends += [np.quantile(indices, 0.05), np.quantile(indices, 0.95)]
    assert (low, high) == pytest.approx((min(ends), max(ends)))
