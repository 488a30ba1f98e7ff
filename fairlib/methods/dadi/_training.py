"""Pretraining, and joint training by n-step double Q-learning, of one trade-off on one core."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from fairlib.methods.dadi._encoder import (
    Memory,
    ReadTrace,
    SetTrace,
    States,
    encode,
    encode_backward,
    read,
    read_backward,
)
from fairlib.methods.dadi._inference import Columns, Rows, best_action
from fairlib.methods.dadi._network import network_of
from fairlib.methods.dadi._perceptron import HeadTrace, apply_head, head_backward

__all__ = [
    "Adam",
    "Agents",
    "Knobs",
    "Learner",
    "Outcome",
    "Room",
    "joint_training",
    "pretraining",
]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ZERO, ONE = np.float32(0.0), np.float32(1.0)


class Adam(NamedTuple):
    """All parameters of a network in one vector, and what Adam keeps of each; ``steps`` (1,)."""

    parameters: Any
    gradient: Any
    mean: Any
    square: Any
    steps: Any


class Outcome(NamedTuple):
    """
    What is to be predicted of every person.

    ``code`` and ``weight`` (n,): the class, and the person's weight in the loss. The logits that compete are
    those from ``start`` (n,) on, ``classes`` of them.
    """

    code: Any
    weight: Any
    start: Any
    classes: int


class Agents(NamedTuple):
    """Each agent's person, the groups known of them, and how many were asked."""

    person: Any
    known: Any
    asked: Any


class Room(NamedTuple):
    """
    Room for one iteration of one network: of each trace, as many as there are time steps (first axis).

    ``memory`` and ``d_memory``: all memory vectors, those of the table and then those of the people.
    """

    reading: ReadTrace
    memory: Any
    d_memory: Any
    sets: SetTrace
    classify: HeadTrace
    policy: HeadTrace


class Learner(NamedTuple):
    """A network: its sizes (see :func:`network_of`), its parameters with their optimiser, and its room."""

    sizes: Any
    adam: Adam
    room: Room


class Knobs(NamedTuple):
    """Numbers of the training; ``cost`` and ``allowed`` are per group."""

    gamma: float
    value_scale: float
    value_weight: float
    learning_rate: float
    final_rate: float
    epsilon_start: float
    epsilon_end: float
    epsilon_iterations: int
    target_every: int
    iterations: int
    cost: Any
    allowed: Any


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _step(adam: Adam, rate: float) -> None:
    """One step of Adam; the gradient is 0 afterwards."""
    adam.steps[0] += 1
    k = adam.steps[0]
    scale = np.float32(rate * np.sqrt(1.0 - BETA2**k) / (1.0 - BETA1**k))
    floor = np.float32(EPSILON * np.sqrt(1.0 - BETA2**k))
    b1, b2 = np.float32(BETA1), np.float32(BETA2)
    for i in range(adam.parameters.size):
        g = adam.gradient[i]
        m = b1 * adam.mean[i] + (ONE - b1) * g
        s = b2 * adam.square[i] + (ONE - b2) * g * g
        adam.mean[i], adam.square[i] = m, s
        adam.parameters[i] -= scale * m / (np.sqrt(s) + floor)
        adam.gradient[i] = ZERO


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _read_people(learner: Learner, rows: Rows, people: Any) -> None:
    """Memory vectors of the two-valued columns and of the people listed."""
    room = learner.room
    c = rows.own.shape[1]
    start = room.reading.value.size - people.size * c
    for i in range(people.size):
        for k in range(c):
            room.reading.value[start + i * c + k] = rows.own[people[i], k]
    read(network_of(learner.adam.parameters, learner.sizes).encoder, room.reading, room.memory)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _cross_entropy(logits: Any, outcome: Outcome, people: Any, losses: Any) -> None:
    """Weighted cross-entropy (nats) of every row; the logits become weighted gradients."""
    n, outputs = logits.shape
    for i in range(n):
        code, weight = outcome.code[people[i]], outcome.weight[people[i]]
        first = outcome.start[people[i]]
        last = first + outcome.classes
        top = logits[i, first]
        for k in range(first + 1, last):
            top = max(top, logits[i, k])
        total = 0.0
        for k in range(first, last):
            total += np.exp(np.float64(logits[i, k] - top))
        losses[i] = weight * (np.log(total) - np.float64(logits[i, first + code] - top))
        for k in range(outputs):
            if k < first or k >= last:
                logits[i, k] = ZERO
            else:
                share = np.float32(np.exp(np.float64(logits[i, k] - top)) / total)
                logits[i, k] = weight * (share - (ONE if k == first + code else ZERO))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _vectors(memory: Any, states: States) -> Memory:
    """All memory vectors as those of the table and those of the people."""
    t2, width = 2 * states.known_table.shape[1], memory.shape[1]
    people, c = states.upper.shape[0], states.known_own.shape[1]
    return Memory(memory[:t2], memory[t2:].reshape(people, c, width))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _sets(trace: SetTrace, s: int) -> SetTrace:
    """The trace of one time step."""
    return SetTrace(
        trace.inputs[s],
        trace.gates[s],
        trace.cell[s],
        trace.squashed[s],
        trace.query[s],
        trace.reading[s],
        trace.weights[s],
        trace.share[s],
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _head(trace: HeadTrace, s: int) -> HeadTrace:
    """The trace of one time step."""
    return HeadTrace(trace.hidden1[s], trace.hidden2[s], trace.outputs[s])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _look(learner: Learner, states: States, s: int, scratch: Any, powers: Any, with_policy: bool) -> None:
    """Encode the states of a time step and apply the heads."""
    room, network = learner.room, network_of(learner.adam.parameters, learner.sizes)
    sets = _sets(room.sets, s)
    encode(network.encoder, _vectors(room.memory, states), states, sets, scratch, powers)
    apply_head(network.classify, sets.reading[-1], _head(room.classify, s))
    if with_policy:
        apply_head(network.policy, sets.reading[-1], _head(room.policy, s))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _learn(learner: Learner, states: States, s: int, scratch: Any, d_policy: Any, with_policy: bool) -> None:
    """Add the gradients of a time step; the classifier's outputs already hold their gradients."""
    room, network = learner.room, network_of(learner.adam.parameters, learner.sizes)
    gradient = network_of(learner.adam.gradient, learner.sizes)
    sets, classify = _sets(room.sets, s), _head(room.classify, s)
    vectors = sets.reading[-1]
    outer = head_backward(network.classify, vectors, classify, classify.outputs, gradient.classify)
    if with_policy:
        policy = _head(room.policy, s)
        outer += head_backward(network.policy, vectors, policy, d_policy, gradient.policy)
    memory, d_memory = _vectors(room.memory, states), _vectors(room.d_memory, states)
    encode_backward(network.encoder, memory, states, sets, outer, gradient.encoder, d_memory, scratch)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _update(learner: Learner, rate: float) -> None:
    """Take the gradients of the memory vectors through the reading block, and step."""
    encoder = network_of(learner.adam.parameters, learner.sizes).encoder
    gradient = network_of(learner.adam.gradient, learner.sizes).encoder
    read_backward(encoder, learner.room.reading, learner.room.d_memory, gradient)
    _step(learner.adam, rate)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _mark(states: States, columns: Columns, i: int, known: Any) -> None:
    """Set which columns of one state are known, from the groups."""
    for j in range(columns.table.size):
        states.known_table[i, j] = known[columns.table_group[j]]
    for k in range(columns.own.size):
        states.known_own[i, k] = known[columns.own_group[k]]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def pretraining(
    predictor: Learner,
    adversary: Learner,
    columns: Columns,
    rows: Rows,
    label: Outcome,
    attribute: Outcome,
    states: States,
    knobs: Knobs,
    random: Any,
    iterations: int,
) -> int:
    """
    Train both classifiers on whole rows, and on rows with groups dropped.

    Half of a batch is whole; of each other person, every group is dropped with a probability drawn for them.

    Returns
    -------
    int
        Iterations done: fewer than asked if a loss became NaN or infinite.
    """
    n, t = states.known_table.shape
    groups = knobs.allowed.size
    scratch = np.empty((n, 2 * t), np.float32)
    powers = np.empty(max(4 * n * predictor.room.sets.query.shape[3], t + columns.own.size), np.int32)
    people = np.empty(states.upper.shape[0], np.int64)
    known = np.empty(groups, np.uint8)
    losses, nothing = np.empty(n), np.zeros((1, 1), np.float32)
    for iteration in range(iterations):
        people[:] = random.integers(0, rows.upper.shape[0], people.size)
        for i in range(n):
            dropped = 0.0 if 2 * i < n else random.random()
            states.person[i] = i
            for j in range(t):
                states.upper[i, j] = rows.upper[people[i], j]
            for g in range(groups):
                known[g] = 1 if random.random() >= dropped else 0
            _mark(states, columns, i, known)
        for learner, outcome in ((predictor, label), (adversary, attribute)):
            _read_people(learner, rows, people)
            _look(learner, states, 0, scratch, powers, False)
            outputs = learner.room.classify.outputs[0]
            _cross_entropy(outputs, outcome, people[:n], losses)
            if not np.isfinite(losses.sum()):
                return iteration
            outputs /= np.float32(n)
            learner.room.d_memory[:] = ZERO
            _learn(learner, states, 0, scratch, nothing, False)
            _update(learner, knobs.learning_rate)
    return iterations


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _choose(values: Any, known: Any, allowed: Any, greedy: int, epsilon: float, random: Any) -> int:
    """Epsilon-greedy over the groups that may be asked, and to stop."""
    explore, pick = random.random(), random.random()
    if explore >= epsilon:
        return greedy
    stop = values.size - 1
    count = 1
    for g in range(stop):
        if allowed[g] and not known[g]:
            count += 1
    chosen = int(pick * count)
    for g in range(stop):
        if allowed[g] and not known[g]:
            if chosen == 0:
                return g
            chosen -= 1
    return int(stop)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def joint_training(
    predictor: Learner,
    adversary: Learner,
    target: Learner,
    columns: Columns,
    rows: Rows,
    label: Outcome,
    attribute: Outcome,
    agents: Agents,
    states: tuple[States, ...],
    knobs: Knobs,
    random: Any,
    begin: int,
    end: int,
    told: Any,
) -> int:
    """
    Iterations `begin` to `end`: n steps of every agent, then one step of every optimiser.

    Parameters
    ----------
    target : Learner
        Network of which the policy is copied every ``target_every`` iterations.
    states : tuple of States, length n + 1
        Room; all share ``upper``.
    told : float64, shape (6,)
        Gets sums: loss of the classifier, of the adversary, squared error of the values, reward at the end of
        an episode, groups asked in it, episodes.

    Returns
    -------
    int
        The iteration reached: less than `end` if a loss became NaN or infinite in it.
    """
    n_steps = len(states) - 1
    n, t = states[0].known_table.shape
    c, groups = columns.own.size, knobs.allowed.size
    stop = groups
    width = predictor.room.sets.query.shape[3]
    scratch = np.empty((n, 2 * t), np.float32)
    powers = np.empty(max(4 * n * width, t + c), np.int32)
    upper = states[0].upper
    people = np.empty(2 * n, np.int64)
    slot = np.empty((n_steps + 1, n), np.int64)
    action = np.empty((n_steps, n), np.int64)
    reward, ended = np.empty((n_steps, n)), np.empty((n_steps, n), np.bool_)
    label_loss, attribute_loss = np.empty(n), np.empty(n)
    combined, before = np.empty(n), np.empty(n)
    first = np.empty(n, np.bool_)
    expected, returned = np.empty((n_steps + 1, n)), np.empty(n)
    explored = np.empty((n_steps + 1, n), np.bool_)
    d_policy = np.empty((n, groups + 1), np.float32)
    scale = np.float32(1.0 / (n * n_steps))
    gamma = knobs.gamma
    for iteration in range(begin, end):
        if iteration % knobs.target_every == 0:
            target.adam.parameters[:] = predictor.adam.parameters
        progress = min(1.0, iteration / max(1, knobs.epsilon_iterations))
        epsilon = knobs.epsilon_start + progress * (knobs.epsilon_end - knobs.epsilon_start)
        people[:n] = agents.person
        people[n:] = random.integers(0, rows.upper.shape[0], n)
        for i in range(2 * n):
            for j in range(t):
                upper[i, j] = rows.upper[people[i], j]
        for i in range(n):
            slot[0, i] = i
        _read_people(predictor, rows, people)
        _read_people(adversary, rows, people)
        _read_people(target, rows, people)
        for s in range(n_steps + 1):
            now = states[s]
            for i in range(n):
                now.person[i] = slot[s, i]
                _mark(now, columns, i, agents.known[i])
            _look(predictor, now, s, scratch, powers, True)
            _look(adversary, now, s, scratch, powers, False)
            persons = people[slot[s]]
            _cross_entropy(predictor.room.classify.outputs[s], label, persons, label_loss)
            _cross_entropy(adversary.room.classify.outputs[s], attribute, persons, attribute_loss)
            if not (np.isfinite(label_loss.sum()) and np.isfinite(attribute_loss.sum())):
                return iteration
            for i in range(n):
                combined[i] = (1.0 - gamma) * attribute_loss[i] - gamma * label_loss[i]
                if s > 0 and not ended[s - 1, i]:
                    change = combined[i] if first[i] else combined[i] - before[i]
                    reward[s - 1, i] = knobs.value_scale * (change - knobs.cost[action[s - 1, i]])
            if s == n_steps:
                break
            told[0] += label_loss.sum()
            told[1] += attribute_loss.sum()
            values = predictor.room.policy.outputs[s]
            if s > 0:
                _bootstrap(predictor, target, agents, now, s, knobs, expected[s], scratch, powers)
            for i in range(n):
                greedy = best_action(values[i], agents.known[i], knobs.allowed)
                chosen = _choose(values[i], agents.known[i], knobs.allowed, greedy, epsilon, random)
                action[s, i] = chosen
                explored[s, i] = chosen != greedy
                first[i] = agents.asked[i] == 0
                before[i] = combined[i]
                ended[s, i] = chosen == stop
                if chosen == stop:
                    reward[s, i] = knobs.value_scale * combined[i] if first[i] else 0.0
                    told[3] += combined[i]
                    told[4] += agents.asked[i]
                    told[5] += 1
                    slot[s + 1, i] = n + i
                    agents.known[i] = 0
                    agents.asked[i] = 0
                else:
                    slot[s + 1, i] = slot[s, i]
                    agents.known[i, chosen] = 1
                    agents.asked[i] += 1
        _bootstrap(
            predictor, target, agents, states[n_steps], n_steps, knobs, expected[n_steps], scratch, powers
        )
        explored[n_steps] = True
        predictor.room.d_memory[:] = ZERO
        adversary.room.d_memory[:] = ZERO
        for back in range(n_steps):
            s = n_steps - 1 - back
            values = predictor.room.policy.outputs[s]
            d_policy[:] = ZERO
            for i in range(n):
                later = expected[s + 1, i] if explored[s + 1, i] else returned[i]
                returned[i] = reward[s, i] + (0.0 if ended[s, i] else later)
                error = np.float64(values[i, action[s, i]]) - returned[i]
                told[2] += error * error
                d_policy[i, action[s, i]] = np.float32(2.0 * knobs.value_weight * error) * scale
            predictor.room.classify.outputs[s][:] *= scale
            adversary.room.classify.outputs[s][:] *= scale
            _learn(predictor, states[s], s, scratch, d_policy, True)
            _learn(adversary, states[s], s, scratch, d_policy, False)
        done = iteration / knobs.iterations
        decayed = knobs.learning_rate + (knobs.final_rate - knobs.learning_rate) * max(0.0, 2.0 * done - 1.0)
        _update(predictor, decayed)
        _update(adversary, decayed)
        for i in range(n):
            agents.person[i] = people[slot[n_steps, i]]
    return end


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _bootstrap(
    predictor: Learner,
    target: Learner,
    agents: Agents,
    states: States,
    s: int,
    knobs: Knobs,
    expected: Any,
    scratch: Any,
    powers: Any,
) -> None:
    """The target network's value of the action that the policy would take (double Q-learning)."""
    _look(target, states, s, scratch, powers, True)
    values, others = predictor.room.policy.outputs[s], target.room.policy.outputs[s]
    for i in range(expected.size):
        expected[i] = others[i, best_action(values[i], agents.known[i], knobs.allowed)]
