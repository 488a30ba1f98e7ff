"""DADI's network and training against a plain PyTorch rendering and against autograd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.base import clone
from threadpoolctl import threadpool_limits
from torch.func import functional_call

from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi import _attention_kernels as kernels
from evenhand.fairlib.methods.dadi.agent_training import (
    JointTraining,
    Learner,
    Networks,
    network_shapes,
    pretrain,
)
from evenhand.fairlib.methods.dadi.decision_problem import (
    CRITERIA,
    Problem,
    attribute_outcome,
    label_outcome,
)
from evenhand.fairlib.methods.dadi.network import Layout, NetworkShape, SetNetwork
from evenhand.fairlib.methods.dadi.set_training import Head, Memory, Pairs, Sets, read
from tests.oracles.dadi_plain import (
    PlainDADI,
    PlainNetwork,
    dense_rows,
    load_parameters,
    weighted_losses,
)

# the last group is never asked
GROUPS = {"a": [0], "b": [2, 1], "c": [5, 3], "d": [4]}
STEPS = 3
CONFIG = DADIClassifier(
    gamma=0.6,
    hidden=(8, 8),
    memory_size=4,
    processing_steps=STEPS,
    pretrain_iterations=20,
    n_iterations=40,
    agents=9,
    n_step=4,
    exploration_start=0.7,
    exploration_end=0.1,
    target_every=2,
    learning_rate=5e-3,
    final_learning_rate=1e-5,
    value_scale=30.0,
    value_weight=0.01,
    random_state=0,
)
KINDS = ("mixed", "two-valued", "continuous")


@pytest.fixture(autouse=True)
def _one_core() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1, "blas"):
        yield
    torch.set_num_threads(threads)


def _config(**options: Any) -> DADIClassifier:
    return clone(CONFIG).set_params(**options)


def _problem(
    kind: str = "mixed", criterion: str = "demographic_parity", groups: int = 2
) -> Problem:
    rng = np.random.default_rng(0)
    b = rng.integers(0, groups, 120)
    X = rng.normal(size=(120, 6)).astype(np.float32)
    X[:, 0] += b
    if kind == "mixed":
        X[:, 1] = rng.integers(0, 2, 120)
        X[:, 2] = np.where(rng.random(120) < 0.3, -1.5, 2.5)
    elif kind == "two-valued":
        X = (X > 0.2).astype(np.float32)
    y = (X[:, 3] + X[:, 0] + rng.normal(size=120) > 0.5).astype(int)
    layout = Layout.fit(X, GROUPS)
    return Problem(
        layout,
        layout.rows(X),
        label_outcome(y, 0.5),
        attribute_outcome(b, y, criterion),
        np.array([True, True, True, False]),
        np.array([0.0, 0.01, 0.02, 0.0]),
    )


def _vector(shape: NetworkShape, seed: int = 0) -> np.ndarray:
    """Parameters far from those of a start, biases included."""
    return np.random.default_rng(seed).uniform(-0.8, 0.8, shape.size).astype(np.float32)


def _networks(problem: Problem, config: DADIClassifier) -> Networks:
    predictor, adversary = (
        SetNetwork(shape, _vector(shape, seed), problem.layout, STEPS)
        for seed, shape in enumerate(network_shapes(config, problem))
    )
    return predictor, adversary


def _plain(shape: NetworkShape, vector: np.ndarray) -> PlainNetwork:
    network = PlainNetwork(shape, STEPS)
    load_parameters(network, shape.named(vector))
    return network


def _expand(known: np.ndarray) -> np.ndarray:
    """From groups to columns."""
    columns = np.zeros((len(known), 6))
    for g, listed in enumerate(GROUPS.values()):
        columns[:, listed] = known[:, [g]]
    return columns


def _masks(n: int) -> np.ndarray:
    """All 16 sets of groups, again and again."""
    return ((np.arange(n)[:, None] >> np.arange(4)) & 1).astype(bool)


def _assert_like(
    plain: PlainNetwork, shape: NetworkShape, vector: np.ndarray, tolerance: float
) -> None:
    """A plain network's parameters are those of a vector, to a share of the largest of each
    part.
    """
    for (name, mine), theirs in zip(
        plain.named_parameters(), _plain(shape, vector).parameters(), strict=True
    ):
        error = (mine.detach() - theirs.detach()).abs().max().item()
        assert error <= tolerance * max(1e-3, mine.abs().max().item()), name


@pytest.mark.parametrize(
    ("kind", "hidden"), [*((kind, (8, 8)) for kind in KINDS), ("mixed", (9, 7)), ("mixed", (7, 9))]
)
def test_every_set_of_columns_is_read_as_by_the_plain_network(
    kind: str, hidden: tuple[int, int]
) -> None:
    problem = _problem(kind)
    shape = network_shapes(_config(hidden=hidden), problem)[0]
    vector, X = _vector(shape), dense_rows(problem)
    known = _masks(len(X))
    network = SetNetwork(shape, vector, problem.layout, STEPS)
    values, columns = torch.as_tensor(X).double(), torch.as_tensor(_expand(known))
    logits, actions = _plain(shape, vector).double()(values, columns)
    assert min(logits.std(dim=0)) > 0.01  # there is something to compare
    np.testing.assert_allclose(network.outputs("classify", X, known), logits.detach(), atol=1e-6)
    np.testing.assert_allclose(network.outputs("policy", X, known), actions.detach(), atol=1e-6)


def test_the_table_holds_exactly_the_columns_of_two_values() -> None:
    problem = _problem()
    layout = problem.layout
    assert layout.two.tolist() == [1, 2]
    assert layout.own.tolist() == [0, 3, 4, 5]
    assert layout.low.tolist() == [0.0, -1.5]
    assert layout.high.tolist() == [1.0, 2.5]
    assert layout.group_of.tolist() == [0, 1, 1, 2, 3, 2]


def test_a_third_value_is_read_as_the_nearer_of_the_two() -> None:
    problem = _problem()
    X = dense_rows(problem)[:3].copy()
    X[:, 2] = (0.49, 0.51, 100.0)
    assert problem.layout.rows(X).upper[:, 1].tolist() == [0, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_gradients_of_an_iteration_are_those_of_autograd(kind: str, criterion: str) -> None:
    problem = _problem(kind, criterion, groups=3)
    config = _config(value_weight=0.3, hidden=(8, 7))
    shapes = network_shapes(config, problem)
    networks = _networks(problem, config)
    plain = PlainDADI(problem, config)
    load_parameters(plain.predictor, shapes[0].named(networks[0].vector))
    load_parameters(plain.adversary, shapes[1].named(networks[1].vector))
    engine = JointTraining(problem, config, networks)
    engine.advance(1)
    plain.joint(1)
    for name, network, shape in zip(
        ("predictor", "adversary"), (plain.predictor, plain.adversary), shapes, strict=True
    ):
        # after one step from 0, Adam's mean is a tenth of the gradient
        gradient = _plain(shape, engine.state()[name]["mean"] * np.float32(10.0))
        for (part, mine), theirs in zip(
            network.named_parameters(), gradient.parameters(), strict=True
        ):
            if mine.grad is None:
                assert part == "encoder.lstm.bias_hh"
                continue
            assert mine.grad.abs().max() > 0, part
            error = (mine.grad - theirs).abs().max()
            assert error <= 1e-4 * mine.grad.abs().max(), f"{name} {part}"


@pytest.mark.parametrize("value_weight", [0.0, 1e6])
def test_gradients_of_one_loss_alone_are_those_of_autograd(value_weight: float) -> None:
    problem = _problem()
    config = _config(value_weight=value_weight)
    shapes = network_shapes(config, problem)
    networks = _networks(problem, config)
    plain = PlainDADI(problem, config)
    load_parameters(plain.predictor, shapes[0].named(networks[0].vector))
    load_parameters(plain.adversary, shapes[1].named(networks[1].vector))
    engine = JointTraining(problem, config, networks)
    engine.advance(1)
    plain.joint(1)
    gradient = _plain(shapes[0], engine.state()["predictor"]["mean"] * np.float32(10.0))
    largest = max(p.grad.abs().max() for p in plain.predictor.parameters() if p.grad is not None)
    assert largest > (1e4 if value_weight else 1e-2)
    for mine, theirs in zip(plain.predictor.parameters(), gradient.parameters(), strict=True):
        if mine.grad is not None:
            assert (mine.grad - theirs).abs().max() <= 1e-4 * mine.grad.abs().max()


def test_autograd_agrees_with_finite_differences() -> None:
    """The gradients are those of the plain network."""
    problem = _problem("mixed", "equalized_odds", groups=3)
    shape = NetworkShape(6, 6, 5, (4, 3), 3)
    network = _plain(shape, _vector(shape)).double()
    people, known = np.arange(8), torch.as_tensor(_expand(_masks(8)[:, ::-1]))
    values = torch.as_tensor(dense_rows(problem)[:8]).double()
    names = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
    parameters = [network.get_parameter(name) for name in names]

    def losses(*given: torch.Tensor) -> torch.Tensor:
        logits, actions = functional_call(
            network, dict(zip(names, given, strict=True)), (values, known)
        )
        return torch.cat(
            [weighted_losses(logits, problem.attribute, people), (actions - 1.0).square().sum(1)]
        )

    assert torch.autograd.gradcheck(losses, parameters, eps=1e-6, atol=1e-7, rtol=1e-5)


def test_the_order_of_columns_and_of_groups_does_not_matter() -> None:
    problem = _problem()
    shape = network_shapes(CONFIG, problem)[0]
    vector, X = _vector(shape), dense_rows(problem)
    known = _masks(len(X))
    order = np.array([3, 5, 1, 0, 4, 2])  # new column j is old column order[j]
    place = np.argsort(order)
    groups = {
        name: [int(place[j]) for j in reversed(GROUPS[name])] for name in ("c", "a", "d", "b")
    }
    moved = vector.copy()
    shape.named(moved)["encoder.column"][:] = shape.named(vector)["encoder.column"][order]
    layout = Layout.fit(np.ascontiguousarray(X[:, order]), groups)
    usual = SetNetwork(shape, vector, problem.layout, STEPS)
    other = SetNetwork(shape, moved, layout, STEPS)
    shuffled = known[:, [2, 0, 3, 1]]
    for head in ("classify", "policy"):
        np.testing.assert_allclose(
            other.outputs(head, X[:, order], shuffled), usual.outputs(head, X, known), atol=2e-6
        )


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_unknown_groups_change_no_bit_of_the_outputs(kind: str) -> None:
    problem = _problem(kind)
    shape = network_shapes(CONFIG, problem)[0]
    network, X = SetNetwork(shape, _vector(shape), problem.layout, STEPS), dense_rows(problem)
    known = _masks(len(X))
    unknown = _expand(known) == 0
    noise = np.random.default_rng(5).normal(scale=1e4, size=X.shape).astype(np.float32)
    other = np.where(unknown, noise, X)
    for head in ("classify", "policy"):
        np.testing.assert_array_equal(
            network.outputs(head, X, known), network.outputs(head, other, known)
        )
    # and those of known groups do
    everything = np.ones_like(known)
    assert (
        network.outputs("classify", X, everything) != network.outputs("classify", other, everything)
    ).any()


def test_a_group_that_is_never_asked_has_a_gradient_of_exactly_0() -> None:
    problem = _problem()
    shapes = network_shapes(CONFIG, problem)
    networks = _networks(problem, CONFIG)
    engine = JointTraining(problem, CONFIG, networks)
    engine.advance(10)
    for name, shape, start in zip(
        ("predictor", "adversary"), shapes, (networks[0].vector, networks[1].vector), strict=True
    ):
        squares = shape.named(engine.state()[name]["square"])["encoder.column"]
        assert (squares[4] == 0).all()
        assert (squares[[0, 1, 2, 3, 5]].max(axis=1) > 0).all()
        after = shape.named(engine.state()[name]["vector"])["encoder.column"]
        np.testing.assert_array_equal(after[4], shape.named(start)["encoder.column"][4])


@pytest.mark.parametrize("kind", KINDS)
def test_the_empty_set_is_read_as_zero_whoever_it_is(kind: str) -> None:
    problem = _problem(kind)
    shape = network_shapes(CONFIG, problem)[0]
    vector, X = _vector(shape), dense_rows(problem)
    known = np.zeros((len(X), 4), bool)
    network = _plain(shape, vector)
    for head in ("classify", "policy"):
        outputs = SetNetwork(shape, vector, problem.layout, STEPS).outputs(head, X, known)
        expected = getattr(network, head)(torch.zeros(len(X), 4)).detach()
        np.testing.assert_allclose(outputs, expected, atol=1e-6)


@pytest.mark.parametrize("last", [4, 3])
def test_a_policy_that_prefers_questions_asks_all_that_it_may(last: int) -> None:
    problem = _problem()
    shape = network_shapes(CONFIG, problem)[0]
    vector, X = _vector(shape), dense_rows(problem)
    # the values of the four groups and of stopping, whatever is known
    shape.named(vector)["policy.weight3"][:] = 0.0
    shape.named(vector)["policy.bias3"][:] = [2.0, 4.0, 3.0, 5.0, 1.0]
    known = np.zeros((len(X), 4), bool)
    network = SetNetwork(shape, vector, problem.layout, STEPS)
    order = network.acquire(np.arange(4) < last, X, known)
    expected = [3, 1, 2, 0] if last == 4 else [1, 2, 0, -1]
    assert (order == expected).all()
    assert (known.sum(axis=1) == last).all()


def test_attention_stands_scores_of_any_size() -> None:
    problem = _problem()
    shape = network_shapes(CONFIG, problem)[0]
    vector, X = _vector(shape), dense_rows(problem)
    # memory vectors in the thousands: the largest score takes all the attention
    shape.named(vector)["encoder.weight3"][:] *= 5e3
    known = _masks(len(X))
    logits = SetNetwork(shape, vector, problem.layout, STEPS).outputs("classify", X, known)
    values, columns = torch.as_tensor(X).double(), torch.as_tensor(_expand(known))
    expected = _plain(shape, vector).double()(values, columns)[0].detach().numpy()
    assert np.abs(expected).max() > 100
    wrong = np.abs(logits - expected).max(axis=1) > 1e-4 * np.abs(expected).max()
    # two scores of nearly the same size may divide the attention otherwise in float32
    assert wrong.mean() < 0.05
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1.0, 10.0])
def test_training_reads_sets_as_predictions_do(kind: str, size: float) -> None:
    problem = _problem(kind)
    shape = network_shapes(CONFIG, problem)[0]
    network = SetNetwork(shape, _vector(shape), problem.layout, STEPS)
    # with large memory vectors the gates saturate, and some attention underflows
    network.parts["encoder.weight3"][:] *= size
    known = _masks(120)
    pairs = Pairs.fit(problem.layout, problem.rows)
    sets = Sets.of_columns(pairs.of_person, known[:, problem.layout.group_of])
    readings = read(network, Memory.of_pairs(network, pairs, sets.members), sets)
    assert readings.weights[-1].max() > 0.5
    for name in ("classify", "policy"):
        outputs = Head.of_readings(network, name, readings.last).outputs
        expected = network.outputs(name, dense_rows(problem), known)
        np.testing.assert_allclose(outputs, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("width", [1, 3, 8, 37])
def test_compiled_tanh_and_softmax_are_exact_to_float32(width: int) -> None:
    rng = np.random.default_rng(width)
    vectors = (5.0 * rng.normal(size=(9, width))).astype(np.float32)
    sizes = np.arange(10)
    starts = np.append(0, sizes.cumsum()).astype(np.int32)
    members = rng.integers(0, 9, starts[-1]).astype(np.int32)
    gates = (4.0 * rng.normal(size=(10, 4 * width))).astype(np.float32)
    inputs = gates.astype(np.float64)
    before, cell, squashed, query, reading = np.ones((5, 10, width), np.float32)
    weights = np.ones(starts[-1], np.float32)
    bias = np.zeros(4 * width, np.float32)
    kernels.step(
        vectors, members, starts, gates, bias, before, cell, squashed, weights, query, reading
    )
    enter, keep, leave = np.split(expit(inputs[:, : 3 * width]), 3, axis=1)
    after = keep + enter * np.tanh(inputs[:, 3 * width :])
    np.testing.assert_allclose(cell, after, atol=1e-6)
    np.testing.assert_allclose(query, leave * np.tanh(after), atol=1e-6)
    assert (reading[0] == 0.0).all()
    for i in range(1, 10):
        mine = slice(starts[i], starts[i + 1])
        rows = vectors[members[mine]].astype(np.float64)
        attention = softmax(rows @ query[i].astype(np.float64))
        np.testing.assert_allclose(weights[mine], attention, atol=1e-5)
        np.testing.assert_allclose(reading[i], attention @ rows, atol=1e-4)


def test_adam_steps_like_torchs() -> None:
    problem = _problem()
    shape = network_shapes(CONFIG, problem)[1]
    learner = Learner(SetNetwork(shape, _vector(shape), problem.layout, STEPS))
    network = learner.network
    parameter = torch.nn.Parameter(torch.as_tensor(network.vector.astype(np.float64)))
    theirs = torch.optim.Adam([parameter], lr=0.01)
    pairs = Pairs.fit(problem.layout, problem.rows)
    sets = Sets.of_columns(pairs.of_person, _masks(120)[:, problem.layout.group_of])
    memory = Memory.of_pairs(network, pairs, sets.members)
    readings = read(network, memory, sets)
    head = Head.of_readings(network, "classify", readings.last)
    rng = np.random.default_rng(1)
    for step in range(40):
        outer = (10.0 ** rng.uniform(-7, 3) * rng.normal(size=head.outputs.shape)).astype(
            np.float32
        )
        rate = 0.01 / (1 + step)
        learner.step(memory, readings, {"classify": (head, outer)}, rate)
        parameter.grad = torch.as_tensor(learner.gradient.astype(np.float64))
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        np.testing.assert_allclose(network.vector, parameter.detach(), atol=3e-6)
    assert learner.steps == 40


@pytest.mark.parametrize("kind", KINDS)
def test_pretraining_is_that_of_the_plain_rendering(kind: str) -> None:
    problem = _problem(kind)
    shapes = network_shapes(CONFIG, problem)
    networks = pretrain(problem, CONFIG)
    plain = PlainDADI(problem, CONFIG)
    start = [parameter.detach().clone() for parameter in plain.predictor.encoder.read.parameters()]
    plain.pretrain(CONFIG.pretrain_iterations)
    for before, after in zip(start, plain.predictor.encoder.read.parameters(), strict=True):
        assert (after - before).abs().max() > 0.01
    _assert_like(plain.predictor, shapes[0], networks[0].vector, 1e-3)
    _assert_like(plain.adversary, shapes[1], networks[1].vector, 1e-3)


@pytest.mark.parametrize(
    ("exploration", "gamma"),
    [
        ((0.7, 0.1), 0.6),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (((0.0, 0.0), 0.6), ((1.0, 1.0), 0.6), ((0.7, 0.1), 0.0), ((0.7, 0.1), 1.0))
        ),
    ],
)
def test_joint_training_is_that_of_the_plain_rendering(
    exploration: tuple[float, float], gamma: float
) -> None:
    problem = _problem()
    start, end = exploration
    config = _config(gamma=gamma, exploration_start=start, exploration_end=end, n_iterations=12)
    shapes = network_shapes(config, problem)
    networks = pretrain(problem, config)
    plain = PlainDADI(problem, config)
    load_parameters(plain.predictor, shapes[0].named(networks[0].vector))
    load_parameters(plain.adversary, shapes[1].named(networks[1].vector))
    engine = JointTraining(problem, config, networks)
    for iterations in (1, 2, 9):
        logs, expected = engine.advance(iterations), plain.joint(iterations)
        for name, value in expected.items():
            assert logs[name] == pytest.approx(value, rel=1e-4), name
        np.testing.assert_array_equal(engine.person, plain.person)
        np.testing.assert_array_equal(engine.known, plain.known)
        _assert_like(plain.predictor, shapes[0], engine.networks[0].vector, 2e-3)
        _assert_like(plain.adversary, shapes[1], engine.networks[1].vector, 2e-3)
        _assert_like(plain.target, shapes[0], engine.target.vector, 2e-3)
    assert engine.iteration == config.n_iterations


def test_the_target_values_the_action_that_the_policy_prefers() -> None:
    problem = _problem()
    config = _config(target_every=1000)
    shapes = network_shapes(config, problem)
    # target and policy know nothing of each other: they prefer different actions
    networks, other = _networks(problem, config), _vector(shapes[0], 2)
    plain = PlainDADI(problem, config)
    engine = JointTraining(problem, config, networks)
    state = engine.state() | {"iteration": np.array(1), "target": other}
    engine.restore(state)
    plain.iteration = 1
    load_parameters(plain.predictor, shapes[0].named(networks[0].vector))
    load_parameters(plain.adversary, shapes[1].named(networks[1].vector))
    load_parameters(plain.target, shapes[0].named(other))
    X, known = dense_rows(problem), _masks(120)
    values = [
        SetNetwork(shapes[0], vector, problem.layout, STEPS).outputs("policy", X, known)
        for vector in (networks[0].vector, other)
    ]
    assert (values[0].argmax(axis=1) != values[1].argmax(axis=1)).mean() > 0.5
    logs, expected = engine.advance(1), plain.joint(1)
    assert logs["value_error"] == pytest.approx(expected["value_error"], rel=1e-5)
    gradient = _plain(shapes[0], engine.state()["predictor"]["mean"] * np.float32(10.0))
    for mine, theirs in zip(plain.predictor.parameters(), gradient.parameters(), strict=True):
        if mine.grad is not None:
            assert (mine.grad - theirs).abs().max() <= 1e-4 * mine.grad.abs().max()
