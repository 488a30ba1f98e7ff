"""Calibrations: hand-computed maps, scikit-learn on the same fold, choice by loss, bad and few
rows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from evenhand.fairlib.methods.calibration import KINDS, Calibration, Kind, fit_calibration

Float64 = NDArray[np.float64]


class LogOdds(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose scores are its inputs."""

    classes_ = np.array([0, 1])

    def fit(self, X: Float64, y: NDArray[np.int64]) -> LogOdds:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Float64) -> Float64:
        return X[:, 0]

    def predict(self, X: Float64) -> NDArray[np.int64]:
        return (X[:, 0] > 0).astype(np.int64)


class Probabilities(LogOdds):
    """A classifier whose probabilities are its inputs, without a decision function."""

    @property
    def decision_function(self) -> Any:
        raise AttributeError

    def predict_proba(self, X: Float64) -> Float64:
        return np.stack([1 - X[:, 0], X[:, 0]], axis=1)


def rows(
    n: int = 2000, *, seed: int = 0, slope: float = 1.0, shift: float = 0.0
) -> tuple[Float64, NDArray[np.int64]]:
    """Probabilities of a model whose log-odds are `slope` times too large, `shift` too high;
    labels.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 1.5, n)
    y = (rng.random(n) < expit(z)).astype(np.int64)
    return expit(slope * z + shift), y


def mean_loss(y: NDArray[np.int64], p: Float64) -> float:
    return float(log_loss(y, p))


@pytest.mark.parametrize("slope", [0.3, 1.0, 3.0])
def test_the_same_as_scikit_learn_on_the_same_fold(slope: float) -> None:
    """A sigmoid is of the log-odds, as of a decision function; isotonic regression of the
    probabilities.
    """
    p, y = rows(slope=slope)
    new = np.concatenate([rows(500, seed=1, slope=slope)[0], [1e-9, 1 - 1e-9]])
    for kind, model, own, asked in (
        ("sigmoid", LogOdds(), logit(p), logit(new)),
        ("isotonic", Probabilities(), p, new),
    ):
        other = CalibratedClassifierCV(FrozenEstimator(model), method=kind).fit(own[:, None], y)
        expected = other.predict_proba(asked[:, None])[:, 1]
        found, losses = fit_calibration(p, y, kind)  # type: ignore[arg-type]
        assert found.kind == kind
        assert losses == {}
        assert np.abs(found(new) - expected).max() <= 1e-6 + 1e-12


def test_maps_by_hand() -> None:
    half = Calibration("sigmoid", 0.0, (2.0, -1.0))
    assert half([0.5]) == pytest.approx([expit(-1.0)], abs=1e-15)
    assert half([0.8]) == pytest.approx([expit(2.0 * np.log(4.0) - 1.0)], abs=1e-15)
    # 3 ln 0.25 - 2 ln 0.75 + 1
    beta = Calibration("beta", 0.0, (3.0, 2.0, 1.0))
    assert beta([0.25]) == pytest.approx(
        [expit(3 * np.log(0.25) - 2 * np.log(0.75) + 1)], abs=1e-15
    )
    steps = Calibration("isotonic", 0.0, (), (0.2, 0.4, 0.8), (0.0, 0.5, 1.0))
    assert steps([0.1, 0.3, 0.4, 0.6, 0.9]) == pytest.approx(
        [1e-6, 0.25, 0.5, 0.75, 1 - 1e-6], abs=1e-12
    )


def test_beta_with_equal_coefficients_is_a_sigmoid() -> None:
    p = np.linspace(0.001, 0.999, 301)
    beta, sigmoid = (
        Calibration("beta", 0.3, (1.7, 1.7, 0.4)),
        Calibration("sigmoid", 0.3, (1.7, 0.4)),
    )
    assert beta(p) == pytest.approx(sigmoid(p), abs=1e-13)


def test_class_weights_are_taken_out_by_bayes_rule() -> None:
    # rows of label 1 counted four times: odds p / (1 - p) were four times too high
    p = np.array([0.1, 0.5, 0.8])
    odds = p / (1 - p) / 4.0
    found = Calibration("none", float(np.log(4.0)))(p)
    assert found == pytest.approx(odds / (1 + odds), abs=1e-15)


def test_without_a_map_probabilities_stay_bit_for_bit() -> None:
    p = rows(50)[0]
    assert np.array_equal(Calibration()(p), p)
    assert Calibration()([0.0, 1.0]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_no_map_decreases_or_leaves_zero_to_one(kind: Kind, shift: float) -> None:
    p, y = rows(slope=2.0, shift=shift)
    found = fit_calibration(p, y, kind, shift=shift)[0]
    mapped = found(np.concatenate([[0.0], np.linspace(1e-9, 1 - 1e-9, 2001), [1.0]]))
    assert np.isfinite(mapped).all()
    assert (np.diff(mapped) >= 0).all()
    assert (mapped >= 0).all()
    assert (mapped <= 1).all()


def test_a_beta_map_never_decreases() -> None:
    """This holds even where the likelihood would decrease it."""
    rng = np.random.default_rng(0)
    # people at both ends are positive: the unlimited maximum has one negative coefficient
    p = rng.random(4000)
    y = (rng.random(4000) < np.abs(2 * p - 1) ** 2).astype(np.int64)
    a, b, _ = fit_calibration(p, y, "beta")[0].parameters
    assert a >= 0
    assert b >= 0
    assert min(a, b) == 0.0
    # a score that says the opposite tells nothing: the share of positives for everybody
    z = np.sort(rng.normal(size=4000))
    against = (rng.random(4000) < expit(-2 * z)).astype(np.int64)
    found = fit_calibration(expit(z), against, "beta")[0]
    assert found(expit(z)) == pytest.approx(np.full(4000, against.mean()), abs=1e-12)


def test_the_map_does_not_depend_on_the_rows_beside() -> None:
    p, y = rows()
    for kind in KINDS:
        found = fit_calibration(p, y, kind, shift=0.2)[0]
        together = found(p[:257])
        assert np.array_equal(together, [found(p[i : i + 1])[0] for i in range(257)])


def test_auto_takes_the_smallest_loss_of_the_same_folds() -> None:
    p, y = rows(slope=2.5, shift=0.7)
    found, losses = fit_calibration(p, y)
    assert set(losses) == set(KINDS)
    assert found.kind == min(losses, key=losses.__getitem__)
    assert found == fit_calibration(p, y, found.kind)[0]
    assert losses["none"] == pytest.approx(mean_loss(y, p), abs=1e-12)
    # the truth is a sigmoid of the log-odds
    truth = mean_loss(y, expit((logit(p) - 0.7) / 2.5))
    assert losses["sigmoid"] == pytest.approx(truth, abs=3e-3)
    assert losses["none"] > truth + 0.1


def test_losses_of_impossible_events_are_finite() -> None:
    """Votes of few trees are 0 and 1, and some of them wrong."""
    votes = np.tile([0.0, 1.0], 50)
    labels = np.tile([0, 1], 50)
    labels[:2] = [1, 0]
    _, losses = fit_calibration(votes, labels)
    assert losses["none"] == pytest.approx(mean_loss(labels, votes))
    assert np.isfinite(list(losses.values())).all()


def test_auto_leaves_calibrated_probabilities_alone() -> None:
    """No calibration is better there."""
    p, y = rows(seed=3)
    found, losses = fit_calibration(p, y)
    assert min(losses.values()) >= losses["none"] - 2e-3
    assert found(p) == pytest.approx(p, abs=0.05)


def test_ties_of_losses_and_reruns_change_nothing() -> None:
    p, y = rows(slope=2.0)
    assert fit_calibration(p, y) == fit_calibration(p.copy(), y.copy())
    assert fit_calibration(p.tolist(), y.tolist()) == fit_calibration(p, y)


def test_isotonic_regression_needs_a_thousand_rows_in_auto() -> None:
    p, y = rows(999)
    assert "isotonic" not in fit_calibration(p, y)[1]
    p, y = rows(1000)
    assert "isotonic" in fit_calibration(p, y)[1]


@pytest.mark.parametrize("kind", ["auto", *KINDS])
@pytest.mark.parametrize("label", [0, 1])
def test_too_few_rows_of_a_label_correct_class_weights_only(kind: Kind, label: int) -> None:
    y = np.full(40, label)
    y[:4] = 1 - label
    p = rows(40)[0]
    assert fit_calibration(p, y, kind, shift=0.5) == (Calibration(shift=0.5), {})
    assert fit_calibration(p, np.full(40, label), kind)[0] == Calibration()


@pytest.mark.parametrize("kind", ["auto", *KINDS])
def test_equal_and_perfect_scores(kind: Kind) -> None:
    y = np.tile([0, 1, 1, 0, 1], 20)
    same = fit_calibration(np.full(100, 0.3), y, kind)[0]([0.3])
    assert same == pytest.approx([0.3 if kind == "none" else 0.6], abs=2e-3)
    perfect = fit_calibration(np.where(y == 1, 1.0, 0.0), y, kind)[0]([0.0, 1.0])
    assert perfect[0] < 0.05
    assert perfect[1] > 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_json_keeps_every_bit(kind: Kind) -> None:
    p, y = rows(slope=1.5)
    found = fit_calibration(p, y, kind, shift=0.25)[0]
    again = Calibration.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert np.array_equal(again(p), found(p))
