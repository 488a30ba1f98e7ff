"""Compiled training of one trade-off on one core (appendix C): pretraining, and n-step double Q-learning."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import States, mark_known
from evenhand.fairlib.methods.dadi._inference import best_action
from evenhand.fairlib.methods.dadi._learner import (
    Learner,
    action_values,
    add_gradients,
    at_time,
    class_logits,
    cross_entropy,
    encode_sets,
    read_batch,
    step,
)
from evenhand.fairlib.methods.dadi.network import Columns, Rows
from evenhand.fairlib.methods.dadi.objectives import Outcome

ZERO = np.float32(0.0)


class Agents(NamedTuple):
    """Person of each agent (n,), groups known of them (n, G), and how many were asked (n,)."""

    person: Any
    known: Any
    asked: Any


class TrainConfig(NamedTuple):
    """Numbers of the training, as the classifier names them; ``costs`` and ``allowed`` (G,) are per group."""

    gamma: float
    value_scale: float
    value_weight: float
    learning_rate: float
    final_learning_rate: float
    exploration_start: float
    exploration_end: float
    target_every: int
    n_iterations: int
    costs: Any
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
    config: TrainConfig,
    random: Any,
    iterations: int,
) -> int:
    """Train both classifiers on whole rows and on rows with missing groups.

    Groups that are never asked are missing for everybody, so that they have no influence on the networks.

    `states` is a buffer of one time step. Returns the iterations done: fewer than asked for if a loss became
    NaN or infinite.
    """
    times, n, t = states.known_table.shape
    s = times - 1  # equals 0; a literal 0 would have every called function compiled a second time
    groups = config.allowed.size
    people = np.empty(states.upper.shape[0], np.int64)
    known = np.empty(groups, np.uint8)
    losses, no_policy, now = np.empty(n), np.zeros((n, 0), np.float32), at_time(states, s)
    for iteration in range(iterations):
        # half of the batch is whole; a person of the other half lacks each group with probability p ~ U(0, 1)
        people[:] = random.integers(0, rows.upper.shape[0], people.size)
        for i in range(n):
            dropped = 0.0 if 2 * i < n else random.random()
            now.person[i] = i
            for j in range(t):
                now.upper[i, j] = rows.upper[people[i], j]
            for g in range(groups):
                shown = random.random() >= dropped
                known[g] = 1 if shown and config.allowed[g] else 0
            mark_known(now, columns, i, known)
        # one step of each classifier on its mean cross-entropy
        for learner, outcome in ((predictor, label), (adversary, attribute)):
            read_batch(learner, rows, people)
            encode_sets(learner, states, s)
            logits = class_logits(learner, s)
            cross_entropy(logits, outcome, people[:n], losses)
            if not np.isfinite(losses.sum()):
                return iteration
            logits /= np.float32(n)
            add_gradients(learner, states, s, no_policy)
            step(learner, config.learning_rate)
    return iterations


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _explore(values: Any, known: Any, allowed: Any, greedy: int, epsilon: float, random: Any) -> int:
    """Epsilon-greedy choice among the groups that may be asked, and stopping."""
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
    config: TrainConfig,
    expected: Any,
) -> None:
    """Double Q-learning: the target network's value of the policy's best action, Q(s, argmax_a Q(s, a))."""
    encode_sets(target, states, s)
    values, others = predictor.buffers.policy.outputs[s], action_values(target, s)
    for i in range(expected.size):
        expected[i] = others[i, best_action(values[i], agents.known[i], config.allowed)]


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
    config: TrainConfig,
    random: Any,
    begin: int,
    end: int,
    sums: Any,
) -> int:
    """Iterations `begin` to `end`: n steps of every agent, then one step of every optimizer.

    `target` is a copy of the predictor, renewed every ``target_every`` iterations. `states` are a buffer of n
    + 1 time steps (first axis), which share ``upper``. To `sums`, float64 of shape (6,), are added: loss of
    the classifier, of the adversary, squared error of the values, reward at the end of an episode, groups
    asked in it, episodes. Returns the iteration reached: less than `end` if a loss became NaN or infinite in
    it.
    """
    times, n, t = states.known_table.shape
    n_steps, groups, gamma = times - 1, config.allowed.size, config.gamma
    stop = groups
    # two people per agent: the one at hand, and the one of its next episode
    people, slot = np.empty(2 * n, np.int64), np.empty((n_steps + 1, n), np.int64)
    action = np.empty((n_steps, n), np.int64)
    reward, ended = np.empty((n_steps, n)), np.empty((n_steps, n), np.bool_)
    label_loss, attribute_loss = np.empty(n), np.empty(n)
    combined, before = np.empty(n), np.empty(n)
    first = np.empty(n, np.bool_)
    expected, returned = np.empty((n_steps + 1, n)), np.empty(n)
    explored = np.empty((n_steps + 1, n), np.bool_)
    d_policy, no_policy = np.empty((n, groups + 1), np.float32), np.zeros((n, 0), np.float32)
    scale = np.float32(1.0 / (n * n_steps))
    for iteration in range(begin, end):
        if iteration % config.target_every == 0:
            target.adam.parameters[:] = predictor.adam.parameters
        # epsilon, linear over the first half of the iterations
        progress = min(1.0, iteration / max(1, config.n_iterations // 2))
        epsilon = config.exploration_start + progress * (config.exploration_end - config.exploration_start)
        # memory vectors of all people of this iteration
        people[:n] = agents.person
        people[n:] = random.integers(0, rows.upper.shape[0], n)
        for i in range(2 * n):
            for j in range(t):
                states.upper[i, j] = rows.upper[people[i], j]
        for i in range(n):
            slot[0, i] = i
        read_batch(predictor, rows, people)
        read_batch(adversary, rows, people)
        read_batch(target, rows, people)
        for s in range(n_steps + 1):
            # losses of both classifiers on the known sets
            now = at_time(states, s)
            for i in range(n):
                now.person[i] = slot[s, i]
                mark_known(now, columns, i, agents.known[i])
            encode_sets(predictor, states, s)
            encode_sets(adversary, states, s)
            persons = people[slot[s]]
            cross_entropy(class_logits(predictor, s), label, persons, label_loss)
            cross_entropy(class_logits(adversary, s), attribute, persons, attribute_loss)
            if not (np.isfinite(label_loss.sum()) and np.isfinite(attribute_loss.sum())):
                return iteration
            # R(O) (equation 2); a question earns its change of R, the first one all of R, less the cost
            for i in range(n):
                combined[i] = (1.0 - gamma) * attribute_loss[i] - gamma * label_loss[i]
                if s > 0 and not ended[s - 1, i]:
                    change = combined[i] if first[i] else combined[i] - before[i]
                    reward[s - 1, i] = config.value_scale * (change - config.costs[action[s - 1, i]])
            values = action_values(predictor, s)
            if s == n_steps:
                break
            sums[0] += label_loss.sum()
            sums[1] += attribute_loss.sum()
            if s > 0:
                _bootstrap(predictor, target, agents, states, s, config, expected[s])
            # every agent asks for a group, or stops and takes the next person
            for i in range(n):
                greedy = best_action(values[i], agents.known[i], config.allowed)
                chosen = _explore(values[i], agents.known[i], config.allowed, greedy, epsilon, random)
                action[s, i] = chosen
                explored[s, i] = chosen != greedy
                first[i] = agents.asked[i] == 0
                before[i] = combined[i]
                ended[s, i] = chosen == stop
                if chosen == stop:
                    reward[s, i] = config.value_scale * combined[i] if first[i] else 0.0
                    sums[3] += combined[i]
                    sums[4] += agents.asked[i]
                    sums[5] += 1
                    slot[s + 1, i] = n + i
                    agents.known[i] = 0
                    agents.asked[i] = 0
                else:
                    slot[s + 1, i] = slot[s, i]
                    agents.known[i, chosen] = 1
                    agents.asked[i] += 1
        _bootstrap(predictor, target, agents, states, n_steps, config, expected[n_steps])
        explored[n_steps] = True
        for back in range(n_steps):
            # n-step return, cut where the agent explored; gradient of (Q(s, a) - return)^2
            s = n_steps - 1 - back
            values = predictor.buffers.policy.outputs[s]
            d_policy[:] = ZERO
            for i in range(n):
                later = expected[s + 1, i] if explored[s + 1, i] else returned[i]
                returned[i] = reward[s, i] + (0.0 if ended[s, i] else later)
                error = np.float64(values[i, action[s, i]]) - returned[i]
                sums[2] += error * error
                d_policy[i, action[s, i]] = np.float32(2.0 * config.value_weight * error) * scale
            # gradients of the mean losses and of the values
            predictor.buffers.classify.outputs[s][:] *= scale
            adversary.buffers.classify.outputs[s][:] *= scale
            add_gradients(predictor, states, s, d_policy)
            add_gradients(adversary, states, s, no_policy)
        # the learning rate is constant, then linear over the second half of the iterations
        late = max(0.0, 2.0 * (iteration / config.n_iterations) - 1.0)
        rate = config.learning_rate + (config.final_learning_rate - config.learning_rate) * late
        step(predictor, rate)
        step(adversary, rate)
        for i in range(n):
            agents.person[i] = people[slot[n_steps, i]]
    return end
