"""One trade-off's training: pretraining once, then joint training in pieces, with a state to go on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.base import Callback, Float32
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.dadi._inference import Rows, head_outputs, read_sets
from evenhand.fairlib.methods.dadi._training import Agents, joint_training, pretraining
from evenhand.fairlib.methods.dadi.buffers import make_learner, make_states
from evenhand.fairlib.methods.dadi.config import Plan
from evenhand.fairlib.methods.dadi.inference import Reader
from evenhand.fairlib.methods.dadi.problem import Problem

__all__ = ["JointTraining", "Trained", "Weights", "pretrain", "readers", "train"]

Arrays = dict[str, NDArray[Any]]
EVERY = 100
CHECKED_ROWS = 256


@dataclass
class Weights:
    """Parameters of both networks, each in one vector."""

    predictor: Float32
    adversary: Float32


def readers(problem: Problem, plan: Plan, weights: Weights) -> tuple[Reader, Reader]:
    """Predictor and adversary with their parameters."""
    predictor, adversary = (
        Reader(shape, vector, problem.layout, plan.processing_steps)
        for shape, vector in zip(plan.shapes(problem), (weights.predictor, weights.adversary), strict=True)
    )
    return predictor, adversary


@dataclass(frozen=True)
class Trained:
    """Both networks before and after joint training, and what was told on the way."""

    pretrained: Weights
    weights: Weights
    history: dict[str, list[float]]


def pretrain(problem: Problem, plan: Plan, random: np.random.Generator) -> Weights:
    """
    Train both classifiers on whole and on partly unknown rows (appendix C); it does not depend on gamma.

    Raises
    ------
    FloatingPointError
        A loss became NaN or infinite.
    """
    shapes = plan.shapes(problem)
    weights = Weights(*(shape.draw(random) for shape in shapes))
    sizes: Any = {"agents": plan.agents, "times": 1, "steps": plan.processing_steps}
    columns = problem.layout.columns
    learners = [
        make_learner(shape, vector, columns, **sizes)
        for shape, vector in zip(shapes, (weights.predictor, weights.adversary), strict=True)
    ]
    done = pretraining(
        *learners,
        columns,
        problem.rows,
        problem.label,
        problem.attribute,
        make_states(plan.agents, 1, columns),
        plan.knobs(problem),
        random,
        plan.pretrain_iterations,
    )
    if done < plan.pretrain_iterations:
        raise FloatingPointError(
            f"the loss became NaN or infinite at iteration {done} of pretraining: lower the learning rate."
        )
    return weights


class JointTraining:
    """
    Joint training of one trade-off.

    Parameters
    ----------
    weights : Weights
        From :func:`pretrain`; they are copied.
    random : numpy Generator
        Its own.
    """

    def __init__(self, problem: Problem, plan: Plan, weights: Weights, random: np.random.Generator) -> None:
        self.problem, self.plan, self.random = problem, plan, random
        self.weights = Weights(weights.predictor.copy(), weights.adversary.copy())
        self.iteration = 0
        columns = problem.layout.columns
        predictor, adversary = plan.shapes(problem)
        sizes: Any = {"agents": plan.agents, "times": plan.n_step + 1, "steps": plan.processing_steps}
        self._learners = (
            make_learner(predictor, self.weights.predictor, columns, **sizes),
            make_learner(adversary, self.weights.adversary, columns, **sizes),
            make_learner(predictor, weights.predictor.copy(), columns, **sizes),
        )
        self._agents = Agents(
            random.integers(0, problem.label.code.size, plan.agents),
            np.zeros((plan.agents, problem.allowed.size), np.uint8),
            np.zeros(plan.agents, np.int64),
        )
        self._states = make_states(plan.agents, plan.n_step + 1, columns)
        self._knobs = plan.knobs(problem)

    @property
    def done(self) -> bool:
        """Whether all iterations are."""
        return self.iteration >= self.plan.n_iterations

    def advance(self, iterations: int) -> dict[str, float]:
        """
        Go on, and tell of it.

        Returns
        -------
        dict
            ``classification_loss`` and ``adversary_loss`` (weighted nats per state), ``value_error``
            (squared, of scaled values), and of finished episodes ``reward`` (nats) and ``asked`` (groups).

        Raises
        ------
        FloatingPointError
            A loss became NaN or infinite; the message names the iteration.
        """
        end = min(self.iteration + iterations, self.plan.n_iterations)
        told = np.zeros(6)
        problem = self.problem
        reached = joint_training(
            *self._learners,
            problem.layout.columns,
            problem.rows,
            problem.label,
            problem.attribute,
            self._agents,
            self._states,
            self._knobs,
            self.random,
            self.iteration,
            end,
            told,
        )
        if reached < end:
            raise FloatingPointError(
                f"the loss became NaN or infinite at iteration {reached} of {self.plan.n_iterations}: lower "
                "the learning rate."
            )
        states = (end - self.iteration) * self.plan.agents * self.plan.n_step
        self.iteration = end
        names = ("classification_loss", "adversary_loss", "value_error")
        means = {name: float(total / states) for name, total in zip(names, told[:3], strict=True)}
        episodes = max(told[5], 1.0)
        return means | {"reward": float(told[3] / episodes), "asked": float(told[4] / episodes)}

    def check(self) -> None:
        """
        Look at both networks once more: every iteration looks before its last step.

        Raises
        ------
        FloatingPointError
            They give NaN or infinite outputs.
        """
        problem = self.problem
        rows = Rows(problem.rows.upper[:CHECKED_ROWS], problem.rows.own[:CHECKED_ROWS])
        known = np.ones((len(rows.upper), problem.allowed.size), np.uint8)
        for shape, vector in zip(
            self.plan.shapes(problem), (self.weights.predictor, self.weights.adversary), strict=True
        ):
            network = shape.network(vector)
            steps = self.plan.processing_steps
            for seen in (known, np.zeros_like(known)):
                vectors = read_sets(network.encoder, problem.layout.columns, rows, seen, steps)
                outputs = [head_outputs(head, vectors) for head in (network.classify, network.policy)]
                if not all(np.isfinite(values).all() for values in outputs):
                    raise FloatingPointError(
                        f"the outputs became NaN or infinite at iteration {self.iteration} of "
                        f"{self.plan.n_iterations}: lower the learning rate."
                    )

    def state(self) -> Arrays:
        """All that the next iteration builds on."""
        arrays: Arrays = {"iteration": np.array(self.iteration)}
        for name, learner in zip(("predictor", "adversary", "target"), self._learners, strict=True):
            for field in ("parameters", "mean", "square", "steps"):
                arrays[f"{name}.{field}"] = getattr(learner.adam, field)
        for field, value in self._agents._asdict().items():
            arrays[f"agents.{field}"] = value
        generator = json.dumps(self.random.bit_generator.state).encode()
        return arrays | {"random": np.frombuffer(generator, np.uint8)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up what :meth:`state` gave."""
        self.iteration = int(arrays["iteration"])
        for name, learner in zip(("predictor", "adversary", "target"), self._learners, strict=True):
            for field in ("parameters", "mean", "square", "steps"):
                getattr(learner.adam, field)[...] = arrays[f"{name}.{field}"]
        for field, value in self._agents._asdict().items():
            value[...] = arrays[f"agents.{field}"]
        self.random.bit_generator.state = json.loads(arrays["random"].tobytes().decode())


def train(
    problem: Problem,
    plan: Plan,
    random: Callable[[str], np.random.Generator],
    kept: Checkpoint,
    *,
    pretrained: Weights | None = None,
    callback: Callback | None = None,
) -> Trained:
    """
    Train one trade-off, from its checkpoint if there is one.

    Parameters
    ----------
    random : callable
        Gives the random numbers for a purpose, the same ones at every call.
    kept : Checkpoint
        It stays: who has taken up the result removes it.
    pretrained : Weights or None
        None: pretraining is done first.
    callback : callable or None
        Called every 100 iterations with (iteration, iterations, what was told of them).

    Raises
    ------
    FloatingPointError
        A loss, or an output of the trained networks, became NaN or infinite.
    """
    history: dict[str, list[float]] = {}
    found = kept.load()
    if found is not None:
        pretrained = Weights(found["pretrained.predictor"], found["pretrained.adversary"])
    elif pretrained is None:
        pretrained = pretrain(problem, plan, random("pretraining"))
    joint = JointTraining(problem, plan, pretrained, random("joint training"))
    if found is not None:
        joint.restore(found)
        history = json.loads(found["history"].tobytes().decode())
    while not joint.done:
        told = joint.advance(EVERY)
        for name, value in {"step": float(joint.iteration), **told}.items():
            history.setdefault(name, []).append(value)
        if callback is not None:
            callback(joint.iteration, plan.n_iterations, told)
        if kept.due():
            kept.save(
                joint.state()
                | {
                    "pretrained.predictor": pretrained.predictor,
                    "pretrained.adversary": pretrained.adversary,
                    "history": np.frombuffer(json.dumps(history).encode(), np.uint8),
                }
            )
    joint.check()
    return Trained(pretrained, joint.weights, history)
