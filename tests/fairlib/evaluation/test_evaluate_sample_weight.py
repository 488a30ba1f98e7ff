"""Weights of rows in metrics: weight 2 is the row twice, 0 is no row; against scikit-learn and
Fairlearn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, true_positive_rate
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    recall_score,
    roc_auc_score,
)

from evenhand.fairlib.evaluation.bootstrap import auc_draws, score_bins
from evenhand.fairlib.evaluation.evaluate import Evaluation, encode_sensitive, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import probability_draws, probability_values
from evenhand.fairlib.parameters import check_sample_weight

Build = Callable[..., Outcomes]


def repeated(outcomes: Outcomes, times: NDArray[np.int64]) -> Outcomes:
    """The rows, each as many times as it says; known groups stay known."""
    rows = np.repeat(np.arange(outcomes.n), times)
    return replace(
        outcomes,
        y_true=outcomes.y_true[rows],
        y_pred=outcomes.y_pred[rows],
        score=outcomes.score[rows],
        sensitive={name: column[rows] for name, column in outcomes.sensitive.items()},
        consistent={name: column[rows] for name, column in outcomes.consistent.items()},
        groups={name: sorted(set(column)) for name, column in outcomes.sensitive.items()},
    )


def values_of(found: Evaluation) -> dict[str, float | None]:
    return {name: metric.value for name, metric in found.metrics.items()}


def weighted(n: int, seed: int = 4) -> NDArray[np.float64]:
    weights = np.random.default_rng(seed).gamma(1.0, 1.0, n)
    weights[:5] = 0.0
    return weights


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**16), least=st.integers(0, 1), decimals=st.sampled_from([1, 3]))
def test_a_weight_of_two_is_the_row_twice_in_every_metric(
    random_outcomes: Build, seed: int, least: int, decimals: int
) -> None:
    outcomes = random_outcomes(120, seed)
    outcomes = replace(outcomes, score=np.round(outcomes.score, decimals))
    times = np.random.default_rng(seed).integers(least, 4, outcomes.n)
    # one row is evidence enough, so that no metric hides behind min_cell
    # an intersection of no row of a positive weight is known only from the rows of weight 0
    options: dict[str, Any] = {"draws": 0, "min_cell": 1, "intersections": least > 0}
    found = values_of(evaluate(outcomes, sample_weight=times, **options))
    twice = values_of(evaluate(repeated(outcomes, times), **options))
    assert found == {
        name: value if value is None else pytest.approx(value, rel=1e-12, abs=1e-13)
        for name, value in twice.items()
    }


def test_equal_weights_of_one_change_nothing(random_outcomes: Build) -> None:
    outcomes = random_outcomes(300, 1)
    plain = evaluate(outcomes, draws=40, intersections=True)
    assert evaluate(outcomes, draws=40, intersections=True, sample_weight=None) == plain
    assert evaluate(outcomes, draws=40, intersections=True, sample_weight=np.ones(300)) == plain


def test_only_the_calibration_error_depends_on_the_sum(
    random_outcomes: Build,
) -> None:
    outcomes, weights = random_outcomes(300, 2), weighted(300)
    found, scaled = (
        values_of(evaluate(outcomes, draws=0, sample_weight=w)) for w in (weights, 7 * weights)
    )
    assert found.pop("ece") != pytest.approx(scaled.pop("ece"), rel=1e-3)
    assert found == pytest.approx(scaled, rel=1e-12)


def test_agrees_with_scikit_learn(random_outcomes: Build) -> None:
    outcomes, weights = random_outcomes(400, 3), weighted(400)
    found = values_of(evaluate(outcomes, draws=0, sample_weight=weights))
    y, p, score = outcomes.y_true, outcomes.y_pred, outcomes.score
    assert found["accuracy"] == pytest.approx(
        accuracy_score(y, p, sample_weight=weights), rel=1e-12
    )
    assert found["balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(y, p, sample_weight=weights), rel=1e-12
    )
    assert found["auc"] == pytest.approx(roc_auc_score(y, score, sample_weight=weights), rel=1e-12)
    assert found["log_loss"] == pytest.approx(log_loss(y, score, sample_weight=weights), rel=1e-12)
    assert found["brier"] == pytest.approx(
        brier_score_loss(y, score, sample_weight=weights), rel=1e-12
    )
    assert found["consistency.spouse"] == pytest.approx(
        np.average(outcomes.consistent["spouse"], weights=weights), rel=1e-12
    )
    assert found["accuracy"] != pytest.approx(accuracy_score(y, p), rel=1e-4)


def test_group_differences_agree_with_fairlearn(random_outcomes: Build) -> None:
    outcomes, weights = random_outcomes(600, 5), weighted(600)
    found = values_of(evaluate(outcomes, draws=0, sample_weight=weights))
    y, p = outcomes.y_true, outcomes.y_pred
    for name, column in outcomes.sensitive.items():
        group = column.astype(str)
        params = {"sample_weight": weights}
        frame = MetricFrame(
            metrics={
                "tpr": true_positive_rate,
                "tnr": lambda y, p, sample_weight: recall_score(
                    y, p, pos_label=0, sample_weight=sample_weight
                ),
                "balanced": balanced_accuracy_score,
            },
            y_true=y,
            y_pred=p,
            sensitive_features=group,
            sample_params={"tpr": params, "tnr": params, "balanced": params},
        )
        gaps = frame.difference(method="between_groups")
        expected = {
            "demographic_parity_difference": demographic_parity_difference(
                y, p, sensitive_features=group, sample_weight=weights
            ),
            "equal_opportunity_difference": gaps["tpr"],
            "gap_max": max(gaps["tpr"], gaps["tnr"]),
            "gap_rms": np.sqrt((gaps["tpr"] ** 2 + gaps["tnr"] ** 2) / 2),
            "average_odds_difference": (gaps["tpr"] + gaps["tnr"]) / 2,
            "balanced_accuracy_difference": gaps["balanced"],
        }
        assert {metric: found[f"{metric}.{name}"] for metric in expected} == pytest.approx(
            expected, rel=1e-12
        )
        residual = [
            np.average((outcomes.score - y)[group == one], weights=weights[group == one])
            for one in np.unique(group)
        ]
        assert found[f"calibration_gap.{name}"] == pytest.approx(np.ptp(residual), rel=1e-9)


def test_numbers_of_rows_stay_numbers_of_rows(from_cells: Callable[..., Outcomes]) -> None:
    cells = {("F", 0, 0): 4, ("F", 1, 1): 6, ("M", 0, 1): 7, ("M", 1, 1): 8}
    outcomes = from_cells(cells)
    # a weight of 100 does not make four people many, and a row of weight 0 is no evidence
    weights = np.where(outcomes.sensitive["sex"] == "F", 100.0, 1.0)
    weights[0] = 0.0
    found = evaluate(outcomes, draws=0, sample_weight=weights, min_cell=4)
    assert [cell["n"] for cell in found.counts["sex"]] == [3, 6, 7, 8]
    assert found.metrics["gap_max.sex"].status == "insufficient_evidence"
    assert evaluate(outcomes, draws=0, min_cell=4).metrics["gap_max.sex"].status == "ok"
    assert found.metrics["accuracy"].value == pytest.approx(
        (3 * 100 + 6 * 100 + 8) / (9 * 100 + 15)
    )


def test_rows_of_weight_0_are_no_evidence_of_calibration(random_outcomes: Build) -> None:
    outcomes, weights = random_outcomes(40, 0), np.repeat([0.0, 1.0], 20)
    found = evaluate(outcomes, draws=0, sample_weight=weights, min_cell=4).metrics["ece"]
    assert "20 rows in 10 bins" in found.reason
    assert evaluate(outcomes, draws=0, min_cell=4).metrics["ece"].status == "ok"


def test_bins_are_of_equal_weight() -> None:
    score = np.arange(1, 9) / 10
    weights = np.array([3.0, 1, 1, 1, 0, 2, 2, 2])
    assert score_bins(score, 2, weights).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert score_bins(score, 2).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert score_bins(score, 2, np.array([9.0, 1, 1, 1, 1, 1, 1, 1])).tolist() == [
        0,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
    ]


def test_draws_are_those_of_rows_that_bring_their_weights() -> None:
    """The spread of resampled means is that of a ratio of two means (the delta method)."""
    rng, n = np.random.default_rng(0), 400
    y, weights = (rng.random(n) < 0.4).astype(int), rng.gamma(1.0, 1.0, n)
    right = rng.random(n) < 0.7 + 0.2 * y
    outcomes = Outcomes(
        y, np.where(right, y, 1 - y), np.clip(0.3 + 0.4 * y + rng.normal(0, 0.2, n), 0, 1), {}
    )
    found = evaluate(outcomes, draws=4000, level=0.6827, sample_weight=weights).metrics
    losses = (outcomes.score - y) ** 2
    for name, values in (("accuracy", right.astype(float)), ("brier", losses)):
        mean = np.average(values, weights=weights)
        sd = np.sqrt(((weights * (values - mean)) ** 2).sum()) / weights.sum()
        half = (found[name].high - found[name].low) / 2  # type: ignore[operator]
        assert found[name].value == pytest.approx(mean, rel=1e-12)
        # an exact interval is wider, and the more so the lower its level
        assert half == pytest.approx(1.06 * sd if name == "accuracy" else sd, rel=0.06)
        # another number than without weights
        assert half > 1.2 * values.std() / np.sqrt(n)
    (auc_values,) = auc_draws(
        y, [outcomes.score], 2000, np.random.default_rng(1), sample_weight=weights
    )
    assert auc_values.mean() == pytest.approx(found["auc"].value, abs=0.003)
    (plain,) = auc_draws(y, [outcomes.score], 2000, np.random.default_rng(1))
    assert auc_values.std() > 1.2 * plain.std()


def test_draws_do_not_depend_on_the_order_of_the_rows(random_outcomes: Build) -> None:
    outcomes, weights = random_outcomes(3000, 6), weighted(3000)
    # many rows of equal scores and unequal weights: their sum would depend on the order
    outcomes = replace(outcomes, score=np.round(outcomes.score, 1))
    order = np.random.default_rng(0).permutation(3000)
    turned = replace(
        outcomes,
        y_true=outcomes.y_true[order],
        y_pred=outcomes.y_pred[order],
        score=outcomes.score[order],
        sensitive={name: column[order] for name, column in outcomes.sensitive.items()},
        consistent={name: column[order] for name, column in outcomes.consistent.items()},
    )
    assert evaluate(turned, draws=30, sample_weight=weights[order]) == evaluate(
        outcomes, draws=30, sample_weight=weights
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 1.0], r"got shape \(2,\) for 40 rows"),
        (np.ones((40, 1)), "one weight per row"),
        (1.0, r"got shape \(\)"),
        (np.zeros(40), "not zero for all"),
        (np.r_[-1.0, np.ones(39)], "not negative"),
        (np.r_[np.nan, np.ones(39)], "finite"),
        (np.r_[np.inf, np.ones(39)], "finite"),
        (["a"] * 40, "could not convert"),
    ],
)
def test_bad_weights_are_refused_everywhere(
    random_outcomes: Build, weights: Any, message: str
) -> None:
    outcomes = random_outcomes(40, 0)
    _, codes = encode_sensitive(outcomes.sensitive, {}, intersections=False)
    rng = np.random.default_rng(0)
    for function in (
        lambda: evaluate(outcomes, draws=0, sample_weight=weights),
        lambda: probability_values(outcomes, codes, weights),
        lambda: probability_draws([outcomes], codes, 5, rng, sample_weight=weights),
        lambda: check_sample_weight(weights, 40),
    ):
        with pytest.raises(ValueError, match=message):
            function()
