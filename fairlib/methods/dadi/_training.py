"""Pretraining, and joint training by n-step double Q-learning, of one trade-off on one core."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import States
from evenhand.fairlib.methods.dadi._inference import Columns, Rows, best_action
from evenhand.fairlib.methods.dadi._learner import (
    Learner,
    Outcome,
    act,
    at_time,
    classify,
    cross_entropy,
    learn,
    look,
    mark,
    read_people,
    update,
)

__all__ = ["Agents", "Knobs", "joint_training", "pretraining"]

ZERO = np.float32(0.0)


class Agents(NamedTuple):
    """Each agent's person, the groups known of them, and how many were asked."""

    person: Any
    known: Any
    asked: Any


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
    Groups that are never asked are dropped from all: what they tell must not shape what others are read as.

    Parameters
    ----------
    states : States
        Room for one time step.

    Returns
    -------
    int
        Iterations done: fewer than asked if a loss became NaN or infinite.
    """
    times, n, t = states.known_table.shape
    s = times - 1  # the only one; as a literal 0 it would compile all that it is given to once more
    groups = knobs.allowed.size
    scratch = np.empty((n, 2 * t), np.float32)
    powers = np.empty(max(4 * n * predictor.room.sets.query.shape[3], t + columns.own.size), np.int32)
    people = np.empty(states.upper.shape[0], np.int64)
    known = np.empty(groups, np.uint8)
    losses, nothing, now = np.empty(n), np.zeros((n, 0), np.float32), at_time(states, s)
    for iteration in range(iterations):
        people[:] = random.integers(0, rows.upper.shape[0], people.size)
        for i in range(n):
            dropped = 0.0 if 2 * i < n else random.random()
            now.person[i] = i
            for j in range(t):
                now.upper[i, j] = rows.upper[people[i], j]
            for g in range(groups):
                shown = random.random() >= dropped
                known[g] = 1 if shown and knobs.allowed[g] else 0
            mark(now, columns, i, known)
        for learner, outcome in ((predictor, label), (adversary, attribute)):
            read_people(learner, rows, people)
            look(learner, states, s, scratch, powers)
            outputs = classify(learner, s)
            cross_entropy(outputs, outcome, people[:n], losses)
            if not np.isfinite(losses.sum()):
                return iteration
            outputs /= np.float32(n)
            learner.room.d_memory[:] = ZERO
            learn(learner, states, s, scratch, nothing)
            update(learner, knobs.learning_rate)
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
    look(target, states, s, scratch, powers)
    values, others = predictor.room.policy.outputs[s], act(target, s)
    for i in range(expected.size):
        expected[i] = others[i, best_action(values[i], agents.known[i], knobs.allowed)]


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
    states: States,
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
    states : States
        Room for n + 1 time steps (first axis), whose people are the same: ``upper`` is shared.
    told : float64, shape (6,)
        Gets sums: loss of the classifier, of the adversary, squared error of the values, reward at the end of
        an episode, groups asked in it, episodes.

    Returns
    -------
    int
        The iteration reached: less than `end` if a loss became NaN or infinite in it.
    """
    times, n, t = states.known_table.shape
    n_steps = times - 1
    c, groups = columns.own.size, knobs.allowed.size
    stop = groups
    width = predictor.room.sets.query.shape[3]
    scratch = np.empty((n, 2 * t), np.float32)
    powers = np.empty(max(4 * n * width, t + c), np.int32)
    upper = states.upper
    people = np.empty(2 * n, np.int64)
    slot = np.empty((n_steps + 1, n), np.int64)
    action = np.empty((n_steps, n), np.int64)
    reward, ended = np.empty((n_steps, n)), np.empty((n_steps, n), np.bool_)
    label_loss, attribute_loss = np.empty(n), np.empty(n)
    combined, before = np.empty(n), np.empty(n)
    first = np.empty(n, np.bool_)
    expected, returned = np.empty((n_steps + 1, n)), np.empty(n)
    explored = np.empty((n_steps + 1, n), np.bool_)
    d_policy, nothing = np.empty((n, groups + 1), np.float32), np.zeros((n, 0), np.float32)
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
        read_people(predictor, rows, people)
        read_people(adversary, rows, people)
        read_people(target, rows, people)
        for s in range(n_steps + 1):
            now = at_time(states, s)
            for i in range(n):
                now.person[i] = slot[s, i]
                mark(now, columns, i, agents.known[i])
            look(predictor, states, s, scratch, powers)
            look(adversary, states, s, scratch, powers)
            persons = people[slot[s]]
            cross_entropy(classify(predictor, s), label, persons, label_loss)
            cross_entropy(classify(adversary, s), attribute, persons, attribute_loss)
            if not (np.isfinite(label_loss.sum()) and np.isfinite(attribute_loss.sum())):
                return iteration
            for i in range(n):
                combined[i] = (1.0 - gamma) * attribute_loss[i] - gamma * label_loss[i]
                if s > 0 and not ended[s - 1, i]:
                    change = combined[i] if first[i] else combined[i] - before[i]
                    reward[s - 1, i] = knobs.value_scale * (change - knobs.cost[action[s - 1, i]])
            values = act(predictor, s)
            if s == n_steps:
                break
            told[0] += label_loss.sum()
            told[1] += attribute_loss.sum()
            if s > 0:
                _bootstrap(predictor, target, agents, states, s, knobs, expected[s], scratch, powers)
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
        _bootstrap(predictor, target, agents, states, n_steps, knobs, expected[n_steps], scratch, powers)
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
            learn(predictor, states, s, scratch, d_policy)
            learn(adversary, states, s, scratch, nothing)
        done = iteration / knobs.iterations
        decayed = knobs.learning_rate + (knobs.final_rate - knobs.learning_rate) * max(0.0, 2.0 * done - 1.0)
        update(predictor, decayed)
        update(adversary, decayed)
        for i in range(n):
            agents.person[i] = people[slot[n_steps, i]]
    return end
