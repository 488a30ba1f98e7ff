"""Training of one trade-off: pretraining, then joint training in pieces that can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.dadi import _attention_kernels as kernels
from evenhand.fairlib.methods.dadi.decision_problem import Outcome, Problem
from evenhand.fairlib.methods.dadi.network import NetworkShape, SetNetwork, best_actions
from evenhand.fairlib.methods.dadi.set_training import (
    Head,
    Memory,
    Pairs,
    Readings,
    Sets,
    add_encoder_gradient,
    add_head_gradient,
    read,
)
from evenhand.fairlib.methods.method_base import Callback

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.dadi_classifier import DADIClassifier

Networks = tuple[SetNetwork, SetNetwork]
"""Predictor and adversary."""
NAMES = ("predictor", "adversary")
# Attributes of a learner that its steps change.
LEARNED = ("vector", "mean", "square", "steps")
REPORT_EVERY = 100
CHECKED_ROWS = 256
# of Adam
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8
# Defaults: so many people per training row are drawn at most, and in joint training this over the
# number of groups, within a range.
PASSES = 100
GROUP_ITERATIONS = 80_000
ITERATIONS = 1_000, 4_000


def network_shapes(config: DADIClassifier, problem: Problem) -> tuple[NetworkShape, NetworkShape]:
    """Shapes of the predictor and of the adversary, which has no policy.

    Parameters
    ----------
    config : DADIClassifier
        Its `hidden` and `memory_size` are used.
    problem : Problem

    Returns
    -------
    NetworkShape, NetworkShape
        The adversary has an output for each group, with equalised odds one for each group and
        label.
    """
    d = sum(len(columns) for columns in problem.layout.groups.values())
    first, second = config.hidden
    predictor = NetworkShape(d, 2, problem.allowed.size + 1, (first, second), config.memory_size)
    outputs = int(problem.attribute.start.max()) + problem.attribute.classes
    return predictor, replace(predictor, classes=outputs, actions=0)


def iterations(config: DADIClassifier, problem: Problem) -> tuple[int, int]:
    """Iterations of pretraining and of joint training: those of the parameters, or what suits the
    table.

    With few people few iterations suffice, and with more groups an iteration takes longer.

    Parameters
    ----------
    config : DADIClassifier
    problem : Problem

    Returns
    -------
    int, int
        Of pretraining, and of joint training.
    """
    passes = max(1, PASSES * problem.label.code.size // config.agents)
    low, high = ITERATIONS
    by_groups = min(high, max(low, GROUP_ITERATIONS // int(problem.allowed.sum())))
    first = config.pretrain_iterations
    joint = config.n_iterations
    return (
        min(high, passes) if first is None else int(first),
        min(by_groups, passes) if joint is None else int(joint),
    )


def weighted_losses(logits: Float32, outcome: Outcome, people: Int) -> tuple[Float, Float32]:
    """Weighted cross-entropy of people whose logits are a block of the outputs.

    Parameters
    ----------
    logits : ndarray of float32, shape (n, outputs)
    outcome : Outcome
        Target of all people.
    people : ndarray of int, shape (n,)
        Positions in `outcome` of the people that the rows of `logits` are of.

    Returns
    -------
    ndarray of float, shape (n,)
        Losses (nats, times the weights).
    ndarray of float32, shape (n, outputs)
        Their gradient by the logits, which is 0 outside of the block.
    """
    rows = np.arange(len(people))
    code = outcome.code[people]
    weight = outcome.weight[people]
    start = outcome.start[people]
    block = (rows[:, None], start[:, None] + np.arange(outcome.classes))
    margins = logits[block].astype(np.float64)
    margins -= margins.max(axis=1, keepdims=True)
    shares = np.exp(margins)
    totals = shares.sum(axis=1)
    losses = weight * (np.log(totals) - margins[rows, code])
    # softmax minus the indicator of the class
    shares /= totals[:, None]
    shares[rows, code] -= 1.0
    gradient = np.zeros_like(logits)
    gradient[block] = weight[:, None] * shares
    return losses, gradient


class Learner:
    """A network, whose vector is trained in place by Adam.

    Parameters
    ----------
    network : SetNetwork
    """

    def __init__(self, network: SetNetwork) -> None:
        self.network = network
        self.vector = network.vector
        self.gradient, self.mean, self.square = (np.zeros_like(network.vector) for _ in range(3))
        self.gradients = network.shape.named(self.gradient)
        self.steps = np.zeros((), np.int64)

    def step(
        self,
        memory: Memory,
        readings: Readings,
        heads: Mapping[str, tuple[Head, Float32]],
        rate: float,
    ) -> None:
        """Take a step of Adam, given the gradients of the outputs of heads of the first sets.

        Parameters
        ----------
        memory : Memory
            Memory vectors that the sets were read from.
        readings : Readings
        heads : mapping of str to (Head, ndarray of float32)
            By name of the head, what it computed for the first of the sets, and the gradient of the
            loss by its outputs.
        rate : float
            Learning rate.
        """
        self.gradient[:] = 0.0
        outer = np.zeros_like(readings.last)
        for name, (head, of_outputs) in heads.items():
            of_readings = add_head_gradient(self.network, name, head, of_outputs, self.gradients)
            outer[: len(of_readings)] += of_readings
        add_encoder_gradient(self.network, memory, readings, outer, self.gradients)
        self.steps += 1
        # the corrections of both moments for their start at 0
        later = math.sqrt(1.0 - BETA2**self.steps)
        scale = np.float32(rate * later / (1.0 - BETA1**self.steps))
        kernels.adam(
            self.vector,
            self.gradient,
            self.mean,
            self.square,
            np.float32(1.0 - BETA1),
            np.float32(1.0 - BETA2),
            scale,
            np.float32(EPSILON * later),
        )


def pretrain(problem: Problem, config: DADIClassifier) -> Networks:
    """Train both classifiers on whole and on partly unknown rows (appendix C), independently of
    gamma.

    Groups that are never asked are missing for everybody, so that they have no influence on the
    networks.

    Parameters
    ----------
    problem : Problem
    config : DADIClassifier

    Returns
    -------
    SetNetwork, SetNetwork
        Predictor and adversary.

    Raises
    ------
    FloatingPointError
        If a loss became NaN or infinite.
    """
    random = generator(config.random_state, "pretraining")
    n = config.agents
    groups = problem.allowed.size
    predictor, adversary = (
        SetNetwork(shape, shape.draw(random), problem.layout, config.processing_steps)
        for shape in network_shapes(config, problem)
    )
    learners = [Learner(network) for network in (predictor, adversary)]
    pairs = Pairs.fit(problem.layout, problem.rows)
    for iteration in range(iterations(config, problem)[0]):
        # half of the batch is whole; a person of the other half lacks each group with probability p
        # ~ U(0, 1)
        people = random.integers(0, len(problem.rows.own), n)
        known = np.tile(problem.allowed, (n, 1))
        dropped = random.random((n // 2, 1 + groups))
        known[n - n // 2 :] &= dropped[:, 1:] >= dropped[:, :1]
        sets = Sets.of_columns(pairs.of_person[people], known[:, problem.layout.group_of])
        for learner, outcome in zip(learners, (problem.label, problem.attribute), strict=True):
            memory = Memory.of_pairs(learner.network, pairs, sets.members)
            readings = read(learner.network, memory, sets)
            head = Head.of_readings(learner.network, "classify", readings.last)
            losses, gradient = weighted_losses(head.outputs, outcome, people)
            if not math.isfinite(losses.sum()):
                raise FloatingPointError(
                    f"the loss became NaN or infinite at iteration {iteration} of pretraining: "
                    "lower the learning rate."
                )
            learner.step(
                memory,
                readings,
                {"classify": (head, gradient / np.float32(n))},
                config.learning_rate,
            )
    return predictor, adversary


class Episodes(NamedTuple):
    """What a agents did in n steps, each with the person at hand or with the next one."""

    slots: Int  # shape (n + 1, a): position of the person among those whom the agents may ask
    known: Bool  # shape (n + 1, a, G): groups known of the person
    action: Int  # shape (n, a)
    greedy: Int  # shape (n + 1, a): action of the highest value
    number: Int  # shape (n + 1, a): position of the state's set in `sets`
    sets: Sets  # distinct ones, in the order in which they were met
    readings: Readings  # the predictor's of each set
    values: Head  # the policy's of each set


class JointTraining:
    """Joint training of one trade-off from copies of the networks, by the parameters of `config`.

    The target network is a copy of the predictor, renewed every ``target_every`` iterations.

    Parameters
    ----------
    problem : Problem
    config : DADIClassifier
    networks : (SetNetwork, SetNetwork)
        Predictor and adversary; they stay as they are.
    """

    def __init__(self, problem: Problem, config: DADIClassifier, networks: Networks) -> None:
        self.problem = problem
        self.config = config
        self.pairs = Pairs.fit(problem.layout, problem.rows)
        self.random = generator(config.random_state, "joint training")
        predictor, adversary = (network.copy() for network in networks)
        self.networks = predictor, adversary
        self.target = predictor.copy()
        self._learners = Learner(predictor), Learner(adversary)
        self.iteration = 0
        self.iterations = iterations(config, problem)[1]
        # person of each agent, and the groups known of them
        self.person = self.random.integers(0, problem.label.code.size, config.agents)
        self.known = np.zeros((config.agents, problem.allowed.size), bool)

    def advance(self, iterations: int) -> dict[str, float]:
        """Train for some iterations, up to the last one.

        Parameters
        ----------
        iterations : int
            Number of iterations; fewer are done where the training ends earlier.

        Returns
        -------
        dict of str to float
            ``classification_loss`` and ``adversary_loss`` (weighted nats per state),
            ``value_error`` (squared, of scaled values), and of finished episodes ``reward`` (nats)
            and ``asked`` (groups).

        Raises
        ------
        FloatingPointError
            If a loss became NaN or infinite; the message names the iteration.
        """
        end = min(self.iteration + iterations, self.iterations)
        sums = np.zeros(6)
        count = end - self.iteration
        while self.iteration < end:
            sums += self._iterate()
            self.iteration += 1
        means = (sums[:3] / count).tolist()
        names = ("classification_loss", "adversary_loss", "value_error")
        episodes = max(sums[5], 1.0)
        return dict(zip(names, means, strict=True)) | {
            "reward": float(sums[3] / episodes),
            "asked": float(sums[4] / episodes),
        }

    def _iterate(self) -> Float:
        """Take n steps with every agent, then one step of the optimizer.

        Returns the mean losses of classifier and adversary and the mean squared error of the
        values, then sums: reward at the end of an episode, groups asked in it, episodes.
        """
        config = self.config
        problem = self.problem
        n = self.config.agents
        predictor, adversary = self.networks
        if self.iteration % config.target_every == 0:
            self.target = predictor.copy()
        # two people per agent: the one at hand, and the one of its next episode
        people = np.concatenate([self.person, self.random.integers(0, problem.label.code.size, n)])
        columns = self.pairs.of_person[people]
        memory = Memory.of_pairs(predictor, self.pairs, columns)
        episodes = self._episodes(columns, memory)
        known = episodes.known
        action = episodes.action
        person = people[episodes.slots.ravel()]
        self.person = people[episodes.slots[-1]]
        self.known = known[-1]
        # the losses of both classifiers on all known sets
        theirs = Memory.of_pairs(adversary, self.pairs, episodes.sets.members)
        their_readings = read(adversary, theirs, episodes.sets)
        classes = Head.of_readings(predictor, "classify", episodes.readings.last)
        guesses = Head.of_readings(adversary, "classify", their_readings.last)
        number = episodes.number.ravel()
        label, d_label = weighted_losses(classes.outputs[number], problem.label, person)
        attribute, d_attribute = weighted_losses(guesses.outputs[number], problem.attribute, person)
        R = worth_of_stopping(label, attribute, config.gamma).reshape(known.shape[:2])
        if not math.isfinite(R.sum()):
            raise self._not_finite("loss", self.iteration)
        ended = action == problem.allowed.size
        asked_counts = known[:-1].sum(axis=2)
        earned = step_rewards(R, ended, asked_counts)
        reward = config.value_scale * (earned - np.append(problem.costs, 0.0)[action])
        explored = action != episodes.greedy[: config.n_step]
        used = _used_values(ended, explored)
        expected = self._expected(episodes, used)
        returns = _returns(reward, expected, ended, explored)
        # one step on the mean losses and squared errors of all but the last sets
        learned = action.size
        taken = action.ravel()
        error = episodes.values.outputs[number[:learned], taken] - returns.ravel()
        d_values = np.zeros((learned, problem.allowed.size + 1), np.float32)
        d_values[np.arange(learned), taken] = 2.0 * config.value_weight * error
        mine = {"classify": (classes, d_label[:learned]), "policy": (episodes.values, d_values)}
        other = {"classify": (guesses, d_attribute[:learned])}
        self._learn(0, memory, episodes.readings, mine, number[:learned])
        self._learn(1, theirs, their_readings, other, number[:learned])
        means = label[:learned].mean(), attribute[:learned].mean(), np.square(error).mean()
        return np.array([*means, R[:-1][ended].sum(), asked_counts[ended].sum(), ended.sum()])

    def _learn(
        self,
        learner: int,
        memory: Memory,
        readings: Readings,
        heads: Mapping[str, tuple[Head, Float32]],
        number: Int,
    ) -> None:
        """Take a step on the mean loss of some states, given its gradients by their outputs.

        The sets are those of `readings` and `heads`; `number` is that of each state, and the states
        have the first ones.
        """
        count = int(number.max()) + 1
        of_sets = {}
        for name, (head, by_state) in heads.items():
            by_set = np.zeros((count, by_state.shape[1]), np.float32)
            kernels.add_rows(by_state * np.float32(1.0 / number.size), number, by_set)
            of_sets[name] = head.first(count), by_set
        self._learners[learner].step(memory, readings.first(count), of_sets, self._learning_rate())

    def _expected(self, episodes: Episodes, used: Bool) -> Float:
        """Values of states by double Q-learning: the target network's of the policy's best action.

        Only those of `used` states are computed, the others are 0: the target network reads fewer
        than half of the states.
        """
        number = episodes.number[used]
        is_read = np.zeros(len(episodes.sets.starts) - 1, bool)
        is_read[number] = True
        some = episodes.sets.take(is_read)
        memory = Memory.of_pairs(self.target, self.pairs, some.members)
        readings = read(self.target, memory, some).last
        outputs = Head.of_readings(self.target, "policy", readings).outputs
        place = np.cumsum(is_read) - 1
        expected = np.zeros(used.shape)
        expected[used] = outputs[place[number], episodes.greedy[used]]
        return expected

    def _learning_rate(self) -> float:
        """The learning rate is constant, then linear over the second half of the iterations."""
        config = self.config
        late = max(0.0, 2.0 * (self.iteration / self.iterations) - 1.0)
        return config.learning_rate + (config.final_learning_rate - config.learning_rate) * late

    def _episodes(self, columns: NDArray[np.int32], memory: Memory) -> Episodes:
        """Let every agent ask or stop n times, from what is known of its person.

        `columns` are the pairs of the people whom the agents may ask, first those at hand.
        """
        config = self.config
        problem = self.problem
        agents = np.arange(self.config.agents)
        policy = self.networks[0]
        slots = [agents]
        known = [self.known]
        actions: list[Int] = []
        greedy: list[Int] = []
        numbers: dict[bytes, int] = {}
        number: list[Int] = []
        sets: list[Sets] = []
        readings: list[Readings] = []
        values: list[Head] = []
        while True:
            seen = known[-1][:, problem.layout.group_of]
            states = Sets.of_columns(columns[slots[-1]], seen)
            its_number, is_new = states.numbered(numbers)
            number.append(its_number)
            sets.append(states.take(is_new))
            readings.append(read(policy, memory, sets[-1]))
            values.append(Head.of_readings(policy, "policy", readings[-1].last))
            outputs = np.concatenate([part.outputs for part in values])[its_number]
            unanswered = problem.allowed & ~known[-1]
            greedy.append(best_actions(outputs, unanswered))
            if len(actions) == config.n_step:
                return Episodes(
                    slots=np.stack(slots),
                    known=np.stack(known),
                    action=np.stack(actions),
                    greedy=np.stack(greedy),
                    number=np.stack(number),
                    sets=Sets.joined(sets),
                    readings=Readings.joined(readings),
                    values=Head.joined(values),
                )
            action = self._explore(unanswered, greedy[-1])
            actions.append(action)
            # ask, or stop and take the next person
            ended = action == problem.allowed.size
            after = known[-1].copy()
            after[agents[~ended], action[~ended]] = True
            after[ended] = False
            known.append(after)
            slots.append(np.where(ended, agents.size + agents, slots[-1]))

    def _explore(self, left: Bool, greedy: Int) -> Int:
        """Epsilon-greedy choice among the groups left to ask, bool of shape (n, G), and stopping.

        Epsilon is linear over the first half of the iterations.
        """
        config = self.config
        progress = min(1.0, self.iteration / max(1, self.iterations // 2))
        epsilon = config.exploration_start + progress * (
            config.exploration_end - config.exploration_start
        )
        possible = np.append(left, np.ones((len(left), 1), bool), axis=1)
        explore, pick = self.random.random((len(left), 2)).T
        place = (pick * possible.sum(axis=1)).astype(int)
        drawn = (possible & (possible.cumsum(axis=1) == 1 + place[:, None])).argmax(axis=1)
        return np.where(explore < epsilon, drawn, greedy)

    def _not_finite(self, subject: str, iteration: int) -> FloatingPointError:
        return FloatingPointError(
            f"the {subject} became NaN or infinite at iteration {iteration} of {self.iterations}: "
            "lower the learning rate."
        )

    def check(self) -> None:
        """Compute outputs once more: every iteration computes its losses before its last step.
        FloatingPointError: an output is NaN or infinite.
        """
        pairs = self.pairs.of_person[:CHECKED_ROWS]
        everything = np.ones((len(pairs), self.problem.layout.group_of.size), bool)
        for network in self.networks:
            memory = Memory.of_pairs(network, self.pairs, pairs)
            for known in (everything, ~everything):
                readings = read(network, memory, Sets.of_columns(pairs, known)).last
                for head in ("classify", "policy")[: 1 + bool(network.shape.actions)]:
                    outputs = Head.of_readings(network, head, readings).outputs
                    if not np.isfinite(outputs).all():
                        raise self._not_finite("output", self.iteration)

    def state(self) -> dict[str, Any]:
        """Everything that the next iteration depends on."""
        return {
            "iteration": self.iteration,
            "target": self.target.vector,
            "person": self.person,
            "known": self.known,
            "random": json.dumps(self.random.bit_generator.state),
            **{
                name: {field: getattr(learner, field) for field in LEARNED}
                for name, learner in zip(NAMES, self._learners, strict=True)
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a :meth:`state`.

        Parameters
        ----------
        state : mapping of str to any
            As a checkpoint loads it.
        """
        self.iteration = int(state["iteration"])
        self.target.vector[:] = state["target"]
        self.person = state["person"]
        self.known = state["known"]
        self.random.bit_generator.state = json.loads(str(state["random"]))
        for name, learner in zip(NAMES, self._learners, strict=True):
            for field in LEARNED:
                getattr(learner, field)[...] = state[name][field]


# what overflows ends as a loss that is not finite, which is reported
@np.errstate(over="ignore", invalid="ignore")
def train(
    problem: Problem,
    config: DADIClassifier,
    checkpoint: Checkpoint,
    callback: Callback | None = None,
) -> tuple[Networks, Networks, dict[str, list[float]]]:
    """Train one trade-off, from its checkpoint if there is one.

    The caller removes the checkpoint after storing the result.

    Parameters
    ----------
    problem : Problem
    config : DADIClassifier
    checkpoint : Checkpoint
    callback : callable or None, default None
        Called every 100 iterations with (iteration, iterations, their entries of the history). True
        ends the training.

    Returns
    -------
    (SetNetwork, SetNetwork)
        Predictor and adversary before the joint training.
    (SetNetwork, SetNetwork)
        Both after it.
    dict of str to list of float
        The history: ``step`` and the entries of :meth:`JointTraining.advance`.

    Raises
    ------
    FloatingPointError
        If a loss, or an output of the trained networks, became NaN or infinite.
    """
    history: dict[str, list[float]] = {}
    saved_state = checkpoint.load()
    if saved_state is None:
        pretrained = pretrain(problem, config)
    else:
        predictor, adversary = (
            SetNetwork(
                shape, saved_state["pretrained"][name], problem.layout, config.processing_steps
            )
            for shape, name in zip(network_shapes(config, problem), NAMES, strict=True)
        )
        pretrained = predictor, adversary
    joint = JointTraining(problem, config, pretrained)
    if saved_state is not None:
        joint.restore(saved_state)
        history = {name: values.tolist() for name, values in saved_state["history"].items()}
    while joint.iteration < joint.iterations:
        logs = joint.advance(REPORT_EVERY)
        for name, value in {"step": float(joint.iteration), **logs}.items():
            history.setdefault(name, []).append(value)
        if callback is not None and callback(joint.iteration, joint.iterations, logs):
            break
        if checkpoint.due():
            pretrained_vectors = {
                name: network.vector for name, network in zip(NAMES, pretrained, strict=True)
            }
            checkpoint.save(joint.state() | {"pretrained": pretrained_vectors, "history": history})
    joint.check()
    return pretrained, joint.networks, history


def worth_of_stopping(label: Float, attribute: Float, gamma: float) -> Float:
    r"""Return :math:`R(O) = -\gamma L_C + (1 - \gamma) L_A` (equation 2) of each set.

    Parameters
    ----------
    label, attribute : ndarray of float, shape (n,)
        Losses of classifier and adversary that know the sets.
    gamma : float

    Returns
    -------
    ndarray of float, shape (n,)
        In nats.
    """
    worth: Float = (1.0 - gamma) * attribute - gamma * label
    return worth


def step_rewards(worth: Float, ended: Bool, asked: Int) -> Float:
    """Return what each action earns: its change of R, the first one of a person all of R.

    So the rewards of a person's actions, of which the last is to stop, sum to R of the last set.

    Parameters
    ----------
    worth : ndarray of float, shape (n + 1, a)
        R of the sets before the first and after each of n actions.
    ended : ndarray of bool, shape (n, a)
        Whether the action was to stop.
    asked : ndarray of int, shape (n, a)
        How many groups were known before it.

    Returns
    -------
    ndarray of float, shape (n, a)
        In nats, without the costs of asking.
    """
    reached = np.where(ended, worth[:-1], worth[1:])
    return reached - np.where(asked > 0, worth[:-1], 0.0)


def _used_values(ended: Bool, explored: Bool) -> Bool:
    """Which states' values the returns take: of n + 1 times, those of :func:`_returns`."""
    used = np.zeros((len(ended) + 1, ended.shape[1]), bool)
    used[1:-1] = explored[1:]
    used[-1] = True
    used[1:] &= ~ended
    return used


def _returns(reward: Float, expected: Float, ended: Bool, explored: Bool) -> Float:
    """Returns of n steps, cut where the agent explored.

    All arguments have a row for each step; `expected`, the values of the states, has one more.
    """
    steps = len(reward)
    returned = expected[-1]
    returns = np.empty(reward.shape)
    for s in reversed(range(steps)):
        cut = s + 1 == steps or explored[s + 1]
        later = np.where(ended[s], 0.0, np.where(cut, expected[s + 1], returned))
        returned = reward[s] + later
        returns[s] = returned
    return returns
