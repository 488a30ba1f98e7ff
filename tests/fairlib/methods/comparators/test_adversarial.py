"""The adversarial comparator: the paper's gradient, and Fairlearn's predictor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from comparator_samples import draw_people, fit_comparator

from evenhand.fairlib.methods.comparators.adversarial import followed_gradient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its optional parts that are not installed


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
    assert float((found * adverse).sum()) == pytest.approx(
        -0.3 * float((adverse**2).sum()), rel=1e-5
    )
    beside = beside - (beside * adverse).sum() / (adverse**2).sum() * adverse
    assert float((found * beside).sum()) == pytest.approx(float((own * beside).sum()), rel=1e-4)
    assert torch.equal(followed_gradient(own, torch.zeros(3, 4), 0.3), own)


def test_a_layer_of_one_output_is_trained_as_fairlearn_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y, sensitive = draw_people(300)
    parameters = {"hidden": (), "n_epochs": 3, "learning_rate": 0.01, "adversary_weight": 0.5}
    ours = fit_comparator("adversarial-debiasing", X, y, sensitive, **parameters)
    monkeypatch.setattr(
        "evenhand.fairlib.methods.comparators.adversarial._followed",
        lambda network, learning_rate, _: (
            lambda model: torch.optim.Adam(model.parameters(), learning_rate)
        ),
    )
    # alpha is the library's own now
    theirs = fit_comparator("adversarial-debiasing", X, y, sensitive, **parameters)
    np.testing.assert_allclose(ours.weights_[0], theirs.weights_[0], atol=1e-5)
    plain = fit_comparator(
        "adversarial-debiasing", X, y, sensitive, **parameters | {"adversary_weight": 0.0}
    )
    assert np.abs(plain.weights_[0] - theirs.weights_[0]).max() > 1e-3


def test_a_heavier_adversary_narrows_the_gap() -> None:
    X, y, sensitive = draw_people(1500)
    male = sensitive["sex"] == "male"
    gaps = []
    for weight in (0.0, 3.0):
        model = fit_comparator(
            "adversarial-debiasing",
            X,
            y,
            sensitive,
            adversary_weight=weight,
            n_epochs=40,
            hidden=(16,),
        )
        score = model.predict_proba(X)[:, 1]
        gaps.append(abs(score[male].mean() - score[~male].mean()))
    assert gaps[1] < 0.7 * gaps[0]


def test_an_adversary_without_a_gradient_is_not_followed() -> None:
    # features of this size saturate every output in float32: the adversary's gradient is zero,
    # where the library alone divides zero by zero
    X, y, sensitive = draw_people(200)
    model = fit_comparator(
        "adversarial-debiasing",
        X * np.float32(1e6),
        y,
        sensitive,
        hidden=(),
        n_epochs=2,
        learning_rate=1e-6,
    )
    assert np.isfinite(model.weights_[0]).all()
    assert (model.predict(X) == y).mean() > 0.3
