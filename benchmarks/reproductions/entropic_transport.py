"""Algorithms 4 to 6 of BuDRO beside the exact solver: a small reference, which is not shipped.

``python -m benchmarks.reproductions.entropic_transport [DATA ...]`` measures both on the transport
problem of a half-trained BuDRO model: what share of the adversary's rise the entropic plan misses,
and the CPU seconds, at several strengths of the regularisation. The paper does not print its
strength. Results: ``benchmarks/results/papers_entropic.json``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from benchmarks.common import (
    code_state,
    log,
    provenance,
    read_result,
    rounded,
    run_unpublished,
    write_result,
)
from benchmarks.reproductions.paper_rows import row_of
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

RESULT = "papers_entropic"
TABLES = ("german", "compas")
# Strengths, as shares of the range of the losses of one label.
SHARES = (1.0, 0.1, 0.01, 0.001)
# Algorithm 6 as algorithm 2 is printed for Adult: batches of 200, 100 steps, momentum .9.
BATCH = 200
STEPS = 100
MOMENTUM = 0.9
# Relative accuracy of the root, and the largest multiplier that is tried, in losses a distance.
ACCURACY = 1e-10
DOUBLINGS = 200


@dataclass(frozen=True)
class Program:
    r"""The linear program (2.8) of the paper with its matrices written out.

    Attributes
    ----------
    costs : ndarray of float, shape (n, n)
        :math:`C_{ij}`, the squared fair distance.
    losses : ndarray of float, shape (n, n)
        :math:`R_{ij}`, the loss of row i under the label of row j (nats).
    budget : float
        :math:`\epsilon`.
    """

    costs: Float
    losses: Float
    budget: float

    def spent(self, plan: Float) -> float:
        """Mean squared distance of a plan."""
        return float((self.costs * plan).sum())

    def value(self, plan: Float) -> float:
        """Adversarial loss of a plan (nats)."""
        return float((self.losses * plan).sum())


def entropic_columns(multiplier: float, program: Program, strength: float) -> Float:
    r"""Plan (B.4) at a multiplier of the budget: every column sums to 1/n.

    Parameters
    ----------
    multiplier : float
        :math:`\eta`.
    program : Program
    strength : float
        :math:`\gamma`, the weight of the entropy (nats).

    Returns
    -------
    ndarray of float, shape (n, n)
        :math:`\Pi_{ij} \propto \exp((R_{ij} - \eta C_{ij}) / \gamma)`.
    """
    plan = (program.losses - multiplier * program.costs) / strength
    # the largest entry of a column is 1 before the sum: no exponential overflows
    plan -= plan.max(axis=0)
    np.exp(plan, out=plan)
    plan /= plan.sum(axis=0) * plan.shape[1]
    return plan


def unspent_budget(multiplier: float, program: Program, strength: float) -> float:
    """Algorithm 4: the budget that the entropic plan leaves, which rises with the multiplier.

    Parameters
    ----------
    multiplier, program, strength
        As in :func:`entropic_columns`.

    Returns
    -------
    float
        Below 0: the plan spends more than the budget.
    """
    plan = entropic_columns(multiplier, program, strength)
    return program.budget - program.spent(plan)


def entropic_plan(program: Program, strength: float) -> tuple[Float, float]:
    """Algorithm 5: the entropic plan that spends the budget.

    Parameters
    ----------
    program : Program
    strength : float
        As in :func:`entropic_columns`.

    Returns
    -------
    ndarray of float, shape (n, n)
        The plan.
    float
        Its multiplier.

    Raises
    ------
    ValueError
        If even the largest multiplier spends more: entropy moves people at budget 0, too.
    """

    def unspent(multiplier: float) -> float:
        return unspent_budget(multiplier, program, strength)

    if unspent(0.0) >= 0:
        return entropic_columns(0.0, program, strength), 0.0
    high = strength
    for _ in range(DOUBLINGS):
        if unspent(high) >= 0:
            break
        high *= 2
    else:
        raise ValueError("no multiplier keeps to the budget: give a larger budget.")
    multiplier = float(brentq(unspent, 0.0, high, xtol=ACCURACY * high, rtol=ACCURACY))
    return entropic_columns(multiplier, program, strength), multiplier


def multiplier_by_descent(
    program: Program, strength: float, *, start: float, rate: float, seed: int = 0
) -> float:
    r"""Algorithm 6: the multiplier of the entropic plan by stochastic gradient descent.

    The gradient of a batch is the budget less what the plan spends in its columns.

    Parameters
    ----------
    program : Program
    strength : float
        As in :func:`entropic_columns`.
    start : float
        :math:`\eta_1`.
    rate : float
        :math:`\alpha`, of every step.
    seed : int, default 0
        Draws the batches.

    Returns
    -------
    float
    """
    random = np.random.default_rng(seed)
    people = program.costs.shape[1]
    multiplier = start
    velocity = 0.0
    for _ in range(STEPS):
        columns = random.integers(0, people, BATCH)
        part = Program(program.costs[:, columns], program.losses[:, columns], program.budget)
        velocity = MOMENTUM * velocity + unspent_budget(multiplier, part, strength)
        multiplier = max(0.0, multiplier - rate * velocity)
    return multiplier


def program_of(points: Float, labels: Any, table: Float, budget: float) -> Program:
    """Write the matrices of a transport problem out.

    Parameters
    ----------
    points : ndarray of float, shape (n, d)
        Rows with the sensitive subspace projected out.
    labels : ndarray of int, shape (n,)
    table : ndarray of float, shape (classes, n)
        Loss of every row under every label (nats).
    budget : float

    Returns
    -------
    Program
    """
    squares = (points**2).sum(axis=1)
    costs = squares[:, None] + squares[None, :] - 2 * points @ points.T
    np.maximum(costs, 0.0, out=costs)
    np.fill_diagonal(costs, 0.0)
    return Program(costs, np.ascontiguousarray(table[labels].T), budget)


def half_trained(data: str) -> tuple[Float, Any, Float, float]:
    """Return points, labels, losses and budget of BuDRO after half of its printed steps."""
    row = row_of("budro", f"{data} budro")
    store = Store(os.environ.get("EVENHAND_STORE"))
    changes = [*row.changes, "evaluate.draws=0", "evaluate.certified_people=20"]
    resolved, run = run_unpublished(store, row.job, [*changes, "evaluate.proof_parts=none"])
    metric = load_metric(store.fetch(run.output("fair_metric", "metric")))
    train = read_dataset(store.fetch(run.output("preprocess", "train")))
    arguments = {**resolved.arguments, "n_jobs": 1, "random_state": 0}
    arguments["n_steps"] = max(1, arguments["n_steps"] // 2)
    model = BudroClassifier(metric, **arguments).fit(train.X, train.y)
    table = -np.log(model.predict_proba(train.X).T.astype(np.float64))
    points = np.asarray(metric.project(train.X), dtype=np.float64)
    return points, train.y.astype(np.int64), table, float(arguments["perturbation_budget"])


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its CPU seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


def compare(points: Float, labels: Any, table: Float, budget: float) -> dict[str, Any]:
    """Solve a problem exactly and with entropy at each strength.

    Returns
    -------
    dict
        ``exact`` and ``entropic`` (a row for each strength): the share of the adversary's rise
        that the plan misses, the share of the budget that it spends, and CPU seconds. ``sgd`` is
        the plan at the multiplier of algorithm 6, started at twice the root.
    """
    solver, setup = timed(lambda: DualSolver(TransportProblem(points, labels, budget)))
    exact, first = timed(lambda: solver.solve(table))
    _, following = timed(lambda: solver.solve(table))
    program, matrices = timed(lambda: program_of(points, labels, table, budget))
    scale = float(np.ptp(table, axis=1).max())

    def judged(plan: Float, seconds: float) -> dict[str, float]:
        missed = (exact.value - program.value(plan)) / (exact.value - exact.loss)
        return {"missed": missed, "spent": program.spent(plan) / budget, "seconds": seconds}

    rows = []
    for share in SHARES:
        strength = share * scale
        (plan, multiplier), seconds = timed(partial(entropic_plan, program, strength))
        row: dict[str, Any] = {"share": share, "strength": strength, **judged(plan, seconds)}
        # a step of one root's size where a batch leaves a whole budget
        descend = {"start": 2 * multiplier, "rate": 0.1 * multiplier / budget}
        reached, seconds = timed(partial(multiplier_by_descent, program, strength, **descend))
        plan, last = timed(partial(entropic_columns, reached, program, strength))
        row["sgd"] = judged(plan, seconds + last)
        rows.append(row)
    return {
        "people": len(labels),
        "range": scale,
        "rise": exact.value - exact.loss,
        "exact": {"setup": setup, "first": first, "following": following},
        "matrices": {"seconds": matrices, "bytes": 2 * program.costs.nbytes},
        "entropic": rows,
    }


def main(names: Sequence[str]) -> None:
    """Measure the named tables (default: those that the results lack)."""
    code_state()
    content = read_result(RESULT)
    rows = content.get("rows", {})
    for data in names or [data for data in TABLES if data not in rows]:
        log(f"algorithms 4 to 6: {data}")
        with threadpool_limits(1):
            rows[data] = rounded(compare(*half_trained(data)), 7)
        content |= provenance("python -m benchmarks.reproductions.entropic_transport")
        content |= {"rows": rows, "whole": set(TABLES) <= set(rows)}
        write_result(RESULT, content)


if __name__ == "__main__":
    main(sys.argv[1:])
