from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.bootstrap import (
    JointTable,
    auc_draws,
    distinct_rows,
    multinomial_chunks,
    percentile_interval,
    score_bins,
    score_table,
)
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, OVERALL_METRICS, auc
from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups
from evenhand.fairlib.evaluation.probabilities import probability_draws

NAMES = [
    "accuracy",
    "balanced_accuracy",
    "theil_index",
    "consistency.spouse",
    *(f"{name}.{attribute}" for name in GROUP_METRICS for attribute in ("sex", "race")),
]


def joint_table(outcomes: Outcomes) -> JointTable:
    codes = {}
    for name, column in outcomes.sensitive.items():
        groups, code = encode_groups(column)
        codes[name] = (code, len(groups))
    return JointTable(outcomes.y_true, [outcomes.y_pred], codes, [outcomes.consistent])


def naive_draws(outcomes: Outcomes, draws: int, seed: int) -> dict[str, np.ndarray]:
    """Resample whole rows and evaluate them from scratch."""
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {}
    for _ in range(draws):
        rows = rng.integers(0, outcomes.n, outcomes.n)
        resampled = Outcomes(
            outcomes.y_true[rows],
            outcomes.y_pred[rows],
            outcomes.score[rows],
            {name: column[rows] for name, column in outcomes.sensitive.items()},
            {name: flags[rows] for name, flags in outcomes.consistent.items()},
        )
        for name, metric in evaluate(resampled, draws=0, min_cell=1).metrics.items():
            # the bins of the calibration error are those of all rows: see test_probabilities
            if name != "ece":
                values.setdefault(name, []).append(metric.value)
    return {name: np.array(numbers) for name, numbers in values.items()}


def our_draws(outcomes: Outcomes, draws: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    ((counts,),) = joint_table(outcomes).draws(draws, rng)
    values = {name: metric.function(counts.overall) for name, metric in OVERALL_METRICS.items()}
    values |= {
        f"consistency.{name}": agreeing / outcomes.n for name, agreeing in counts.agreeing.items()
    }
    for attribute, cells in counts.groups.items():
        values |= {
            f"{name}.{attribute}": metric.function(cells) for name, metric in GROUP_METRICS.items()
        }
    codes = {
        name: (np.unique(column, return_inverse=True)[1], len(set(column)))
        for name, column in outcomes.sensitive.items()
    }
    (probabilities,) = probability_draws([outcomes], codes, draws, rng)
    del probabilities["ece"]
    return (
        values
        | probabilities
        | {"auc": auc_draws(outcomes.y_true, [outcomes.score], draws, rng)[0]}
    )


@pytest.mark.long
def test_same_distribution_as_resampling_rows(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(300, 8)
    naive, ours = naive_draws(outcomes, 1500, 1), our_draws(outcomes, 6000, 2)
    assert set(naive) == set(ours) >= {*NAMES, "auc"}
    for name, expected in naive.items():
        spread = expected.std()
        assert spread > 0.003, name
        # five standard errors of a mean and of a standard deviation of 1500 draws
        assert abs(ours[name].mean() - expected.mean()) < 5 * spread / np.sqrt(1200), name
        assert ours[name].std() == pytest.approx(spread, rel=5 / np.sqrt(2 * 1200)), name
        for q in (0.05, 0.5, 0.95):  # metrics that count rows move in steps of 1 / n
            difference = np.quantile(ours[name], q) - np.quantile(expected, q)
            assert abs(difference) < 0.25 * spread + 1.01 / outcomes.n, (name, q)


def test_interval_of_a_share_is_the_binomial_one() -> None:
    n = 2000
    y_pred = (np.arange(n) % 5 > 0).astype(int)  # accuracy 0.8
    evaluation = evaluate(Outcomes(np.ones(n, dtype=int), y_pred, y_pred * 0.5, {}), draws=4000)
    metric = evaluation.metrics["accuracy"]
    half = 1.96 * np.sqrt(0.8 * 0.2 / n)
    assert_allclose([metric.low, metric.high], [0.8 - half, 0.8 + half], atol=0.08 * half)
    wide = evaluate(
        Outcomes(np.ones(n, dtype=int), y_pred, y_pred * 0.5, {}), draws=4000, level=0.99
    )
    assert_allclose(wide.metrics["accuracy"].high - 0.8, half / 1.96 * 2.576, rtol=0.08)


def test_seeds(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(250, 4)
    first, again, other = (evaluate(outcomes, draws=200, seed=seed) for seed in (7, 7, 8))
    assert first == again
    for name in ("auc", "log_loss", "brier", "theil_index"):
        assert first.metrics[name].value == other.metrics[name].value
        assert (first.metrics[name].low, first.metrics[name].high) != (
            other.metrics[name].low,
            other.metrics[name].high,
        ), name
    # closed forms do not depend on draws
    for name in NAMES:
        if name not in ("auc", "theil_index"):
            assert first.metrics[name] == other.metrics[name]


def test_order_of_rows_does_not_matter(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(250, 4)
    order = np.random.default_rng(0).permutation(250)
    shuffled = Outcomes(
        outcomes.y_true[order],
        outcomes.y_pred[order],
        outcomes.score[order],
        {name: column[order] for name, column in outcomes.sensitive.items()},
        {name: flags[order] for name, flags in outcomes.consistent.items()},
    )
    assert evaluate(shuffled, draws=100) == evaluate(outcomes, draws=100)


def test_chunks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.array([3, 1, 8, 5])
    (whole,) = multinomial_chunks(weights, 50, np.random.default_rng(3))
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 8 * 4 * 7)
    parts = list(multinomial_chunks(weights, 50, np.random.default_rng(3)))
    assert [len(part) for part in parts] == [7] * 7 + [1]
    assert_array_equal(np.concatenate(parts), whole)
    assert (whole.sum(axis=1) == 17).all()
    # a chunk smaller than one draw holds one
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 1)
    singles = list(multinomial_chunks(weights, 5, np.random.default_rng(3)))
    assert [len(part) for part in singles] == [1] * 5


def test_chunks_have_32_mebibytes_by_default() -> None:
    asked = []

    class Generator:
        def multinomial(self, n: int, shares: np.ndarray, size: int) -> None:
            asked.append((n, len(shares), size))

    rows = 2**16
    calls: list[tuple[int, int]] = []
    list(
        multinomial_chunks(
            np.ones(rows, dtype=np.int64),
            150,
            Generator(),
            callback=lambda *call: calls.append(call),  # type: ignore[arg-type]
        )
    )
    # 64 draws of 2**16 numbers of 8 bytes each
    assert asked == [(rows, rows, 64), (rows, rows, 64), (rows, rows, 22)]
    assert calls == [(64, 150), (128, 150), (150, 150)]


def test_joint_table_keeps_the_counts(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(400, 9)
    table = joint_table(outcomes)
    assert len(table.weights) <= 2 * 2 * 2 * 3 * 2 * 2
    (counts,) = table.counts(table.weights)
    assert counts.agreeing["spouse"] == outcomes.consistent["spouse"].sum()
    for k, group in enumerate("ABC"):
        for label in (0, 1):
            for prediction in (0, 1):
                rows = (outcomes.sensitive["race"] == group) & (outcomes.y_true == label)
                assert counts.groups["race"][k, label, prediction] == np.sum(
                    rows & (outcomes.y_pred == prediction)
                )
    ((drawn,),) = table.draws(20, np.random.default_rng(0))
    assert_array_equal(drawn.groups["sex"].sum(axis=1), drawn.overall)
    assert_array_equal(drawn.groups["race"].sum(axis=1), drawn.overall)


def test_many_attributes_do_not_overflow() -> None:
    # 64 ** 14 exceeds 64 bits: a code that wraps around would lose the first attribute, which alone
    # varies
    n, zeros = 60, np.zeros(60, dtype=np.int64)
    codes = {"varies": (np.arange(n), 64)} | {f"a{k}": (zeros, 64) for k in range(13)}
    table = JointTable(zeros, [zeros], codes, [{}])
    assert len(table.weights) == n
    (counts,) = table.counts(table.weights)
    assert_array_equal(counts.groups["varies"].sum(axis=(1, 2)), [1] * n + [0] * 4)
    assert_array_equal(counts.groups["a12"].sum(axis=(1, 2)), [n] + [0] * 63)


def test_binned_scores_keep_order_and_ties() -> None:
    rng = np.random.default_rng(5)
    y_true = rng.integers(0, 2, 5000)
    score = np.clip(0.5 + 0.2 * (y_true - 0.5) + 0.2 * rng.standard_normal(5000), 0, 1)
    exact = auc(*score_table(y_true, score))
    assert_allclose(exact, roc_auc_score(y_true, score), rtol=1e-12)
    positives, negatives = score_table(y_true, score_bins(score, 100) * 1.0)
    assert len(positives) <= 100
    assert positives.sum() + negatives.sum() == 5000
    assert abs(auc(positives, negatives) - exact) < 1e-3
    # heavily tied scores: a bin is never split
    tied = np.where(rng.random(5000) < 0.5, 0.5, score)
    positives, negatives = score_table(y_true, score_bins(tied, 100) * 1.0)
    assert (positives + negatives).max() >= np.sum(tied == 0.5)
    assert abs(auc(positives, negatives) - roc_auc_score(y_true, tied)) < 1e-3


def test_binned_auc_draws_have_the_same_distribution() -> None:
    rng = np.random.default_rng(6)
    y_true = rng.integers(0, 2, 1000)
    score = np.clip(0.5 + 0.2 * (y_true - 0.5) + 0.2 * rng.standard_normal(1000), 0, 1)
    (exact,) = auc_draws(y_true, [score], 2000, np.random.default_rng(1))
    (binned,) = auc_draws(y_true, [score], 2000, np.random.default_rng(2), max_bins=200)
    assert exact.std() > 0.005
    assert_allclose(binned.mean(), exact.mean(), atol=5 * exact.std() / np.sqrt(1000))
    assert_allclose(binned.std(), exact.std(), rtol=5 / np.sqrt(2000))


def test_undefined_draws_are_left_out() -> None:
    values = np.array([np.nan, 0.0, 1.0, 2.0, 3.0, 4.0, np.nan])
    assert percentile_interval(values, 0.5) == (1.0, 3.0)
    assert percentile_interval(values, 0.5, point=0.5) == (0.5, 3.0)
    assert percentile_interval(values, 0.5, point=3.5) == (1.0, 3.5)
    assert percentile_interval(np.array([np.nan, np.nan, 1.0]), 0.5) == (None, None)
    assert percentile_interval(np.full(3, np.nan), 0.5) == (None, None)
    assert percentile_interval(np.empty(0), 0.5) == (None, None)
    # half of the draws are enough, and one draw is an interval of no width
    assert percentile_interval(np.array([2.0, np.nan]), 0.5) == (2.0, 2.0)


def test_wrong_rows_move_the_interval(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(600, 10)
    worse = replace(outcomes, y_pred=1 - outcomes.y_pred)
    low = evaluate(outcomes, draws=200).metrics["accuracy"].low
    high = evaluate(worse, draws=200).metrics["accuracy"].high
    assert low is not None
    assert high is not None
    assert high < 0.5 < low


@pytest.mark.parametrize("sizes", [(2, 3), (40, 50)])  # counted; sorted
def test_distinct_rows_are_those_of_numpy(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    columns = [(rng.integers(0, size, 60), size) for size in sizes]
    columns[0][0][columns[0][0] == 1] = 0  # a value that no row has
    first, weights = distinct_rows(columns)
    rows = np.stack([column for column, _ in columns], axis=1)
    distinct, expected, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    assert_array_equal(rows[first], distinct)
    assert_array_equal(first, expected)
    assert_array_equal(weights, counts)
