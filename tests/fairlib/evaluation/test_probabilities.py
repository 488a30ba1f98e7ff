"""Metrics of probabilities: by hand, against scikit-learn and loops; their draws; reliability
curves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss

from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.bootstrap import score_bins
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.evaluation.probabilities import (
    debiased_calibration_error,
    probability_draws,
    probability_values,
    reliability,
)

Build = Callable[..., Outcomes]


def codes_of(outcomes: Outcomes) -> dict[str, tuple[np.ndarray, int]]:
    return {
        name: (np.unique(column, return_inverse=True)[1], len(set(column)))
        for name, column in outcomes.sensitive.items()
    }


def calibrated(n: int, seed: int, shift: float = 0.0) -> Outcomes:
    """People whose label has the probability of their score, up to a shift of the log-odds."""
    rng = np.random.default_rng(seed)
    logit = 1.5 * rng.standard_normal(n)
    score, truth = (1 / (1 + np.exp(-x)) for x in (logit, logit + shift))
    group = np.where(rng.random(n) < 0.4, "F", "M")
    return Outcomes(
        (rng.random(n) < truth).astype(int), (score > 0.5).astype(int), score, {"sex": group}
    )


def ece_by_hand(outcomes: Outcomes) -> float:
    """The docstring's formula, bin by bin."""
    total, bins = 0.0, score_bins(outcomes.score, 10)
    for b in range(bins.max() + 1):
        p, y = outcomes.score[bins == b], outcomes.y_true[bins == b]
        d, s = abs(p.mean() - y.mean()), math.sqrt((p * (1 - p)).sum()) / len(p)
        noise = s * math.sqrt(2 / math.pi) * math.exp(-(d**2) / (2 * s**2)) + d * (
            1 - 2 * norm.cdf(-d / s)
        )
        total += len(p) / outcomes.n * (2 * d - noise)
    return max(0.0, total)


def test_by_hand() -> None:
    label, score = [1, 0, 1, 0] * 5, [0.5, 0.5, 0.75, 0.25] * 5
    sex = ["F", "F", "M", "M"] * 5
    found = evaluate(Outcomes(label, label, score, {"sex": sex}), draws=0).metrics
    loss = -(math.log(0.5) + math.log(0.75)) / 2
    assert found["log_loss"].value == pytest.approx(loss)
    assert found["log_loss_gain"].value == pytest.approx(math.log(2) - loss)
    assert found["brier"].value == pytest.approx((0.25 + 0.0625) / 2)
    assert found["calibration_gap.sex"].value == 0.0
    unlike = Outcomes(label, label, score, {"sex": ["F", "M", "F", "M"] * 5})
    # women: mean probability .625, all positive; men: .375, none
    assert evaluate(unlike, draws=0).metrics["calibration_gap.sex"].value == pytest.approx(0.75)


def test_against_scikit_learn_and_the_formula(random_outcomes: Build) -> None:
    for outcomes in (random_outcomes(400, 2), calibrated(5000, 3, 0.7)):
        found = evaluate(outcomes, draws=0).metrics
        assert found["log_loss"].value == pytest.approx(
            log_loss(outcomes.y_true, outcomes.score), rel=1e-12
        )
        assert found["brier"].value == pytest.approx(
            brier_score_loss(outcomes.y_true, outcomes.score)
        )
        assert found["ece"].value == pytest.approx(ece_by_hand(outcomes), rel=1e-10)
        error = outcomes.score - outcomes.y_true
        for name, column in outcomes.sensitive.items():
            means = [error[column == group].mean() for group in set(column)]
            assert found[f"calibration_gap.{name}"].value == pytest.approx(max(means) - min(means))


def test_certain_and_wrong_is_a_large_loss_and_not_infinite() -> None:
    found = evaluate(Outcomes([1] * 5 + [0] * 5, [0] * 10, [0.0] * 10, {}), draws=50).metrics
    assert found["log_loss"].value == pytest.approx(-math.log(np.finfo(float).eps) / 2)
    assert found["log_loss"].low < found["log_loss"].high < 37
    # without variance under the probabilities there is nothing to correct for
    assert found["ece"].value == pytest.approx(0.5)


def test_constant_base_rate_gains_nothing() -> None:
    label = np.array([1] * 6 + [0] * 14)
    found = evaluate(Outcomes(label, label, [0.3] * 20, {}), draws=0).metrics
    assert found["log_loss_gain"].value == pytest.approx(0.0, abs=1e-15)
    assert found["ece"].value == 0.0
    # of one label the base rate has no entropy
    one = evaluate(Outcomes([1] * 20, [1] * 20, [0.5] * 20, {}), draws=50).metrics
    assert one["log_loss_gain"].value == pytest.approx(-math.log(2))


def test_correction_removes_what_chance_gives() -> None:
    corrected, plain = [], []
    for seed in range(40):
        rows = calibrated(2000, seed)
        corrected.append(float(probability_values(rows, {})["ece"]))
        bins = score_bins(rows.score, 10)
        error = np.bincount(bins, weights=rows.score - rows.y_true)
        plain.append(np.abs(error).sum() / rows.n)
    assert np.mean(plain) > 0.02
    assert np.mean(corrected) < 0.65 * np.mean(plain)
    # a large error is hardly corrected
    off = calibrated(20_000, 1, 1.0)
    assert float(probability_values(off, {})["ece"]) == pytest.approx(
        abs(np.mean(off.score - off.y_true)), rel=0.05
    )


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-160, 1e8])
def test_correction_at_any_scale_has_no_warning(scale: float) -> None:
    residuals, variances = np.array([[2.0, 0.0, -1.0]]), np.array([[0.0, 0.5, 1.0]]) * scale
    found = debiased_calibration_error(residuals, variances, np.array([10.0]))
    assert np.isfinite(found).all()
    if scale < 1e-100:
        assert_allclose(found, 0.3)


def test_draws_are_those_of_resampled_rows_and_fixed_bins() -> None:
    rows = calibrated(240, 5, 0.5)
    bins, rng = score_bins(rows.score, 10), np.random.default_rng(0)
    naive = []
    for _ in range(1500):
        w = np.bincount(rng.integers(0, 240, 240), minlength=240)
        error = np.bincount(bins, weights=w * (rows.score - rows.y_true))
        variance = np.bincount(bins, weights=w * rows.score * (1 - rows.score))
        naive.append(debiased_calibration_error(error, variance, np.array(240.0)))
    (ours,) = probability_draws([rows], codes_of(rows), 6000, np.random.default_rng(1))
    spread = np.std(naive)
    assert abs(ours["ece"].mean() - np.mean(naive)) < 5 * spread / np.sqrt(1200)
    assert ours["ece"].std() == pytest.approx(spread, rel=0.1)


def test_blocks_of_rows_give_the_spread_of_rows() -> None:
    rows, other = calibrated(6000, 7, 0.3), calibrated(6000, 8)
    other = replace(rows, score=0.7 * rows.score + 0.3 * other.score)
    exact, blocks = (
        probability_draws(
            [rows, other], codes_of(rows), 1500, np.random.default_rng(2), max_blocks=size
        )
        for size in (6000, 1500)
    )
    for (full, full_other), (part, part_other) in [(exact, blocks)]:
        for name, values in full.items():
            for one, two in (
                (values, part[name]),
                (values - full_other[name], part[name] - part_other[name]),
            ):
                assert two.std() == pytest.approx(one.std(), rel=0.12), name
                assert abs(two.mean() - one.mean()) < 0.2 * one.std(), name


def test_order_of_rows_does_not_matter_for_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = calibrated(400, 3)
    order = np.random.default_rng(1).permutation(400)
    shuffled = Outcomes(
        rows.y_true[order],
        rows.y_pred[order],
        rows.score[order],
        {"sex": rows.sensitive["sex"][order]},
    )
    both = [
        probability_draws([each, each], codes_of(each), 50, np.random.default_rng(4), max_blocks=90)
        for each in (rows, shuffled)
    ]
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 8 * 90 * 7)
    parts = probability_draws([rows], codes_of(rows), 50, np.random.default_rng(4), max_blocks=90)
    for name, values in both[0][0].items():
        assert_array_equal(values, both[1][0][name])
        assert_array_equal(values, both[0][1][name])
        assert_array_equal(values, parts[0][name])


def test_interval_of_the_calibration_error_is_about_its_estimate() -> None:
    covered = 0
    for seed in range(30):
        metric = evaluate(calibrated(3000, seed), draws=60, seed=seed).metrics["ece"]
        assert 0.0 <= metric.low <= metric.value <= metric.high < 0.05
        covered += metric.low <= 0.004
    # a calibrated model has no error: most intervals reach to it, though resampling alone never
    # would
    assert covered > 20


def test_shortages(random_outcomes: Build) -> None:
    rows = calibrated(40, 1)
    found = evaluate(rows, draws=20).metrics
    assert (
        found["ece"].reason
        == "the table: 40 rows in 10 bins of scores, fewer than 5 per bin on average"
    )
    assert found["log_loss"].status == found["calibration_gap.sex"].status == "ok"
    # two scores make two bins
    coarse = replace(rows, score=np.where(rows.score > 0.5, 0.75, 0.25))
    assert evaluate(coarse, draws=20).metrics["ece"].status == "ok"
    assert compare(coarse, rows, draws=20).differences["ece"].status == "insufficient_evidence"
    assert compare(rows, coarse, draws=20).differences["ece"].status == "insufficient_evidence"
    known = evaluate(replace(rows, groups={"sex": ["F", "M", "X"]}), draws=20)
    assert known.metrics["calibration_gap.sex"].value == found["calibration_gap.sex"].value
    assert [group["group"] for group in known.groups["calibration_gap.sex"]["left_out"]] == ["X"]


def test_better_calibrated_model_is_found_in_a_comparison() -> None:
    rows = calibrated(4000, 2)
    odds = rows.score / (1 - rows.score)
    shrunken = replace(rows, score=odds**0.4 / (1 + odds**0.4))
    found = compare(rows, shrunken, draws=200).differences
    for name in ("log_loss", "brier", "ece"):
        assert found[name].high < 0, name
    assert found["log_loss_gain"].low > 0
    assert found["auc"].value == 0.0


def test_reliability_by_hand() -> None:
    score = np.repeat([0.1, 0.3, 0.6, 0.9], [10, 6, 20, 3])
    label = np.concatenate([[1] * 2 + [0] * 8, [1] * 2 + [0] * 4, [1] * 12 + [0] * 8, [1] * 3])
    sex = np.array(["F"] * 10 + ["M"] * 29)
    found = reliability(
        Outcomes(label, label, score, {"sex": sex}, groups={"sex": ["F", "M", "X"]})
    )
    low, high = rate_interval(2, 6, 0.95)
    assert [bin_["n"] for bin_ in found["overall"]] == [10, 6, 20]  # the three of .9 are hidden
    assert found["overall"][1] == {
        "mean": pytest.approx(0.3),
        "share": pytest.approx(1 / 3),
        "low": low,
        "high": high,
        "n": 6,
    }
    assert [bin_["n"] for bin_ in found["groups"]["sex"]["F"]] == [10]
    assert found["groups"]["sex"]["X"] == []
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    with pytest.raises(ValueError, match="bins: got 0"):
        reliability(Outcomes(label, label, score, {}), bins=0)


def test_reliability_has_bins_of_about_equal_count() -> None:
    rows = calibrated(1003, 4)
    found = reliability(rows)
    assert len(found["overall"]) == 10
    assert sum(bin_["n"] for bin_ in found["overall"]) == 1003
    assert {bin_["n"] for bin_ in found["overall"]} <= {100, 101}
    means = [bin_["mean"] for bin_ in found["overall"]]
    assert means == sorted(means)
    assert np.average(means, weights=[bin_["n"] for bin_ in found["overall"]]) == pytest.approx(
        rows.score.mean()
    )
    women = rows.sensitive["sex"] == "F"
    assert sum(bin_["n"] for bin_ in found["groups"]["sex"]["F"]) == women.sum()
    # twelve people have room for two bins of five
    few = replace(rows, sensitive={"sex": np.array(["F"] * 12 + ["M"] * 991)})
    assert len(reliability(few)["groups"]["sex"]["F"]) == 2
