"""What DADI's training learns, and that it may be interrupted, repeated and done for several
trade-offs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi import agent_training as training_module
from evenhand.fairlib.methods.dadi.agent_training import JointTraining, Networks, pretrain
from evenhand.fairlib.methods.dadi.decision_problem import Problem, attribute_outcome, label_outcome
from evenhand.fairlib.methods.dadi.network import Layout
from evenhand.fairlib.methods.method_base import check_feature_groups
from evenhand.fairlib.methods.row_groups import read_groups

PARAMETERS: dict[str, Any] = {
    "gamma": 0.5,
    "hidden": (16, 16),
    "memory_size": 8,
    "processing_steps": 2,
    "pretrain_iterations": 500,
    "n_iterations": 2000,
    "agents": 16,
    "n_step": 4,
    "exploration_start": 1.0,
    "exploration_end": 0.3,
    "target_every": 50,
    "learning_rate": 5e-3,
    "final_learning_rate": 1e-5,
    "value_scale": 30.0,
    "value_weight": 0.01,
    "random_state": 0,
}
TINY: dict[str, Any] = {
    "hidden": (8, 8),
    "memory_size": 4,
    "processing_steps": 2,
    "pretrain_iterations": 40,
    "n_iterations": 350,
    "agents": 8,
    "learning_rate": 5e-3,
    "random_state": 3,
    # the trees learn after the training, which is tested here
    "trees_weight": 0,
}
GROUPS = {"merit": [0], "proxy": [2, 1], "noise": [3], "fixed": [4]}
SETS = list(itertools.product((0, 1), repeat=3))
Set = tuple[int, ...]


def _flip(values: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(values.size) < share, 1 - values, values)


def _problem(costs: tuple[float, ...] = (0.0, 0.0, 0.0)) -> tuple[np.ndarray, Problem]:
    """The first feature predicts, the second reveals, the third one or the other, as the first
    says.
    """
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 400))
    first = _flip(y, 0.25, rng)
    third = np.where(first == 1, _flip(s, 0.1, rng), _flip(y, 0.1, rng))
    X = np.stack([first, _flip(s, 0.1, rng), third], axis=1).astype(np.float32)
    layout = Layout.fit(X, check_feature_groups(None, 3))
    attribute = attribute_outcome(s, y, "demographic_parity")
    return X, Problem(
        layout, layout.rows(X), label_outcome(y, 1.0), attribute, np.ones(3, bool), np.array(costs)
    )


def _people(n: int = 240, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, group): merit predicts, two proxies of the group predict too, noise and a constant do
    not.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    merit = rng.normal(size=n)
    X = np.stack(
        [merit, s + 0.2 * rng.normal(size=n), _flip(s, 0.05, rng), rng.normal(size=n)], axis=1
    )
    y = (merit + 1.5 * s + 0.3 * rng.normal(size=n) > 0.75).astype(int)
    return np.column_stack([X, np.full(n, 7.0)]).astype(np.float32), y, s


def _fit(gamma: float = 0.5, **options: Any) -> DADIClassifier:
    X, y, s = _people()
    given = {key: options.pop(key) for key in ("callback", "checkpoint") if key in options}
    model = DADIClassifier(**{**TINY, "gamma": gamma, **options})
    return model.fit(X, y, sensitive_features={"group": s}, feature_groups=GROUPS, **given)


def _same(first: DADIClassifier, second: DADIClassifier) -> None:
    X = _people(seed=1)[0]
    left, right = first.acquire(X), second.acquire(X)
    np.testing.assert_array_equal(left.order, right.order)
    np.testing.assert_array_equal(left.probability, right.probability)
    nothing = np.zeros((240, 4))
    np.testing.assert_array_equal(first.action_values(X, nothing), second.action_values(X, nothing))
    assert first.history_ == second.history_
    assert first.feature_report_ == second.feature_report_


def _losses(outputs: np.ndarray, code: np.ndarray, weight: np.ndarray) -> np.ndarray:
    logs = log_softmax(outputs.astype(np.float64), axis=1)
    return -weight * logs[np.arange(code.size), code]


def _rewards(
    X: np.ndarray, problem: Problem, config: DADIClassifier, networks: Networks
) -> dict[Set, np.ndarray]:
    """R(O) of everybody for each of the 8 sets, from the networks' outputs."""
    predictor, adversary = networks
    label, attribute = problem.label, problem.attribute
    rewards = {}
    for chosen in SETS:
        known = np.tile(np.array(chosen, bool), (len(X), 1))
        classified = _losses(predictor.outputs("classify", X, known), label.code, label.weight)
        revealed = _losses(
            adversary.outputs("classify", X, known), attribute.code, attribute.weight
        )
        rewards[chosen] = (1 - config.gamma) * revealed - config.gamma * classified
    return rewards


# --- rewards
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("costs", [(0.0, 0.0, 0.0), (0.01, 0.02, 0.04)])
@pytest.mark.parametrize("n_step", [2, 4])
def test_rewards_on_the_way_add_up_to_the_reward_of_the_last_set(
    costs: tuple[float, float, float], n_step: int
) -> None:
    # the policy's values are its last biases, whoever it asks: 0, 1, 2, stop; and nothing is
    # learned
    X, problem = _problem(costs)
    config = DADIClassifier(
        **PARAMETERS
        | {"n_step": n_step, "exploration_start": 0.0, "exploration_end": 0.0}
        | {"learning_rate": 0.0, "final_learning_rate": 0.0, "pretrain_iterations": 0}
    )
    values = np.array([30.0, 20.0, 10.0, 5.0])
    networks = pretrain(problem, config)
    parts = networks[0].parts
    parts["policy.weight3"][:] = 0.0
    parts["policy.bias3"][:] = values
    joint = JointTraining(problem, config, networks)
    people = joint.person
    logs = [joint.advance(1) for _ in range(4 // n_step)]
    R = _rewards(X, problem, config, networks)
    path = [R[known][people] for known in ((1, 0, 0), (1, 1, 0), (1, 1, 1))]
    # what was paid out before each step and after the last: nothing, then R less the costs
    paid = [
        np.zeros(config.agents),
        *(R_ - spent for R_, spent in zip(path, np.cumsum(costs), strict=True)),
    ]
    paid.append(paid[-1])
    for part, begin in enumerate(range(0, 4, n_step)):
        end = begin + n_step
        beyond = 0.0 if end == 4 else values[end]
        errors = [
            values[s] - config.value_scale * (paid[end] - paid[s]) - beyond
            for s in range(begin, end)
        ]
        assert logs[part]["value_error"] == pytest.approx(np.square(errors).mean(), rel=1e-4)
    assert logs[-1]["asked"] == 3
    assert logs[-1]["reward"] == pytest.approx(path[-1].mean(), abs=1e-6)
    assert not joint.known.any()


def test_to_stop_at_once_is_worth_the_reward_of_the_empty_set() -> None:
    X, problem = _problem()
    still = {"learning_rate": 0.0, "final_learning_rate": 0.0}
    config = DADIClassifier(
        **PARAMETERS | still | {"exploration_start": 0.0, "exploration_end": 0.0}
    )
    networks = pretrain(problem, DADIClassifier(**PARAMETERS | {"pretrain_iterations": 30}))
    parts = networks[0].parts
    parts["policy.weight3"][:] = 0.0
    parts["policy.bias3"][:] = [1.0, 2.0, 3.0, 4.0]
    joint = JointTraining(problem, config, networks)
    people = [joint.person]
    logs = joint.advance(1)
    # the one who came next stopped at the other three steps
    people += [joint.person] * 3
    R = _rewards(X, problem, config, networks)[0, 0, 0][np.concatenate(people)]
    assert R.std() > 0.01
    assert logs["value_error"] == pytest.approx(
        np.square(4.0 - config.value_scale * R).mean(), rel=1e-5
    )
    assert logs["asked"] == 0
    assert logs["reward"] == pytest.approx(R.mean(), abs=1e-6)


# --- the policy is optimal
# -----------------------------------------------------------------------------


def _possible(known: Set) -> list[int]:
    return [g for g in range(3) if not known[g]]


def _with(known: Set, g: int) -> Set:
    return (*known[:g], 1, *known[g + 1 :])


def _asked(X: np.ndarray, rows: np.ndarray, g: int) -> list[np.ndarray]:
    """The rows by their answer."""
    parts = (rows[X[rows, g] == answer] for answer in (0, 1))
    return [part for part in parts if part.size]


def _optimum(R: dict[Set, np.ndarray], X: np.ndarray, known: Set, rows: np.ndarray) -> float:
    """Value iteration: the mean reward of those who gave the same answers, under the best
    questions.
    """
    choices = [R[known][rows].mean()]
    for g in _possible(known):
        parts = _asked(X, rows, g)
        choices.append(sum(_optimum(R, X, _with(known, g), p) * p.size for p in parts) / rows.size)
    return float(max(choices))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_greedy_policy_is_the_best_of_all_policies(seed: int) -> None:
    X, problem = _problem()
    config = DADIClassifier(**PARAMETERS | {"random_state": seed})
    with threadpool_limits(1, "blas"):
        start = pretrain(problem, config)
        joint = JointTraining(problem, config, start)
        joint.advance(config.n_iterations)
    R = _rewards(X, problem, config, joint.networks)
    everybody = np.arange(len(X))
    best = _optimum(R, X, (0, 0, 0), everybody)
    # neither one set for all nor asking whatever comes would do
    assert best > max(R[known].mean() for known in SETS) + 0.01
    policy = joint.networks[0]
    values = {
        known: policy.outputs("policy", X, np.tile(np.array(known, bool), (len(X), 1)))
        for known in SETS
    }

    def followed(known: Set, rows: np.ndarray) -> float:
        mine = values[known][rows[0]]
        action = max(_possible(known), key=lambda g: mine[g], default=3)
        if mine[action] <= mine[3]:
            return float(R[known][rows].mean())
        parts = _asked(X, rows, action)
        return sum(followed(_with(known, action), p) * p.size for p in parts) / rows.size

    assert followed((0, 0, 0), everybody) == pytest.approx(best, abs=0.005)
    # and the value of the best first question is what it brings
    assert values[0, 0, 0][0].max() / config.value_scale == pytest.approx(best, abs=0.03)


@pytest.fixture(scope="module")
def path() -> list[DADIClassifier]:
    X, y, s = _people()
    options = TINY | {"n_iterations": 1500, "pretrain_iterations": 400, "agents": 16}
    given: dict[str, Any] = {"sensitive_features": {"group": s}, "feature_groups": GROUPS}
    return [DADIClassifier(**options | {"gamma": gamma}).fit(X, y, **given) for gamma in (0.0, 1.0)]


@pytest.mark.long
def test_gamma_0_reveals_nothing_and_gamma_1_predicts(
    path: list[DADIClassifier],
) -> None:
    fair, accurate = (model.acquire(_people(seed=1)[0]).known.mean(axis=0) for model in path)
    assert fair[1] <= 0.02
    assert accurate[0] >= 0.9
    assert accurate[1] >= 0.9
    assert (fair[3], accurate[3]) == (0.0, 0.0)  # the constant


@pytest.mark.long
def test_gamma_1_predicts_and_gamma_0_conceals(path: list[DADIClassifier]) -> None:
    X, y, s = _people(seed=1)
    fair, accurate = path
    # rounding, which differs from one processor to another, decides which answers a small table
    # teaches
    assert accurate.score(X, y) > LogisticRegression().fit(*_people()[:2]).score(X, y) - 0.05
    rates = [abs(np.subtract(*[model.predict(X)[s == k].mean() for k in (0, 1)])) for model in path]
    assert rates[1] > 0.4
    assert rates[0] < 0.2
    # without the questions the two models know the same of a feature: pretraining knows no gamma
    assert fair.feature_report_["groups"] == accurate.feature_report_["groups"]


@pytest.mark.long
def test_the_report_tells_what_reveals_and_what_predicts(path: list[DADIClassifier]) -> None:
    report = path[0].feature_report_
    assert list(report["groups"]) == list(GROUPS)
    proxy, merit, noise = (report["groups"][name] for name in ("proxy", "merit", "noise"))
    assert proxy["adversary_auc"] > 0.9
    assert merit["adversary_auc"] < 0.7
    assert merit["classifier_auc"] > noise["classifier_auc"] + 0.1
    assert report["groups"]["fixed"] == {"classifier_auc": None, "adversary_auc": None}
    assert report["all"]["classifier_auc"] > merit["classifier_auc"] + 0.05


@pytest.mark.long
def test_costs_reduce_asking() -> None:
    X = _people(seed=1)[0]
    long = {"n_iterations": 700, "pretrain_iterations": 200}
    free, dear = (
        _fit(1.0, **long, costs=costs).acquire(X).known.mean(axis=0)
        for costs in (None, {"proxy": 0.7})
    )
    assert free[1] > 0.9
    assert dear[1] == 0.0
    assert dear[0] > 0.9
    assert _fit(1.0, **long, costs=dict.fromkeys(GROUPS, 0.7)).acquire(X).asked.max() == 0


# --- the same model again
# ------------------------------------------------------------------------------


class Interrupted(Exception):  # noqa: N818
    """As a kill would come."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written with every progress."""
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )


def _stop_at(iteration: int, seen: list[int] | None = None) -> Callable[..., None]:
    def callback(now: int, iterations: int, progress: Any) -> None:
        assert iterations == TINY["n_iterations"]
        if seen is not None:
            seen.append(now)
        if now == iteration:
            raise Interrupted

    return callback


def test_a_callback_ends_the_training() -> None:
    short: dict[str, Any] = {"n_iterations": 200, "pretrain_iterations": 5}
    history = _fit(**short).history_
    stopped = _fit(**short, callback=lambda now, *_: now == 100).history_
    assert history["step"] == [100.0, 200.0]
    assert stopped == {name: values[:1] for name, values in history.items()}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "stops",
    [(200, 300), *(pytest.param((stop,), marks=pytest.mark.long) for stop in (100, 200, 350))],
)
def test_an_interrupted_training_goes_on_to_the_same_model(
    tmp_path: Path, stops: tuple[int, ...]
) -> None:
    for stop in stops:
        with pytest.raises(Interrupted):
            _fit(checkpoint=tmp_path, callback=_stop_at(stop))
    seen: list[int] = []
    resumed = _fit(checkpoint=tmp_path, callback=_stop_at(-1, seen))
    # a report comes before its checkpoint: from the one before it
    assert seen == [step for step in (100, 200, 300, 350) if step >= stops[-1]]
    assert resumed.history_["step"] == [100.0, 200.0, 300.0, 350.0]
    _same(resumed, _fit())
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("other", [{"gamma": 0.4}, {"random_state": 4}, {"costs": {"noise": 0.1}}])
def test_another_training_does_not_take_up_a_checkpoint(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    with pytest.raises(Interrupted):
        _fit(checkpoint=tmp_path, callback=_stop_at(300))
    _same(_fit(checkpoint=tmp_path, **other), _fit(**other))


@pytest.mark.usefixtures("eager")
def test_another_version_of_numpy_does_not_take_up_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        _fit(checkpoint=tmp_path, callback=_stop_at(200))
    seen: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "0.0.0")
        with pytest.raises(Interrupted):
            _fit(checkpoint=tmp_path, callback=_stop_at(100, seen))
    assert seen == [100]


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("groups", "attribute"),
    [
        (dict(reversed(GROUPS.items())), "group"),  # the order is that of the actions
        (GROUPS, "merit"),  # a group of the attribute's name is never asked
    ],
)
def test_other_actions_do_not_take_up_a_checkpoint(
    tmp_path: Path, groups: dict[str, list[int]], attribute: str
) -> None:
    with pytest.raises(Interrupted):
        _fit(checkpoint=tmp_path, callback=_stop_at(300))
    X, y, s = _people()
    given: dict[str, Any] = {"sensitive_features": {attribute: s}, "feature_groups": groups}
    expected = DADIClassifier(**TINY).fit(X, y, **given)
    _same(DADIClassifier(**TINY).fit(X, y, checkpoint=tmp_path, **given), expected)


@pytest.mark.long
def test_trade_offs_trained_together_are_those_of_single_fits() -> None:
    with ThreadPoolExecutor(2) as threads:
        models = list(threads.map(_fit, (0.2, 0.8)))
    assert [model.gamma for model in models] == [0.2, 0.8]
    for gamma, model in zip((0.2, 0.8), models, strict=True):
        _same(model, _fit(gamma))
    assert models[0].history_ != models[1].history_


@pytest.mark.long
def test_the_seed_decides_the_model() -> None:
    first, again, other = _fit(), _fit(), _fit(random_state=4)
    _same(first, again)
    assert first.history_["value_error"] != other.history_["value_error"]


# --- losses that are no numbers
# ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "where"),
    [({}, r"iteration \d+ of pretraining"), ({"pretrain_iterations": 0}, r"iteration \d+ of 350")],
)
def test_a_loss_that_is_no_number_stops_the_training(options: dict[str, Any], where: str) -> None:
    with pytest.raises(FloatingPointError, match=rf"{where}: lower the learning rate\.$"):
        _fit(learning_rate=1e6, **options)


@pytest.mark.parametrize("iterations", [1, 2])
def test_a_breaking_step_is_noticed_even_if_it_is_the_last(iterations: int) -> None:
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        _fit(learning_rate=1e30, pretrain_iterations=0, n_iterations=iterations)


def test_a_training_that_broke_leaves_no_fitted_model() -> None:
    X, y, s = _people()
    given: dict[str, Any] = {"sensitive_features": {"group": s}, "feature_groups": GROUPS}
    model = DADIClassifier(**TINY | {"n_iterations": 20}).fit(X, y, **given)
    model.set_params(learning_rate=1e30, pretrain_iterations=0, n_iterations=1)
    with pytest.raises(FloatingPointError, match="iteration 1 of 1"):
        model.fit(X, y, **given)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.usefixtures("eager")
def test_the_last_checkpoint_stays_after_a_loss_that_is_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training_module.weighted_losses
    calls = 0

    def breaking(*given: Any) -> Any:
        nonlocal calls
        calls += 1  # two losses an iteration, those of pretraining first
        losses, gradient = real(*given)
        return losses * (np.nan if calls > 2 * (40 + 207) else 1.0), gradient

    monkeypatch.setattr(training_module, "weighted_losses", breaking)
    with pytest.raises(FloatingPointError, match="iteration 207 of 350"):
        _fit(checkpoint=tmp_path)
    assert (tmp_path / FILE).is_file()
    monkeypatch.undo()
    _same(_fit(checkpoint=tmp_path), _fit())


# --- weights of the losses
# -----------------------------------------------------------------------------

Y = np.array([1, 1, 1, 0, 1, 0, 0, 0])
B = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def test_labels_are_weighted_by_hand() -> None:
    y = np.array([0, 0, 0, 1])
    np.testing.assert_allclose(label_outcome(y, 0.0).weight, [1, 1, 1, 1])
    np.testing.assert_allclose(label_outcome(y, 1.0).weight, [2 / 3, 2 / 3, 2 / 3, 2])
    half = label_outcome(y, 0.5).weight
    assert half.mean() == pytest.approx(1.0)
    assert half[3] / half[0] == pytest.approx(np.sqrt(3), rel=1e-6)


def test_demographic_parity_gives_every_group_the_same_weight() -> None:
    outcome = attribute_outcome(
        np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1]), "demographic_parity"
    )
    np.testing.assert_allclose(outcome.weight, [2 / 3, 2 / 3, 2 / 3, 2, 1, 1], rtol=1e-6)
    assert (outcome.start == 0).all()
    assert outcome.classes == 3


def test_equal_opportunity_weighs_groups_of_the_positive_label() -> None:
    outcome = attribute_outcome(B, Y, "equal_opportunity")
    # 4 positives of 8: three in one group, one in the other
    np.testing.assert_allclose(outcome.weight, [4 / 3, 4 / 3, 4 / 3, 0, 4, 0, 0, 0], rtol=1e-6)
    assert (outcome.start == 0).all()


def test_equalized_odds_weighs_every_group_of_every_label() -> None:
    outcome = attribute_outcome(B, Y, "equalized_odds")
    np.testing.assert_allclose(
        outcome.weight, [2 / 3, 2 / 3, 2 / 3, 2, 2, 2 / 3, 2 / 3, 2 / 3], rtol=1e-6
    )
    assert outcome.start.tolist() == [2, 2, 2, 0, 2, 0, 0, 0]
    assert outcome.classes == 2


@pytest.mark.parametrize("criterion", ["equal_opportunity", "equalized_odds"])
def test_a_group_without_the_label_that_counts_is_refused(criterion: str) -> None:
    y = np.where(B == 1, 0, Y)
    with pytest.raises(ValueError, match=f"{criterion} needs people of every group"):
        attribute_outcome(B, y, criterion)


def test_several_attributes_give_groups_of_intersections() -> None:
    features: dict[str, Any] = {
        "sex": ["f", "f", "m", "m", "f"],
        "old": [True, False, True, True, True],
        "id": [1, 2, 3, 4, 5],
    }
    groups = read_groups(features, ["sex", "old"], 5)
    assert groups.attributes == ("sex", "old")
    assert groups.codes.tolist() == [1, 0, 2, 2, 1]
    groups = read_groups({"sex": features["sex"]}, None, 5)
    assert groups.attributes == ("sex",)
    assert groups.codes.tolist() == [0, 0, 1, 1, 0]


def test_values_of_unused_states_have_no_part_in_returns() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        ended = rng.random((4, 6)) < 0.3
        explored = rng.random((4, 6)) < 0.5
        reward = rng.normal(size=(4, 6))
        expected = rng.normal(size=(5, 6))
        used = training_module._used_values(ended, explored)
        without = np.where(used, expected, 0.0)
        returns = training_module._returns(reward, expected, ended, explored)
        assert np.array_equal(training_module._returns(reward, without, ended, explored), returns)
        # and every other value has a part in one
        for state in np.argwhere(used):
            changed = expected.copy()
            changed[tuple(state)] += 1.0
            assert (training_module._returns(reward, changed, ended, explored) != returns).any()
