"""Attacks on proved bounds: does a comparable person exist beyond a bound? One would be too many.

    python -m benchmarks.studies.certificate_attacks

Twenty small models on six tables, two of them generated: networks (sensei, sensr, nn, clp) and
trees (gbdt, project, reweigh, budro). An attack is one person, one radius and one kind of search:

- *gradient*: projected gradient with restarts, for and against the person; trees have no gradient, so there
  the best point is changed at random again and again.
- *grid*: a grid along up to three free directions, at the person and at the best points so far.
- *random*: random points of the region.
- *corner*: corners of the range along the free directions, with and without a move of the full radius.

The points are made here, from the metric's matrix and bounds, and none by the prover's code. A
network is evaluated by torch in float64, trees by XGBoost. Counted are attacks above the bound of a
direction of the logits or of the margin, of the score, and of the squared change of the logits, and
points with another decision within the radius in which it cannot change. A network's bound is
exceeded if it is by more than ``TOLERANCE`` times one plus the value: a point is in its region, and
a logit is known, up to the rounding of some hundred operations in float64, which is below 1e-13 for
numbers of this size. The bounds of trees are sums of float32 numbers in XGBoost's own order: no
tolerance. Models that are in the file of results are not attacked again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.certificates.branching import MARGIN, network_rings
from evenhand.fairlib.certificates.measures import Ring, decision_radii, squared_length
from evenhand.fairlib.certificates.tree_rings import tree_rings
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store

Float = NDArray[np.float64]
Evaluate = Callable[[Float], Float]

# By table: a job with its fair metric, further settings, a categorical column for clp, and the
# methods.
TABLES: dict[str, tuple[str, list[str], str, tuple[str, ...]]] = {
    "adult": ("adult-project", [], "sex", ("sensei", "nn", "project", "budro")),
    "german": ("german-project", [], "personal_status", ("sensr", "clp", "gbdt", "project")),
    "compas": ("compas-project", [], "sex", ("sensei", "clp", "reweigh", "budro")),
    "bank": (
        "bank-gbdt",
        [
            "fair_metric.indicators=[marital]",
            "fair_metric.learned=[age]",
            "evaluate.certificate.budget=0.01",
        ],
        "marital",
        ("nn", "sensr", "gbdt"),
    ),
    "hiring": ("hiring-budro", [], "gender", ("sensei", "nn", "budro")),
    "loans": ("loans-budro", [], "group", ("sensr", "reweigh")),
}
TRAINING: dict[str, dict[str, Any]] = {
    "network": {"n_steps": 400, "batch_size": 64, "hidden": (24, 16), "n_iter_no_change": None},
    "trees": {"n_steps": 20, "max_depth": 4, "eta": 0.3, "n_iter_no_change": None},
}
ROWS, PEOPLE = 2000, 44
RADII = (0.0, 0.1, 0.3, 1.0)
PARTS, STATES = 60, 300
RESTARTS, STEPS, POINTS, GRID = 6, 40, 400, (0, 200, 20, 8)
TOLERANCE = 1e-9
KINDS = ("gradient", "grid", "random", "corner")


class Comparable:
    r"""The points :math:`x + P \delta + B t` at a fair distance of at most r from some people, (n,
    d).
    """

    def __init__(self, metric: Metric, X: Float, radius: float, seed: int = 0) -> None:
        d, bounds, self.basis = X.shape[1], metric.feature_bounds_, metric.basis_
        self.x, self.radius, self.random = X, radius, np.random.default_rng(seed)
        self.matrix = metric.weigh(np.eye(d))
        values, vectors = np.linalg.eigh(self.matrix)
        kept = values > 1e-9 * values[-1]
        # w with delta = root w has the length of delta in the fair metric
        self.root = vectors[:, kept] / np.sqrt(values[kept])
        own = X @ self.basis
        self.low, self.high = np.minimum(bounds.low - X, 0.0), np.maximum(bounds.high - X, 0.0)
        self.t_low = np.minimum(bounds.free_low - own, 0.0)
        self.t_high = np.maximum(bounds.free_high - own, 0.0)

    def inside(self, delta: Float, t: Float) -> tuple[Float, Float]:
        """The moves, (..., n, d) and (..., n, k), cut to the boxes and then shortened to the
        radius.
        """
        delta = np.clip(delta, self.low, self.high)
        length = np.sqrt(np.einsum("...i,ij,...j->...", delta, self.matrix, delta))
        share = np.minimum(1.0, self.radius / np.maximum(length, 1e-300)) * (1.0 - 1e-12)
        return delta * share[..., None], np.clip(t, self.t_low, self.t_high)

    def points(self, delta: Float, t: Float) -> Float:
        """The points of moves."""
        delta, t = self.inside(delta, t)
        return np.asarray(self.x + delta + (t - delta @ self.basis) @ self.basis.T)

    def somewhere(self, count: int, full: bool = False) -> tuple[Float, Float]:
        """Random moves, (count, n, d) and (count, n, k): of all lengths, or all of the full one."""
        w = self.random.normal(size=(count, len(self.x), self.root.shape[1]))
        # a few features only: many small moves would be cut less by the box, and reach less far
        w *= self.random.random(w.shape) < self.random.choice([0.05, 0.3, 1.0], size=(count, 1, 1))
        w /= np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-300)
        share = 1.0 if full else self.random.random((count, len(self.x), 1))
        t = self.random.uniform(self.t_low, self.t_high, size=(count, *self.t_low.shape))
        return self.radius * share * w @ self.root.T, t

    def corners(self, count: int) -> tuple[Float, Float]:
        """Moves to random corners along the free directions; every second one has delta = 0."""
        delta, t = self.somewhere(count, full=True)
        delta[::2] = 0.0
        return delta, np.where(self.random.random(t.shape) < 0.5, self.t_low, self.t_high)

    def grid(self, steps: Sequence[int]) -> Float:
        """Moves t on a grid along up to three free directions, (points, n, k); others keep 0.

        `steps` are those along each of 0, 1, 2 or 3 directions.
        """
        k = min(self.basis.shape[1], 3)
        shares = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, steps[k] + 1)] * k), -1).reshape(
            -1, 1, k
        )
        chosen = self.random.permutation(self.basis.shape[1])[:k]
        t = np.zeros((len(shares), *self.t_low.shape))
        t[..., chosen] = self.t_low[:, chosen] + shares * (self.t_high - self.t_low)[:, chosen]
        return t

    def climb(
        self, slope: Callable[[Float], Float], restarts: int, steps: int, first: float = 0.5
    ) -> tuple[Float, Float]:
        """Moves after projected gradient from random places, (restarts, n, d) and
        (restarts, n, k).
        """
        delta, t = self.inside(*self.somewhere(restarts))
        for step in range(steps):
            pace = first * (1.0 - step / steps) + 0.01
            gradient = slope(self.points(delta, t))
            along = gradient @ self.basis
            g = (gradient - along @ self.basis.T) @ self.root
            g /= np.maximum(np.linalg.norm(g, axis=-1, keepdims=True), 1e-300)
            moved = delta + pace * self.radius * g @ self.root.T
            delta, t = self.inside(moved, t + pace * np.sign(along) * (self.t_high - self.t_low))
        return delta, t


class Attacked:
    """A model, its outputs for rows, and the bounds of all people at all radii."""

    def __init__(self, model: Any, metric: Metric, X: Float) -> None:
        self.is_trees = hasattr(model, "booster_")
        if self.is_trees:
            project = getattr(model, "_project", None) or (lambda rows: rows)
            self.booster, self.project = model.booster_, project
            self.rings = tree_rings(model, metric, X, RADII, rounds=(1, STATES))
            self.margins = self.rings
        else:
            self.network = copy.deepcopy(model.network_).double()
            angles = np.arange(8) * np.pi / 4
            self.rows = np.stack([np.cos(angles), np.sin(angles)])
            self.rings = network_rings(model.network_, metric, X, RADII, parts=PARTS)
            self.margins = [ring.columns(MARGIN, np.sqrt(2.0)) for ring in self.rings]
        self.safe = decision_radii(self.margins, 0.0)[0]

    def values(self, points: Float) -> Float:
        """The functions that the rings bound, (..., m), for points (..., d)."""
        rows = points.reshape(-1, points.shape[-1])
        if self.is_trees:
            read = np.asarray(self.project(rows.astype(np.float32)), dtype=np.float32)
            margin = self.booster.inplace_predict(read, predict_type="margin").astype(np.float64)
            found = np.stack([margin, -margin], axis=1)
        else:
            with torch.no_grad():
                found = self.network(torch.tensor(rows)).numpy() @ self.rows
        return np.asarray(found.reshape(*points.shape[:-1], -1))

    def margin(self, values: Float) -> Float:
        """The margin, of values as above."""
        return np.asarray(
            values[..., 0] if self.is_trees else values[..., MARGIN[0]] * np.sqrt(2.0)
        )

    def slope(self, points: Float, sign: float) -> Float:
        """Gradient of a network's margin, times a sign."""
        x = torch.tensor(points.reshape(-1, points.shape[-1]), requires_grad=True)
        logits = self.network(x)
        (found,) = torch.autograd.grad(sign * (logits[:, 1] - logits[:, 0]).sum(), x)
        return np.asarray(found.numpy().reshape(points.shape))

    def attacks(self, near: Comparable) -> Iterator[tuple[str, Float]]:
        """Points of each kind of attack, (count, n, d)."""
        for kind, moves in (("random", near.somewhere(POINTS)), ("corner", near.corners(POINTS))):
            yield kind, near.points(*moves)
        best = [self.best(near, sign) for sign in (1.0, -1.0)]
        yield "gradient", np.concatenate([near.points(*moves) for moves in best])
        t = near.grid(GRID)
        deltas = [
            np.zeros_like(near.x),
            *(
                self.winner(near, moves, sign)
                for moves, sign in zip(best, (1.0, -1.0), strict=True)
            ),
        ]
        yield (
            "grid",
            np.concatenate(
                [near.points(np.broadcast_to(delta, (len(t), *delta.shape)), t) for delta in deltas]
            ),
        )

    def winner(self, near: Comparable, moves: tuple[Float, Float], sign: float) -> Float:
        """The delta of the best of several moves of each person."""
        index = (sign * self.margin(self.values(near.points(*moves)))).argmax(axis=0)
        return np.asarray(moves[0][index, np.arange(len(near.x))])

    def best(self, near: Comparable, sign: float) -> tuple[Float, Float]:
        """Moves with a large (sign 1) or a small margin."""
        if not self.is_trees:
            return near.climb(lambda points: self.slope(points, sign), RESTARTS, STEPS)
        delta, t = near.somewhere(RESTARTS)
        value = sign * self.margin(self.values(near.points(delta, t)))
        for _ in range(STEPS):
            far, near_t = near.somewhere(RESTARTS)
            keep = near.random.random((2, RESTARTS, len(near.x), 1))
            tried = near.inside(
                delta + np.where(keep[0] < 0.7, 0.5 * far, 0.0), np.where(keep[1] < 0.5, near_t, t)
            )
            found = sign * self.margin(self.values(near.points(*tried)))
            better = (found > value)[..., None]
            delta, t = np.where(better, tried[0], delta), np.where(better, tried[1], t)
            value = np.maximum(found, value)
        return delta, t


def attack(model: Any, metric: Metric, X: Float) -> dict[str, Any]:
    """All attacks on one model."""
    target = Attacked(model, metric, X)
    count = dict.fromkeys(
        ("attacks", "points", "above_direction", "above_score", "above_change"), 0
    )
    count["decisions_within_safe_radius"] = 0
    excess, reached = -np.inf, []
    for radius in RADII:
        ring: Ring = target.rings[RADII.index(radius)]
        near = Comparable(metric, X, radius)
        allowed = 0.0 if target.is_trees else TOLERANCE
        own = target.values(X)
        best = np.zeros(len(X))
        for _, points in target.attacks(near):
            values = target.values(points)
            over = (values - ring.proved) / (1.0 + np.abs(values))
            excess = max(excess, float(over.max()))
            count["attacks"] += len(X)
            count["points"] += len(points) * len(X)
            count["above_direction"] += int((over.max(axis=(0, 2)) > allowed).sum())
            margin, ends = target.margin(values), target.margins[RADII.index(radius)].proved
            score, mine = expit(margin), expit(target.margin(own))
            # expit itself rounds
            limit = (
                np.maximum(expit(ends[:, 0]) - mine, mine - expit(-ends[:, 1])) + 1e-12 + allowed
            )
            count["above_score"] += int((np.abs(score - mine).max(axis=0) > limit).sum())
            if not target.is_trees:
                squared = np.square(values - own)[..., [0, 2]].sum(axis=-1).max(axis=0)
                most = squared_length(ring.proved - ring.own)
                count["above_change"] += int((squared > most * (1.0 + TOLERANCE) + TOLERANCE).sum())
            distance = metric.distance(points.reshape(-1, X.shape[1]), np.tile(X, (len(points), 1)))
            other = (margin > 0) != (target.margin(own) > 0)
            within = distance.reshape(margin.shape) < target.safe * (1.0 - TOLERANCE) - TOLERANCE
            count["decisions_within_safe_radius"] += int((other & within).any(axis=0).sum())
            best = np.maximum(best, np.abs(score - mine).max(axis=0))
        reached.append(float(best.mean() / np.maximum(limit.mean(), 1e-12)))
    return count | {"largest_relative_excess": excess, "reached_of_proved_score": reached}


def trained(method: str, train: Dataset, metric: Metric, encoder: TableEncoder, column: str) -> Any:
    """A small model of a method."""
    spec = METHODS[method]
    settings = dict(TRAINING["network" if spec.differentiable else "trees"], random_state=0)
    given: dict[str, Any] = {}
    if spec.needs_metric:
        settings["metric"] = metric
    if spec.needs_groups:
        given["sensitive_features"] = train.sensitive
    if spec.needs_counterfactuals:
        given["counterfactuals"] = encoded_copies(encoder, train.X, {column: "all"})
    return method_class(method)(**settings).fit(train.X, train.y, **given)


def main() -> None:
    """Attack what the file of results lacks."""
    known = RESULTS / "certificate_attacks.json"
    results: list[dict[str, Any]] = (
        json.loads(known.read_text())["results"] if known.is_file() else []
    )
    store = Store()
    for table, (job, settings, column, methods) in TABLES.items():
        wanted = [
            m for m in methods if not any((r["table"], r["method"]) == (table, m) for r in results)
        ]
        if not wanted:
            continue
        short = ["method.n_steps=4", "evaluate.draws=0", "evaluate.proof_parts=0"]
        _, steps = run_unpublished(store, job, short + settings)
        metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
        encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
        train, test = (
            read_dataset(store.fetch(steps.output("preprocess", p))) for p in ("train", "test")
        )
        train = train.take(np.random.default_rng(0).permutation(len(train.y))[:ROWS])
        X = test.X[np.random.default_rng(1).permutation(len(test.y))[:PEOPLE]].astype(np.float64)
        for method in wanted:
            found = attack(trained(method, train, metric, encoder, column), metric, X)
            results.append({"table": table, "method": method, "people": len(X), **found})
            log(results[-1])
            content = provenance("python -m benchmarks.studies.certificate_attacks")
            settings_of = {"radii": RADII, "kinds": KINDS, "tolerance": TOLERANCE}
            write_result("certificate_attacks", {**content, **settings_of, "results": results})
    above = [name for name in results[0] if name.startswith(("above", "decisions"))]
    sums = {name: sum(row[name] for row in results) for name in ("attacks", "points", *above)}
    log(len(results), "models", sums)


if __name__ == "__main__":
    main()
