r"""Theorem 1 of DADI by enumeration: ``python -m benchmarks.reproductions.dadi_theory``.

The theorem holds the networks fixed. With three questions of two answers there are 244 policies, so
all of them can be tried: each one's rewards by our training code, and its objective (equation 1).
The best policy of the decision process is found without the objective, backwards from the last
question. Examples are kept in ``benchmarks/results/papers_dadi_theory.json``; all of them take
about half a minute of one core.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.agent_training import (
    pretrain,
    step_rewards,
    weighted_losses,
    worth_of_stopping,
)
from evenhand.fairlib.methods.dadi.decision_problem import prepare
from evenhand.fairlib.methods.row_groups import read_groups

COMMAND = "python -m benchmarks.reproductions.dadi_theory"
RESULT = "papers_dadi_theory"
QUESTIONS = 3
PEOPLE = 120
EXAMPLES = 10
GAMMAS = (0.1, 0.5, 0.9)
NETWORKS: dict[str, Any] = {
    "hidden": (8, 8),
    "memory_size": 4,
    "pretrain_iterations": 200,
    "validation_share": 0.0,
}
# Sums of the same losses in another order differ by less.
EQUAL = 1e-9
DIGITS = 4


class Question(NamedTuple):
    """A policy that asks, and goes on by the answer; None in place of it stops."""

    place: int
    by_answer: tuple[Question | None, Question | None]


Policy = Question | None


def policies(known: frozenset[int], count: int) -> Iterator[Policy]:
    """Yield every policy from a state on: to stop, or a question and a policy for each answer.

    Parameters
    ----------
    known : frozenset of int
        Questions that are answered.
    count : int
        Of all questions.
    """
    yield None
    for place in range(count):
        if place in known:
            continue
        after = list(policies(known | {place}, count))
        for low in after:
            for high in after:
                yield Question(place, (low, high))


@dataclass(frozen=True)
class Example:
    """People, fixed networks, and what these lose on every set of answers.

    Parameters
    ----------
    answers : ndarray of int, shape (n, questions)
        0 or 1.
    label, attribute : mapping of frozenset to ndarray of float, shape (n,)
        Losses of classifier and adversary by set of known questions.
    """

    answers: Int
    label: Mapping[frozenset[int], Float]
    attribute: Mapping[frozenset[int], Float]

    def worth(self, known: frozenset[int], gamma: float) -> Float:
        """Everybody's R (equation 2) for stopping with a set."""
        return worth_of_stopping(self.label[known], self.attribute[known], gamma)

    def reached(self, policy: Policy) -> list[frozenset[int]]:
        """The set of questions with which a policy stops, of every person."""
        return [self._path(policy, person)[-1] for person in range(len(self.answers))]

    def _path(self, policy: Policy, person: int) -> list[frozenset[int]]:
        path = [frozenset[int]()]
        while policy is not None:
            path.append(path[-1] | {policy.place})
            policy = policy.by_answer[self.answers[person, policy.place]]
        return path

    def objective(self, policy: Policy, gamma: float) -> float:
        """Equation 1 at the networks: the mean of the weighted losses at the last sets."""
        total = 0.0
        for person, known in enumerate(self.reached(policy)):
            total += gamma * self.label[known][person]
            total -= (1.0 - gamma) * self.attribute[known][person]
        return total / len(self.answers)

    def reward(self, policy: Policy, gamma: float) -> float:
        """The mean sum of the rewards of a policy's actions, as the agent is trained on them."""
        total = 0.0
        worths = {known: self.worth(known, gamma) for known in self.label}
        for person in range(len(self.answers)):
            path = self._path(policy, person)
            # the last action stops, so the last set is met twice
            worth = np.array([[worths[known][person]] for known in [*path, path[-1]]])
            actions = len(path)
            ended = np.arange(actions)[:, None] == actions - 1
            asked = np.array([[len(known)] for known in path])
            total += float(step_rewards(worth, ended, asked).sum())
        return total / len(self.answers)

    def optimal(self, gamma: float) -> tuple[Policy, float]:
        """The best policy of the decision process and its mean reward, by backward induction."""
        everybody = np.ones(len(self.answers), bool)
        policy, value = self._best(frozenset(), everybody, gamma)
        return policy, value / len(self.answers)

    def _best(self, known: frozenset[int], people: Bool, gamma: float) -> tuple[Policy, float]:
        """The policy of most reward of people who share a state, and the sum of their rewards."""
        best: Policy = None
        value = float(self._earned(known, None, gamma)[people].sum())
        for place in range(self.answers.shape[1]):
            if place in known:
                continue
            total = float(self._earned(known, place, gamma)[people].sum())
            branches = []
            for answer in range(2):
                some = people & (self.answers[:, place] == answer)
                branch, later = self._best(known | {place}, some, gamma)
                branches.append(branch)
                total += later
            if total > value:
                best = Question(place, (branches[0], branches[1]))
                value = total
        return best, value

    def _earned(self, known: frozenset[int], place: int | None, gamma: float) -> Float:
        """Everybody's reward of one action in a state: of a question, or of stopping (None)."""
        after = known if place is None else known | {place}
        worth = np.stack([self.worth(known, gamma), self.worth(after, gamma)])
        n = worth.shape[1]
        ended = np.full((1, n), place is None)
        return step_rewards(worth, ended, np.full((1, n), len(known)))[0]


def make_example(seed: int) -> Example:
    """Draw people of two groups, and train both networks a little, so that answers matter.

    Parameters
    ----------
    seed : int

    Returns
    -------
    Example
    """
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, PEOPLE)
    # how much each answer tells of group and label differs between examples
    by_group = random.uniform(0, 0.4, QUESTIONS)
    answers = (random.random((PEOPLE, QUESTIONS)) < 0.3 + by_group * group[:, None]).astype(int)
    log_odds = (answers - 0.5) @ random.uniform(-3, 3, QUESTIONS)
    label = (random.random(PEOPLE) < 1 / (1 + np.exp(-log_odds))).astype(int)
    model = DADIClassifier(**NETWORKS, random_state=seed)
    X: Float32 = answers.astype(np.float32)
    places = {f"x{place}": [place] for place in range(QUESTIONS)}
    groups = read_groups({"group": group}, model.attributes, PEOPLE)
    problem, _ = prepare(model, X, label, groups, places)
    with threadpool_limits(1):
        networks = pretrain(problem, model)
    losses: list[dict[frozenset[int], Float]] = [{}, {}]
    for code in range(2**QUESTIONS):
        members = [place for place in range(QUESTIONS) if code >> place & 1]
        known = np.zeros((PEOPLE, QUESTIONS), bool)
        known[:, members] = True
        targets = (problem.label, problem.attribute)
        for found, network, target in zip(losses, networks, targets, strict=True):
            outputs = network.outputs("classify", X, known)
            found[frozenset(members)] = weighted_losses(outputs, target, np.arange(PEOPLE))[0]
    return Example(answers, losses[0], losses[1])


def measure(example: Example, gamma: float) -> dict[str, float]:
    """Compare the best policy of the decision process with all policies.

    Returns
    -------
    dict
        ``policies``; ``sum_error``: the largest of |reward + objective| of all; ``excess``: by how
        much the objective of the policy of most reward is above the least of all; ``spread``: of
        the objectives of all; ``questions`` of that policy, and whether it asks ``different`` people
        for different sets.
    """
    every = list(policies(frozenset(), example.answers.shape[1]))
    objectives = [example.objective(policy, gamma) for policy in every]
    rewards = [example.reward(policy, gamma) for policy in every]
    errors = [abs(a + b) for a, b in zip(rewards, objectives, strict=True)]
    best, value = example.optimal(gamma)
    reached = example.reached(best)
    return {
        "policies": len(every),
        "sum_error": max(errors),
        "value_error": abs(value - max(rewards)),
        "excess": example.objective(best, gamma) - min(objectives),
        "spread": max(objectives) - min(objectives),
        "questions": float(np.mean([len(known) for known in reached])),
        "different": float(len(set(reached)) > 1),
    }


def examples_of(gamma: float) -> dict[str, list[float]]:
    """Return what is measured of a trade-off, one entry an example.

    Raises
    ------
    KeyError
        If nothing is measured.
    """
    columns: dict[str, list[float]] = read_result(RESULT)["rows"][str(gamma)]
    return columns


def is_equal(columns: Mapping[str, Sequence[float]]) -> bool:
    """Whether the theorem is true of all examples of a trade-off."""
    largest = max(max(columns[name]) for name in ("sum_error", "value_error", "excess"))
    return math.isfinite(largest) and largest <= EQUAL


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all examples anew."""
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--quick", action="store_true", help="measure an example and keep nothing")
    chosen = parser.parse_args(arguments)
    code_state()
    rows: dict[str, dict[str, list[float]]] = {str(gamma): {} for gamma in GAMMAS}
    for seed in range(1 if chosen.quick else EXAMPLES):
        log(f"dadi, theorem 1: example {seed + 1} of {EXAMPLES}")
        example = make_example(seed)
        for gamma in GAMMAS:
            for name, value in measure(example, gamma).items():
                is_error = name in ("sum_error", "value_error", "excess")
                kept = float(f"{value:.1e}") if is_error else rounded(float(value), DIGITS)
                rows[str(gamma)].setdefault(name, []).append(kept)
    if chosen.quick:
        log(rows)
        return
    write_result(RESULT, {**provenance(COMMAND), "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
