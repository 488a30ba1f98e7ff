"""Training of one trade-off: pretraining, then joint training in pieces that can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.dadi._encoder import (
    ProcessingTrace,
    States,
    new_processing_trace,
    new_reading_trace,
)
from evenhand.fairlib.methods.dadi._layers import HeadTrace
from evenhand.fairlib.methods.dadi._learner import Adam, Buffers, Learner
from evenhand.fairlib.methods.dadi._training import Agents, TrainConfig, joint_training, pretraining
from evenhand.fairlib.methods.dadi.inference import SetNetwork
from evenhand.fairlib.methods.dadi.network import Columns, NetworkShape, Rows
from evenhand.fairlib.methods.dadi.problem import Problem

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.classifier import DADIClassifier

Arrays = dict[str, NDArray[Any]]
Networks = tuple[SetNetwork, SetNetwork]
"""Predictor and adversary."""
LEARNERS = ("predictor", "adversary", "target")
REPORT_EVERY = 100
CHECKED_ROWS = 256
# Defaults: so many people per training row are drawn at most, and in joint training this over the number of
# groups, within a range.
PASSES = 100
GROUP_ITERATIONS = 80_000
ITERATIONS = 1_000, 4_000


def network_shapes(config: DADIClassifier, problem: Problem) -> tuple[NetworkShape, NetworkShape]:
    """Shapes of the predictor and of the adversary, which has no policy."""
    d = sum(len(columns) for columns in problem.layout.groups.values())
    first, second = config.hidden
    predictor = NetworkShape(d, 2, problem.allowed.size + 1, (first, second), config.memory_size)
    outputs = int(problem.attribute.start.max()) + problem.attribute.classes
    return predictor, replace(predictor, classes=outputs, actions=0)


def iterations(config: DADIClassifier, problem: Problem) -> tuple[int, int]:
    """Iterations of pretraining and of joint training: those of the parameters, or what suits the table.

    Few people are soon learned by heart, and with more groups an iteration takes longer.
    """
    passes = max(1, PASSES * problem.label.code.size // config.agents)
    low, high = ITERATIONS
    by_groups = min(high, max(low, GROUP_ITERATIONS // int(problem.allowed.sum())))
    first, joint = config.pretrain_iterations, config.n_iterations
    return (
        min(high, passes) if first is None else int(first),
        min(by_groups, passes) if joint is None else int(joint),
    )


def _train_config(config: DADIClassifier, problem: Problem) -> TrainConfig:
    """Numbers of the compiled training, each of one type: kernels are compiled anew for every other one."""
    numbers: dict[str, Any] = {name: float(getattr(config, name)) for name in TrainConfig._fields[:7]}
    return TrainConfig(
        **numbers,
        target_every=int(config.target_every),
        n_iterations=iterations(config, problem)[1],
        costs=problem.costs,
        allowed=problem.allowed,
    )


def _states(agents: int, times: int, columns: Columns) -> States:
    """Buffer for sets of known columns at several times (first axis), with two people per agent."""
    t, c = columns.table.size, columns.own.size
    return States(
        np.zeros((times, agents), np.int64),
        np.zeros((2 * agents, t), np.float32),
        np.zeros((times, agents, t), np.float32),
        np.zeros((times, agents, c), np.float32),
    )


def _learner(network: SetNetwork, agents: int, times: int) -> Learner:
    """Optimizer and buffers of a network, whose vector is trained in place."""
    shape, columns = network.shape, network.layout.columns
    gradient, mean, square = (np.zeros(shape.size, np.float32) for _ in range(3))
    reading = new_reading_trace(columns, 2 * agents, *shape.hidden)
    memory, d_memory = (np.zeros((reading.value.size, shape.memory), np.float32) for _ in range(2))
    one = new_processing_trace(network.steps, agents, shape.memory, shape.columns)

    def zeros(*sizes: int) -> Float32:
        return np.zeros((times, *sizes), np.float32)

    processing = ProcessingTrace(*(zeros(*part.shape) for part in one))
    classify, policy = (
        HeadTrace(*(zeros(agents, units) for units in (*shape.hidden, outputs)))
        for outputs in (shape.classes, shape.actions)
    )
    return Learner(
        shape.network(network.vector),
        shape.network(gradient),
        Adam(network.vector, gradient, mean, square, np.zeros(1, np.int64)),
        Buffers(reading, memory, d_memory, processing, classify, policy),
    )


def pretrain(problem: Problem, config: DADIClassifier) -> Networks:
    """Train both classifiers on whole and on partly unknown rows (appendix C), independently of gamma.
    FloatingPointError: a loss became NaN or infinite.
    """
    random = generator(config.random_state, "pretraining")
    planned = iterations(config, problem)[0]
    predictor, adversary = (
        SetNetwork(shape, shape.draw(random), problem.layout, config.processing_steps)
        for shape in network_shapes(config, problem)
    )
    columns = problem.layout.columns
    done = pretraining(
        _learner(predictor, config.agents, 1),
        _learner(adversary, config.agents, 1),
        columns,
        problem.rows,
        problem.label,
        problem.attribute,
        _states(config.agents, 1, columns),
        _train_config(config, problem),
        random,
        planned,
    )
    if done < planned:
        raise FloatingPointError(
            f"the loss became NaN or infinite at iteration {done} of pretraining: lower the learning rate."
        )
    return predictor, adversary


class JointTraining:
    """Joint training of one trade-off from copies of the networks, by the parameters of `config`."""

    def __init__(self, problem: Problem, config: DADIClassifier, networks: Networks) -> None:
        self.problem, self.config = problem, config
        self.random = random = generator(config.random_state, "joint training")
        predictor, adversary, target = (
            replace(network, vector=network.vector.copy()) for network in (*networks, networks[0])
        )
        self.networks = predictor, adversary
        self.iteration = 0
        times = config.n_step + 1
        self._learners = [_learner(net, config.agents, times) for net in (predictor, adversary, target)]
        self._agents = Agents(
            random.integers(0, problem.label.code.size, config.agents),
            np.zeros((config.agents, problem.allowed.size), np.uint8),
            np.zeros(config.agents, np.int64),
        )
        self._states = _states(config.agents, times, problem.layout.columns)
        self._train_config = _train_config(config, problem)
        self.iterations = self._train_config.n_iterations

    def advance(self, iterations: int) -> dict[str, float]:
        """Train for some iterations, up to the last one.

        Returns ``classification_loss`` and ``adversary_loss`` (weighted nats per state), ``value_error``
        (squared, of scaled values), and of finished episodes ``reward`` (nats) and ``asked`` (groups).
        FloatingPointError if a loss became NaN or infinite; the message names the iteration.
        """
        config, problem = self.config, self.problem
        end = min(self.iteration + iterations, self.iterations)
        sums = np.zeros(6)
        reached = joint_training(
            *self._learners,
            problem.layout.columns,
            problem.rows,
            problem.label,
            problem.attribute,
            self._agents,
            self._states,
            self._train_config,
            self.random,
            self.iteration,
            end,
            sums,
        )
        if reached < end:
            raise self._not_finite("loss", reached)
        states = (end - self.iteration) * config.agents * config.n_step
        self.iteration = end
        names = ("classification_loss", "adversary_loss", "value_error")
        means = {name: float(total / states) for name, total in zip(names, sums[:3], strict=True)}
        episodes = max(sums[5], 1.0)
        return means | {"reward": float(sums[3] / episodes), "asked": float(sums[4] / episodes)}

    def _not_finite(self, subject: str, iteration: int) -> FloatingPointError:
        return FloatingPointError(
            f"the {subject} became NaN or infinite at iteration {iteration} of {self.iterations}: "
            "lower the learning rate."
        )

    def check(self) -> None:
        """Compute outputs once more: every iteration computes its losses before its last step.
        FloatingPointError: an output is NaN or infinite.
        """
        rows = Rows(*(part[:CHECKED_ROWS] for part in self.problem.rows))
        known = np.ones((len(rows.upper), self.problem.allowed.size), np.uint8)
        for network in self.networks:
            for head in ("classify", "policy"):
                for groups in (known, np.zeros_like(known)):
                    if not np.isfinite(network.head_outputs(head, rows, groups)).all():
                        raise self._not_finite("output", self.iteration)

    def state(self) -> Arrays:
        """Everything that the next iteration depends on."""
        arrays: Arrays = {"iteration": np.array(self.iteration)}
        for name, learner in zip(LEARNERS, self._learners, strict=True):
            for field in ("parameters", "mean", "square", "steps"):
                arrays[f"{name}.{field}"] = getattr(learner.adam, field)
        for field, value in self._agents._asdict().items():
            arrays[f"agents.{field}"] = value
        return arrays | {"random": _as_bytes(self.random.bit_generator.state)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from arrays that :meth:`state` gave."""
        self.iteration = int(arrays["iteration"])
        for name, learner in zip(LEARNERS, self._learners, strict=True):
            for field in ("parameters", "mean", "square", "steps"):
                getattr(learner.adam, field)[...] = arrays[f"{name}.{field}"]
        for field, value in self._agents._asdict().items():
            value[...] = arrays[f"agents.{field}"]
        self.random.bit_generator.state = _from_bytes(arrays["random"])


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    """JSON text of a value, as an array that a checkpoint can hold."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _from_bytes(array: NDArray[Any]) -> Any:
    return json.loads(array.tobytes().decode())


def train(
    problem: Problem, config: DADIClassifier, checkpoint: Checkpoint, callback: Callback | None = None
) -> tuple[Networks, Networks, dict[str, list[float]]]:
    """Train one trade-off, from its checkpoint if there is one: networks before and after, and the history.

    The callback is called every 100 iterations with (iteration, iterations, their entries of the history).
    The caller removes the checkpoint after storing the result. FloatingPointError if a loss, or an output of
    the trained networks, became NaN or infinite.
    """
    history: dict[str, list[float]] = {}
    found = checkpoint.load()
    if found is None:
        pretrained = pretrain(problem, config)
    else:
        predictor, adversary = (
            SetNetwork(shape, found[f"pretrained.{name}"], problem.layout, config.processing_steps)
            for shape, name in zip(network_shapes(config, problem), LEARNERS, strict=False)
        )
        pretrained = predictor, adversary
    joint = JointTraining(problem, config, pretrained)
    if found is not None:
        joint.restore(found)
        history = _from_bytes(found["history"])
    while joint.iteration < joint.iterations:
        logs = joint.advance(REPORT_EVERY)
        for name, value in {"step": float(joint.iteration), **logs}.items():
            history.setdefault(name, []).append(value)
        if callback is not None:
            callback(joint.iteration, joint.iterations, logs)
        if checkpoint.due():
            kept = {
                f"pretrained.{name}": network.vector
                for name, network in zip(LEARNERS, pretrained, strict=False)
            }
            checkpoint.save(joint.state() | kept | {"history": _as_bytes(history)})
    joint.check()
    return pretrained, joint.networks, history
