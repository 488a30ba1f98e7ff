from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation.bootstrap import percentile_interval
from evenhand.fairlib.evaluation.transport_adversary import (
    _Moves,
    audit_losses,
    drawn_together,
    transport_audit,
)
from evenhand.fairlib.execution import generator
from evenhand.fairlib.transport.search import Envelopes


def worst_loss(losses: Any, costs: Any, labels: Any, budget: float, weights: Any) -> float:
    """Largest mean loss for columns of any weight, as a linear program in shares of each column."""
    n = len(labels)
    gains = losses[labels].T * weights
    result = linprog(
        -gains.ravel() / weights.sum(),
        A_ub=(costs * weights).reshape(1, -1) / weights.sum(),
        b_ub=[budget],
        A_eq=np.kron(np.ones((1, n)), np.eye(n)),
        b_eq=np.ones(n),
        method="highs",
    )
    assert result.status == 0, result.message
    return float(-result.fun)


def squared(points: NDArray[Any]) -> NDArray[Any]:
    return np.square(points[:, None] - points[None]).sum(axis=2)


class Given:
    """A classifier whose probabilities are given."""

    def __init__(self, probabilities: Any, classes: Any) -> None:
        self.probabilities = np.asarray(probabilities)
        self.classes_ = np.asarray(classes)

    def predict_proba(self, X: Any) -> Any:
        return self.probabilities


def test_two_people_by_hand() -> None:
    # Treating person 0 as person 1, two apart, reveals 1 nat; the mean over two people of the
    # squared distance is 2, so a budget of 1 pays for half of it.
    model = Given([[1 - np.exp(-1), np.exp(-1)], [1 - np.exp(-2), np.exp(-2)]], ["no", "yes"])
    found = transport_audit(model, [[0.0], [2.0]], ["yes", "yes"], None, 1.0, draws=0)
    assert found.loss == pytest.approx(1.5)
    assert found.gap == pytest.approx(0.25)
    assert found.multiplier == pytest.approx(0.25)
    assert (found.low, found.high) == (None, None)
    slack = transport_audit(model, [[0.0], [2.0]], ["yes", "yes"], None, 5.0, draws=0)
    assert (slack.gap, slack.spent, slack.multiplier) == (pytest.approx(0.5), 2.0, 0.0)
    np.testing.assert_array_equal(slack.target, [1, 1])
    np.testing.assert_allclose(slack.distance, [2.0, 0.0])
    np.testing.assert_array_equal(slack.most_unfair(), [0])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("budget", [0.0, 0.05, 0.5, 50.0])
def test_a_forests_gap_is_the_linear_programs(classes: int, budget: float) -> None:
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(45, 3))
    y = np.digitize(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=45), [0.0, 0.8][: classes - 1])
    names = np.array(["c", "a", "b"])[y]
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    model = RandomForestClassifier(20, min_samples_leaf=3, random_state=0).fit(X, names)
    found = transport_audit(model, X, names, metric, budget, draws=0)
    codes = np.searchsorted(model.classes_, names)
    losses = -np.log(np.clip(model.predict_proba(X), np.finfo(float).eps, 1)).T
    worst = worst_loss(losses, squared(np.delete(X, 0, axis=1)), codes, budget, np.ones(45))
    own = losses[codes, np.arange(45)].mean()
    assert found.loss == pytest.approx(own, rel=1e-12)
    assert found.gap == pytest.approx(worst - own, rel=1e-7, abs=1e-9)
    revealed = (found.target_loss - found.own_loss)[found.most_unfair()]
    assert (np.diff(revealed) <= 0).all()
    assert (revealed > 0).all()


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.2, 3.0])
def test_interval_is_that_of_resampled_people_solved_afresh(budget: float) -> None:
    rng = np.random.default_rng(5)
    n, draws = 14, 25
    points, labels = rng.integers(0, 4, (n, 2)) * 1.0, rng.integers(0, 2, n)
    losses = rng.exponential(size=(2, n))
    found = audit_losses(losses, points, labels, budget, draws=draws, level=0.8, seed=3)
    own = losses[labels, np.arange(n)]
    weights = generator(3, "bootstrap", "audit").multinomial(n, np.full(n, 1 / n), size=draws)
    gaps = [worst_loss(losses, squared(points), labels, budget, w) - (w @ own) / n for w in weights]
    expected = percentile_interval(np.array(gaps), 0.8, found.gap)
    assert expected is not None
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-7, atol=1e-9)
    assert expected[1] > expected[0]


def test_a_model_that_treats_comparable_people_alike_has_no_gap() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 200), np.repeat(rng.normal(size=20), 10)])
    y = rng.integers(0, 2, 200)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    even = 1 / (1 + np.exp(-X[:, 1]))
    uneven = 1 / (1 + np.exp(-X[:, 1] - 2 * X[:, 0]))
    fine = transport_audit(
        Given(np.stack([1 - even, even], axis=1), [0, 1]), X, y, metric, 0.0, draws=50
    )
    # 0 of 200 has the upper end 0.018, and losses are at most some 3 nats apart
    assert (fine.gap, fine.low) == (0.0, 0.0)
    assert 0.0 < fine.high < 0.018 * 4  # type: ignore[operator]
    biased = transport_audit(
        Given(np.stack([1 - uneven, uneven], axis=1), [0, 1]), X, y, metric, 0.0, draws=50
    )
    assert biased.low is not None
    assert biased.low > 0.1


def test_a_certain_and_wrong_model_has_a_finite_gap() -> None:
    model = Given([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    found = transport_audit(model, [[0.0], [1.0]], [1, 1], None, 10.0, draws=20)
    assert found.gap == pytest.approx(-np.log(np.finfo(float).eps) / 2)


def test_same_seed_same_interval_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    arguments = (
        rng.exponential(size=(2, 300)),
        rng.normal(size=(300, 4)),
        rng.integers(0, 2, 300),
        0.3,
    )
    one, two = audit_losses(*arguments, seed=1), audit_losses(*arguments, seed=1, jobs=2)
    assert (one.gap, one.low, one.high) == (two.gap, two.low, two.high)
    assert (one.low, one.high) != (
        audit_losses(*arguments, seed=2).low,
        audit_losses(*arguments, seed=2).high,
    )


@pytest.mark.parametrize("seed", range(50))
def test_a_budget_within_rounding_of_all_moves_buys_them_all(seed: int) -> None:
    # the cost of everything comes out differently as a product and as a cumulated sum
    rng = np.random.default_rng(seed)
    n = 200
    cost, gain, weights = rng.random(n), rng.random(n), rng.integers(1, 4, n) * 1.0
    start = np.arange(0, 2 * n + 1, 2)
    vertices = Envelopes(
        start,
        np.stack([0 * cost, cost], 1).ravel(),
        np.stack([0 * gain, gain], 1).ravel(),
        np.arange(2 * n),
    )
    moves = _Moves(vertices)
    total, best = (float(weights @ each) / weights.sum() for each in (cost, gain))
    for budget in (
        total,
        np.nextafter(total, 0),
        total * (1 - 1e-15),
        total * (1 - 2e-15),
        total * (1 + 1e-15),
    ):
        assert moves.worst_loss(weights, budget, True) == pytest.approx(best, rel=1e-12)
    assert moves.worst_loss(weights, total, False) == "under"
    half = moves.worst_loss(weights, total / 2, False)
    assert isinstance(half, float)
    assert best / 2 < half < best


def test_one_far_person_does_not_make_all_others_one() -> None:
    losses = np.array([[0.0, 1.0, 0.0]])
    for far in (1e6, 1e8, 1e10):
        found = audit_losses(losses, [[0.0], [3.0], [far]], [0, 0, 0], 0.0, draws=0)
        assert (found.gap, found.spent) == (0.0, 0.0)
        rich = audit_losses(losses, [[0.0], [3.0], [far]], [0, 0, 0], 3.0, draws=0)
        assert rich.gap == pytest.approx(1 / 3, rel=1e-4)
        assert rich.spent == pytest.approx(3.0, rel=1e-4)


def test_a_divided_person_is_treated_as_the_larger_part() -> None:
    losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    most = audit_losses(losses, [[0.0], [1.0]], [0, 0], 0.49, draws=0)
    np.testing.assert_array_equal(most.target, [1, 1])
    assert most.adversarial_loss == pytest.approx(0.99)
    some = audit_losses(losses, [[0.0], [1.0]], [0, 0], 0.2, draws=0)
    np.testing.assert_array_equal(some.target, [0, 1])
    assert some.adversarial_loss == pytest.approx(0.7)


def test_classes_in_any_order() -> None:
    X, y = [[0.0], [1.0], [3.0]], ["b", "a", "b"]
    table = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    one = transport_audit(Given(table, ["a", "b"]), X, y, None, 0.5, draws=0)
    other = transport_audit(Given(table[:, ::-1], ["b", "a"]), X, y, None, 0.5, draws=0)
    assert (one.loss, one.gap) == (other.loss, other.gap)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": -1.0}, "budget must be finite and at least 0"),
        ({"budget": float("nan")}, "budget must be finite and at least 0"),
        ({"y": [0, 7]}, "labels that the model does not know"),
        ({"y": [0]}, "y must have one label per row of X"),
        ({"draws": 5}, "draws: got 5, expected 0 or at least 20"),
        ({"level": 1.0}, "level: got 1.0, expected a share between 0 and 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "X": [[0.0], [1.0]],
        "y": [0, 1],
        "metric": None,
        "budget": 1.0,
    } | change
    with pytest.raises(ValueError, match=message):
        transport_audit(Given(np.full((2, 2), 0.5), [0, 1]), **arguments)


# probabilities of an equal log loss


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_probabilities_are_scaled_together_to_a_known_loss(share: float) -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(400) < 0.3).astype(np.int64)
    p = expit(1.5 * (y - 0.3) - 0.8 + 0.5 * rng.normal(size=400))
    wanted = expit(share * logit(p) + (1 - share) * logit(y.mean()))
    found = drawn_together(p, y, log_loss(y, wanted))
    np.testing.assert_allclose(found, wanted, atol=1e-7)
    assert (np.diff(found[np.argsort(p)]) >= 0).all()


def test_two_probabilities_are_drawn_together_by_hand() -> None:
    # base rate 1/2, log-odds +-log 9; half of them, +-log 3, are the probabilities 3/4 and 1/4
    found = drawn_together([0.9, 0.1], [1, 0], -np.log(0.75))
    np.testing.assert_allclose(found, [0.75, 0.25], atol=1e-9)


def test_probabilities_no_better_than_base_rates_stay() -> None:
    """No loss is above the base rates'."""
    p, y = np.array([0.9, 0.4, 0.2, 0.1]), [1, 0, 1, 0]
    np.testing.assert_array_equal(drawn_together(p, y, log_loss(y, p) - 0.01), p)
    np.testing.assert_allclose(drawn_together([0.9, 0.3, 0.2, 0.1], [1, 0, 0, 0], 5.0), 0.25)
    # certain and right: finite, and drawn together like all others
    np.testing.assert_allclose(
        drawn_together([1.0, 0.0], [1, 0], -np.log(0.6)), [0.6, 0.4], atol=1e-9
    )
