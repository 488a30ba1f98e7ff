"""The comparators' numbers are those of aif360 and Fairlearn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from comparator_samples import INPUTS, draw_people, fit_comparator
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from evenhand.fairlib.methods.comparators.adversarial import followed_gradient
from evenhand.fairlib.methods.comparators.base import optional_import
from evenhand.fairlib.methods.comparators.calibration import row_draws
from evenhand.fairlib.methods.comparators.repair import RepairMap
from evenhand.fairlib.methods.groups import set_aside
from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights

with optional_import("disparate-impact-remover"):
    from aif360.algorithms.postprocessing import CalibratedEqOddsPostprocessing
    from aif360.algorithms.preprocessing import DisparateImpactRemover, Reweighing
    from aif360.datasets import BinaryLabelDataset

    # this one imports a part of its own when it is built
    DisparateImpactRemover()


def table(group: NDArray[Any], labels: NDArray[Any], **columns: NDArray[Any]) -> BinaryLabelDataset:
    frame = pd.DataFrame({"group": group * 1.0, **columns, "label": labels * 1.0})
    return BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])


# --- logistic regression and reweighing ---


def test_logistic_is_scikit_learns() -> None:
    X, y, sensitive = draw_people()
    model = fit_comparator("logistic", X, y, sensitive, C=0.3)
    theirs = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    wider = LogisticRegression(C=3.0, tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y)
    assert np.abs(model.predict_proba(X) - wider.predict_proba(X)).max() > 1e-3


def test_reweighed_logistic_trains_with_aif360s_weights() -> None:
    X, y, sensitive = draw_people()
    group = (sensitive["sex"] == "male").astype(int)
    theirs = Reweighing([{"group": 0}], [{"group": 1}]).fit_transform(table(group, y)).instance_weights
    np.testing.assert_allclose(kamiran_calders_weights(group, y), theirs, rtol=1e-12)
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y, theirs)
    model = fit_comparator("reweigh-logistic", X, y, sensitive, threshold=0.5)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    plain = fit_comparator("logistic", X, y, sensitive)
    assert np.abs(model.predict_proba(X) - plain.predict_proba(X)).max() > 0.02


# --- disparate impact remover ---


@pytest.mark.parametrize("level", [0.0, 0.3, 0.5, 1.0])
def test_repaired_training_rows_are_aif360s(level: float) -> None:
    # values of two decimals: fewer than 101 distinct ones, so that every value is a knot
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, 150)
    X = np.column_stack(
        [
            np.round(0.2 * rng.normal(size=150) + 0.1 * group, 2),
            np.where(group == 1, 3, rng.integers(0, 5, 150)),
            rng.integers(0, 2, 150),
            np.full(150, 7),
        ]
    ).astype(np.float32)
    assert all(len(np.unique(column)) <= 101 for column in X.T)
    columns = {f"x{j}": column.astype(np.float64) for j, column in enumerate(X.T)}
    theirs = DisparateImpactRemover(level, "group").fit_transform(table(group, np.arange(150) % 2, **columns))
    distinct = [(np.unique(column[group == 0]), np.unique(column[group == 1])) for column in X.T]
    ours = RepairMap.fit(distinct, level).apply(X, group)
    np.testing.assert_array_equal(ours, theirs.features[:, 1:])
    assert np.array_equal(ours, X) == (level == 0)


def test_many_values_are_aif360s_at_the_knots() -> None:
    rng = np.random.default_rng(3)
    group = rng.integers(0, 2, 900)
    values = (rng.normal(size=900) + group).astype(np.float32)
    theirs = DisparateImpactRemover(1.0, "group").fit_transform(
        table(group, np.arange(900) % 2, x=values.astype(np.float64))
    )
    repair = RepairMap.fit([(np.unique(values[group == 0]), np.unique(values[group == 1]))], 1.0)
    assert repair.counts.tolist() == [[101, 101]]
    ours, expected = repair.apply(values[:, None], group)[:, 0], theirs.features[:, 1]
    at_knots = np.isin(values, repair.values)
    assert at_knots.sum() == 202
    np.testing.assert_array_equal(ours[at_knots], expected[at_knots])
    # between knots the map is a line where the library has steps
    assert np.quantile(np.abs(ours - expected), 0.95) < 0.05
    # all of the shift is gone: without a repair the means are 1 apart
    assert abs(ours[group == 1].mean() - ours[group == 0].mean()) < 0.05


# --- calibrated equalized odds ---


def their_calibration(
    scores: NDArray[Any], labels: NDArray[Any], group: NDArray[Any], constraint: str
) -> tuple[Any, BinaryLabelDataset]:
    true = table(group, labels)
    scored = true.copy(deepcopy=True)
    scored.scores = scores[:, None]
    fitted = CalibratedEqOddsPostprocessing([{"group": 0}], [{"group": 1}], cost_constraint=constraint)
    return fitted.fit(true, scored), scored


@pytest.mark.parametrize("constraint", ["weighted", "fpr", "fnr"])
def test_mix_rates_are_aif360s(constraint: str) -> None:
    X, y, sensitive = draw_people(600)
    group = (sensitive["sex"] == "male").astype(np.int64)
    model = fit_comparator("calibrated-equalized-odds", X, y, sensitive, cost_constraint=constraint)
    _, held = set_aside(y, 0.25, 0, group)
    scores = model.linear_.probability(X[held])
    theirs, _ = their_calibration(scores, y[held], group[held], constraint)
    expected = np.clip([theirs.unpriv_mix_rate, theirs.priv_mix_rate], 0, 1)
    np.testing.assert_allclose(model.mix_rates_, expected, rtol=1e-12)
    np.testing.assert_allclose(model.base_rates_, [theirs.base_rate_unpriv, theirs.base_rate_priv])
    assert (model.mix_rates_ > 0).sum() == 1


def test_given_their_draws_aif360_predicts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, sensitive = draw_people(600)
    group = (sensitive["sex"] == "male").astype(np.int64)
    model = fit_comparator("calibrated-equalized-odds", X, y, sensitive, threshold=0.6)
    _, held = set_aside(y, 0.25, 0, group)
    theirs, _ = their_calibration(model.linear_.probability(X[held]), y[held], group[held], "weighted")
    scored = table(group, y)
    scored.scores = model.linear_.probability(X)[:, None]
    draws = row_draws(X, 0)
    # it draws for all people of the one group, then for all of the other
    given = iter([draws[group == 0], draws[group == 1]])
    monkeypatch.setattr(np.random, "random", lambda _: next(given))
    expected = theirs.predict(scored, threshold=0.6)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected.scores[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.labels[:, 0])
    # and who is mixed is a share as large as it says
    mixed = model.predict_proba(X)[:, 1] != model.linear_.probability(X)
    side = int(model.mix_rates_.argmax())
    assert mixed[group == side].mean() == pytest.approx(model.mix_rates_[side], abs=0.1)
    assert not mixed[group != side].any()


# --- Fairlearn ---


@pytest.mark.parametrize("attribute", ["sex", "race", None])
@pytest.mark.parametrize(
    ("constraint", "objective"),
    [
        ("demographic_parity", "accuracy"),
        ("demographic_parity", "true_positive_rate"),
        ("equalized_odds", "balanced_accuracy"),
        ("true_positive_rate_parity", "accuracy"),
        ("false_positive_rate_parity", "balanced_accuracy"),
    ],
)
def test_thresholds_are_fairlearns(constraint: str, objective: str, attribute: str | None) -> None:
    from fairlearn.postprocessing import ThresholdOptimizer

    X, y, sensitive = draw_people(800)
    model = fit_comparator(
        "threshold-optimizer",
        X,
        y,
        sensitive,
        attribute=attribute,
        constraint=constraint,
        objective=objective,
    )
    names = ["sex", "race"] if attribute is None else [attribute]
    groups = np.array([" & ".join(row) for row in zip(*(sensitive[name] for name in names), strict=True)])
    _, held = set_aside(y, 0.25, 0, np.unique(groups, return_inverse=True)[1])
    prefit = LogisticRegression().fit(X.astype(np.float64), y)
    # the same regression as ours, which the library asks itself
    prefit.coef_, prefit.intercept_ = model.linear_.coefficients[None], np.array([model.linear_.intercept])
    suffix = "_score" if objective.endswith("accuracy") else ""
    theirs = ThresholdOptimizer(
        estimator=prefit, constraints=constraint, objective=objective + suffix, prefit=True
    ).fit(X[held], y[held], sensitive_features=groups[held])
    expected = theirs._pmf_predict(X, sensitive_features=groups)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert len(np.unique(expected[:, 1])) >= 2


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds", "error_rate_parity"])
def test_the_weighted_vote_is_fairlearns(constraint: str) -> None:
    from fairlearn import reductions

    X, y, sensitive = draw_people(300)
    model = fit_comparator(
        "exponentiated-gradient",
        X,
        y,
        sensitive,
        constraint=constraint,
        eps=0.02,
        max_iter=8,
        attribute="race",
    )
    moment = {
        "demographic_parity": reductions.DemographicParity,
        "equalized_odds": reductions.EqualizedOdds,
        "error_rate_parity": reductions.ErrorRateParity,
    }[constraint](difference_bound=0.02)
    estimator = LogisticRegression(solver="newton-cholesky", max_iter=1000, tol=1e-6)
    theirs = reductions.ExponentiatedGradient(estimator, moment, eps=0.02, max_iter=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it writes to pandas tables
        theirs.fit(X.astype(np.float64), y, sensitive_features=sensitive["race"])
    np.testing.assert_allclose(model.predict_proba(X), theirs._pmf_predict(X.astype(np.float64)), atol=1e-12)
    assert model.weights_.sum() == pytest.approx(1)


def test_the_reduction_meets_its_constraint() -> None:
    X, y, sensitive = draw_people(1500)
    male = sensitive["sex"] == "male"
    plain = fit_comparator("logistic", X, y, sensitive).predict(X)
    model = fit_comparator("exponentiated-gradient", X, y, sensitive, eps=0.01, max_iter=50)
    assert abs(plain[male].mean() - plain[~male].mean()) > 0.2
    expected = model.predict_proba(X)[:, 1]
    assert abs(expected[male].mean() - expected[~male].mean()) < 0.05


@pytest.mark.parametrize(
    ("constraint", "attribute"), [("demographic_parity", "sex"), ("equalized_odds", "race")]
)
def test_the_network_is_fairlearns_predictor(
    constraint: str, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlearn import adversarial

    fitted: list[Any] = []

    class Kept(adversarial.AdversarialFairnessClassifier):  # type: ignore[misc]
        def fit(self, *arguments: Any, **more: Any) -> Any:
            fitted.append(super().fit(*arguments, **more))
            return fitted[-1]

    X, y, sensitive = draw_people(300)
    monkeypatch.setattr(adversarial, "AdversarialFairnessClassifier", Kept)
    model = fit_comparator(
        "adversarial-debiasing",
        X,
        y,
        sensitive,
        constraint=constraint,
        attribute=attribute,
        hidden=(16, 8),
        adversary_hidden=(4,),
        n_epochs=5,
    )
    theirs = fitted[0]._raw_predict(X.astype(np.float64))[:, 0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], theirs, atol=1e-6)
    assert theirs.std() > 0.01


def test_the_gradient_is_the_papers() -> None:
    generator = torch.Generator().manual_seed(0)
    own, adverse, beside = torch.randn(3, 3, 4, generator=generator)
    found = followed_gradient(own, adverse, 0.3)
    # nothing of the predictor's own gradient is left along the adversary's, against which it goes
    assert float((found * adverse).sum()) == pytest.approx(-0.3 * float((adverse**2).sum()), rel=1e-5)
    beside = beside - (beside * adverse).sum() / (adverse**2).sum() * adverse
    assert float((found * beside).sum()) == pytest.approx(float((own * beside).sum()), rel=1e-4)
    assert torch.equal(followed_gradient(own, torch.zeros(3, 4), 0.3), own)


def test_a_layer_of_one_output_is_trained_as_fairlearn_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, sensitive = draw_people(300)
    parameters = {"hidden": (), "n_epochs": 3, "learning_rate": 0.01, "adversary_weight": 0.5}
    ours = fit_comparator("adversarial-debiasing", X, y, sensitive, **parameters)
    monkeypatch.setattr(
        "evenhand.fairlib.methods.comparators.adversarial._followed",
        lambda network, learning_rate, _: lambda model: torch.optim.Adam(model.parameters(), learning_rate),
    )
    # alpha is the library's own now
    theirs = fit_comparator("adversarial-debiasing", X, y, sensitive, **parameters)
    np.testing.assert_allclose(ours.weights_[0], theirs.weights_[0], atol=1e-5)
    plain = fit_comparator("adversarial-debiasing", X, y, sensitive, **parameters | {"adversary_weight": 0.0})
    assert np.abs(plain.weights_[0] - theirs.weights_[0]).max() > 1e-3


def test_a_heavier_adversary_narrows_the_gap() -> None:
    X, y, sensitive = draw_people(1500)
    male = sensitive["sex"] == "male"
    gaps = []
    for weight in (0.0, 3.0):
        model = fit_comparator(
            "adversarial-debiasing", X, y, sensitive, adversary_weight=weight, n_epochs=40, hidden=(16,)
        )
        score = model.predict_proba(X)[:, 1]
        gaps.append(abs(score[male].mean() - score[~male].mean()))
    assert gaps[1] < 0.7 * gaps[0]


def test_an_adversary_without_a_gradient_is_not_followed() -> None:
    # features of this size saturate every output in float32: the adversary's gradient is zero, where the
    # library alone divides zero by zero
    X, y, sensitive = draw_people(200)
    model = fit_comparator(
        "adversarial-debiasing", X * np.float32(1e6), y, sensitive, hidden=(), n_epochs=2, learning_rate=1e-6
    )
    assert np.isfinite(model.weights_[0]).all()
    assert (model.predict(X) == y).mean() > 0.3


def test_inputs_of_the_samples_are_all_columns() -> None:
    assert sorted(j for columns in INPUTS.values() for j in columns) == list(
        range(draw_people(5)[0].shape[1])
    )
