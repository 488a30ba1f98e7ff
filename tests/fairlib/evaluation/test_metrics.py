from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as fairlearn_metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import balanced_accuracy_score, recall_score, roc_auc_score

from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation import metrics
from evenhand.fairlib.evaluation.evaluate import Evaluation, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes

# group F: TPR 30/40, FPR 10/60, selected 40/100; group M: TPR 18/20, FPR 6/20, selected 24/40
TWO_GROUPS = np.array([[[50, 10], [10, 30]], [[14, 6], [2, 18]]])


@pytest.fixture(scope="module")
def aif360_metrics() -> ModuleType:
    # Importing it prints advice on optional extras and raises deprecation warnings of its own.
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import aif360.sklearn.metrics as module
    logging.disable(logging.NOTSET)
    return module


def test_two_groups_by_hand() -> None:
    tpr, fpr = 18 / 20 - 30 / 40, 6 / 20 - 10 / 60
    assert_allclose(metrics.label_gaps(TWO_GROUPS), [fpr, tpr])
    assert_allclose(metrics.gap_max(TWO_GROUPS), 0.15)
    assert_allclose(metrics.gap_rms(TWO_GROUPS), np.sqrt((tpr**2 + fpr**2) / 2))
    assert_allclose(metrics.demographic_parity_difference(TWO_GROUPS), 0.6 - 0.4)
    assert_allclose(metrics.equal_opportunity_difference(TWO_GROUPS), 0.15)
    assert_allclose(metrics.average_odds_difference(TWO_GROUPS), (tpr + fpr) / 2)
    # the men's larger TPR and their larger FPR cancel for the most part
    assert_allclose(metrics.balanced_accuracy_difference(TWO_GROUPS), abs(tpr - fpr) / 2)


def test_overall_by_hand() -> None:
    total = TWO_GROUPS.sum(
        axis=0
    )  # 64 true negatives, 16 false positives, 12 false negatives, 48 true positives
    assert_allclose(metrics.accuracy(total), 112 / 140)
    assert_allclose(metrics.balanced_accuracy(total), (48 / 60 + 64 / 80) / 2)
    mean = (112 + 2 * 16) / 140
    expected = (112 / mean * np.log(1 / mean) + 16 * 2 / mean * np.log(2 / mean)) / 140
    assert_allclose(metrics.theil_index(total), expected)


def test_three_groups_take_the_largest_pair() -> None:
    # TPR 0.5, 0.9, 0.6 and FPR 0.2, 0.3, 0.1
    counts = np.array([[[8, 2], [5, 5]], [[7, 3], [1, 9]], [[9, 1], [4, 6]]])
    assert_allclose(metrics.label_gaps(counts), [0.2, 0.4])
    assert_allclose(metrics.gap_max(counts), 0.4)
    assert_allclose(metrics.gap_rms(counts), np.sqrt(0.1))
    assert_allclose(metrics.equal_opportunity_difference(counts), 0.4)
    assert_allclose(metrics.average_odds_difference(counts), 0.3)
    assert_allclose(metrics.balanced_accuracy_difference(counts), 0.8 - 0.65)
    assert_allclose(metrics.demographic_parity_difference(counts), 0.6 - 0.35)
    assert_allclose(metrics.impact_ratio(counts), 0.35 / 0.6)


@pytest.mark.parametrize("name", metrics.GROUP_METRICS)
def test_leading_axes_are_kept(name: str) -> None:
    draws = np.random.default_rng(0).integers(1, 50, (4, 3, 5, 2, 2))
    function = metrics.GROUP_METRICS[name].function
    values = function(draws)
    assert values.shape == (4, 3)
    assert_allclose(values[2, 1], function(draws[2, 1]))


def test_empty_cell_is_undefined_not_zero() -> None:
    counts = np.array([[[5, 5], [0, 0]], [[5, 5], [4, 6]]])
    for name in set(metrics.GROUP_METRICS) - {"demographic_parity_difference", "impact_ratio"}:
        assert np.isnan(metrics.GROUP_METRICS[name].function(counts)), name
    assert_allclose(metrics.demographic_parity_difference(counts), 11 / 20 - 1 / 2)
    assert_allclose(metrics.impact_ratio(counts), (1 / 2) / (11 / 20))
    assert np.isnan(metrics.impact_ratio(np.array([[[5, 0], [3, 0]], [[5, 0], [4, 0]]])))
    assert np.isnan(metrics.balanced_accuracy(counts[0]))
    assert np.isnan(metrics.auc(np.array([1, 2]), np.array([0, 0])))
    assert np.isnan(metrics.theil_index(np.array([[0, 0], [7, 0]])))


def test_theil_index_is_zero_when_all_benefit_alike() -> None:
    assert metrics.theil_index(np.array([[3, 0], [0, 4]])) == 0.0
    assert metrics.theil_index(np.array([[0, 9], [0, 0]])) == 0.0


def test_auc_counts_ties_half() -> None:
    # scores 0.1, 0.5, 0.9: the pairs give 1 (2 of 3 wins), 0.5 at the tie
    assert_allclose(metrics.auc(np.array([0, 1, 1]), np.array([1, 1, 0])), (1 + 0.5 + 1 + 1) / 4)
    # weights: doubling every row changes nothing
    assert_allclose(metrics.auc(np.array([0, 2, 2]), np.array([2, 2, 0])), 0.875)


def evaluated(build: Callable[..., Outcomes]) -> tuple[Outcomes, Evaluation]:
    outcomes = build(700, 11)
    return outcomes, evaluate(outcomes, draws=0)


@pytest.mark.parametrize("attribute", ["sex", "race"])
def test_against_fairlearn(random_outcomes: Callable[..., Outcomes], attribute: str) -> None:
    outcomes, evaluation = evaluated(random_outcomes)
    arguments = {
        "y_true": outcomes.y_true,
        "y_pred": outcomes.y_pred,
        "sensitive_features": outcomes.sensitive[attribute].astype(str),
    }
    expected = {
        "demographic_parity_difference": fairlearn_metrics.demographic_parity_difference(
            **arguments
        ),
        "impact_ratio": fairlearn_metrics.demographic_parity_ratio(**arguments),
        "equal_opportunity_difference": fairlearn_metrics.equal_opportunity_difference(**arguments),
        "average_odds_difference": fairlearn_metrics.equalized_odds_difference(
            **arguments, agg="mean"
        ),
        "gap_max": fairlearn_metrics.equalized_odds_difference(**arguments, agg="worst_case"),
    }
    frame = fairlearn_metrics.MetricFrame(
        metrics={"tpr": recall_score, "tnr": lambda t, p: recall_score(t, p, pos_label=0)},
        **arguments,
    )
    expected["gap_rms"] = float(np.sqrt((frame.difference() ** 2).mean()))
    balanced = fairlearn_metrics.MetricFrame(metrics=balanced_accuracy_score, **arguments)
    expected["balanced_accuracy_difference"] = balanced.difference()
    assert set(expected) == set(metrics.GROUP_METRICS)
    for name, value in expected.items():
        assert value > 0.001, name
        assert_allclose(
            evaluation.metrics[f"{name}.{attribute}"].value, value, rtol=1e-12, err_msg=name
        )


def test_against_sklearn(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes, evaluation = evaluated(random_outcomes)
    assert len(np.unique(outcomes.score)) < outcomes.n  # ties are there
    assert_allclose(
        evaluation.metrics["auc"].value, roc_auc_score(outcomes.y_true, outcomes.score), rtol=1e-12
    )
    assert_allclose(
        evaluation.metrics["balanced_accuracy"].value,
        balanced_accuracy_score(outcomes.y_true, outcomes.y_pred),
        rtol=1e-12,
    )
    assert_allclose(
        evaluation.metrics["accuracy"].value,
        np.mean(outcomes.y_true == outcomes.y_pred),
        rtol=1e-12,
    )


def test_against_aif360(
    random_outcomes: Callable[..., Outcomes], aif360_metrics: ModuleType
) -> None:
    outcomes, evaluation = evaluated(random_outcomes)
    theil = aif360_metrics.generalized_entropy_error(outcomes.y_true, outcomes.y_pred, alpha=1)
    assert theil > 0.01
    assert_allclose(evaluation.metrics["theil_index"].value, theil, rtol=1e-12)
    index = pd.Index(outcomes.sensitive["sex"].astype(str), name="sex", dtype=object)
    odds = aif360_metrics.average_odds_error(
        pd.Series(outcomes.y_true, index=index), outcomes.y_pred, prot_attr="sex", priv_group="M"
    )
    assert_allclose(evaluation.metrics["average_odds_difference.sex"].value, odds, rtol=1e-12)


@pytest.fixture(scope="module")
def aif360_classification(aif360_metrics: ModuleType) -> Callable[..., Any]:
    """``ClassificationMetric`` of a table of two groups, 1 the privileged one."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from aif360.datasets import BinaryLabelDataset
        from aif360.metrics import ClassificationMetric
    logging.disable(logging.NOTSET)

    def build(label: list[int], prediction: list[int], group: list[int]) -> Any:
        def table(values: list[int]) -> Any:
            frame = pd.DataFrame({"group": group, "y": values}, dtype=float)
            return BinaryLabelDataset(
                df=frame, label_names=["y"], protected_attribute_names=["group"]
            )

        return ClassificationMetric(
            table(label),
            table(prediction),
            unprivileged_groups=[{"group": 0.0}],
            privileged_groups=[{"group": 1.0}],
        )

    return build


BIT = st.integers(0, 1)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(BIT, BIT, BIT), max_size=60),
    predicted=st.lists(BIT, min_size=4, max_size=4),
)
def test_random_tables_against_aif360(
    rows: list[tuple[int, int, int]],
    predicted: list[int],
    aif360_classification: Callable[..., Any],
) -> None:
    # each group has both labels, so that every rate is there
    present = [
        (0, predicted[0], 0),
        (0, predicted[1], 1),
        (1, predicted[2], 0),
        (1, predicted[3], 1),
    ]
    label, prediction, group = (list(part) for part in zip(*present, *rows, strict=True))
    names = np.where(np.array(group) == 1, "M", "F")
    outcomes = Outcomes(label, prediction, prediction, {"sex": names})
    found = {
        name: metric.value
        for name, metric in evaluate(outcomes, draws=0, min_cell=1).metrics.items()
    }
    theirs = aif360_classification(label, prediction, group)
    balanced = [
        (theirs.true_positive_rate(privileged) + theirs.true_negative_rate(privileged)) / 2
        for privileged in (True, False)
    ]
    expected = {
        "equal_opportunity_difference.sex": abs(theirs.equal_opportunity_difference()),
        "average_odds_difference.sex": theirs.average_abs_odds_difference(),
        "demographic_parity_difference.sex": abs(theirs.statistical_parity_difference()),
        "balanced_accuracy_difference.sex": abs(balanced[0] - balanced[1]),
        "accuracy": theirs.accuracy(),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name
    if any(y == 0 or p == 1 for y, p in zip(label, prediction, strict=True)):
        assert found["theil_index"] == pytest.approx(theirs.theil_index(), abs=1e-12)
    else:
        assert found["theil_index"] is None  # nobody has any benefit


def test_theil_index_row_by_row(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes, evaluation = evaluated(random_outcomes)
    benefit = outcomes.y_pred - outcomes.y_true + 1
    share = benefit[benefit > 0] / benefit.mean()
    assert_allclose(
        evaluation.metrics["theil_index"].value,
        np.sum(share * np.log(share)) / outcomes.n,
        rtol=1e-12,
    )


def test_consistency_is_a_share_of_rows(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes, evaluation = evaluated(random_outcomes)
    for name, flags in outcomes.consistent.items():
        assert evaluation.metrics[f"consistency.{name}"].value == pytest.approx(
            flags.mean(), abs=1e-15
        )


def test_every_metric_is_in_the_catalogue_in_this_order(
    random_outcomes: Callable[..., Outcomes],
) -> None:
    _, evaluation = evaluated(random_outcomes)
    known = [name.split(".")[0] for name in names_of("classifier") if name != "recall.<class>"]
    # these are measured beside the evaluation
    beside = [
        "token_gap",
        "token_gap_p95",
        "subgroup_auc_min",
        "bpsn_auc_min",
        "bnsp_auc_min",
        *["certificate"] * 14,
        "probability_spread",
        "leak_suspected",
        "features_asked",
        "adversary_auc",
        "metric_leak",
        "adapted_consistency",
        "reasons_kept",
        "membership_auc",
    ]
    assert [*dict.fromkeys(name.split(".")[0] for name in evaluation.metrics), *beside] == known
