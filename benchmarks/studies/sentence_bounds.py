"""Found and proved changes of a score along the free directions of sentences.

``python -m benchmarks.studies.sentence_bounds`` writes ``benchmarks/results/text_proof.json``: the network of
``tweets-sensei`` (seed 0) and 20 test rows. In the box of the training rows' coordinates along the
25 free directions, as the certificate has it at its radius: by parts per person. Then at radius 0
in the part of the box whose vectors are no longer than those of the encoder, which all have one
length: a person's free coordinates cannot leave the ball whose radius is the length that they have.
There the same relaxation is used without parts, with the smaller of both bounds of a linear
function; the search goes to its farthest points. Seconds are CPU seconds of one process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import log, provenance, rounded, run_unpublished, write_result
from evenhand.fairlib.certificates.branching import Branching
from evenhand.fairlib.certificates.networks import LinearRelaxation, read_network, upper_line
from evenhand.fairlib.certificates.proof import _score_and_threshold
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.sentences import from_text
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

PEOPLE, RADIUS, PARTS = 20, 0.1, (0, 8, 64, 256)
STARTS, MOVES, STEPS = 30, 60, 200


def main() -> None:
    """Measure and write the changes."""
    store = Store()
    _, steps = run_unpublished(store, "tweets-sensei", [])
    model = load_model(store.fetch(steps.output("decide", "model")))
    metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
    encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
    X = read_dataset(store.fetch(steps.output("preprocess", "test"))).X.astype(np.float64)
    X = X[np.random.default_rng(0).choice(len(X), PEOPLE, replace=False)]
    layers, score = read_network(model.network_), _score_and_threshold(model)[0]
    rows = []
    for parts in PARTS:
        started, relaxation = (
            time.process_time(),
            LinearRelaxation(layers, Region.of(metric, X, RADIUS)),
        )
        branching = Branching(relaxation, np.array([[-1.0, 1.0], [1.0, -1.0]]))
        ends, own = branching.run(parts * PEOPLE), branching.own.reshape(-1, 2)
        seconds = time.process_time() - started
        rows.append(summary("box", parts, seconds, score, own, ends.found, ends.proved))
    (column,) = (item for item in encoder.fitted_ if item.text is not None)
    mean = from_text((column.text or {})["mean"]).astype(np.float64) / column.scale
    started = time.process_time()
    changes = np.array([[*ball(layers, metric, x, mean, side)] for x in X for side in (1.0, -1.0)])
    own, found, proved = changes.reshape(PEOPLE, 2, 3).transpose(2, 0, 1)
    rows.append(summary("ball", 0, time.process_time() - started, score, own, found, proved))
    write_result(
        "text_proof",
        rounded({**provenance("python -m benchmarks.studies.sentence_bounds"), "rows": rows}),
    )


def summary(
    region: str, parts: int, seconds: float, score: Any, own: Any, *ends: Any
) -> dict[str, Any]:
    """Mean and maximum over people of the change of the score; margins are those of both sides."""
    values: dict[str, Any] = {"region": region, "parts": parts, "cpu_seconds": seconds}
    start = score(own[:, 0])
    for name, margins in zip(("found", "proved"), ends, strict=True):
        change = np.maximum(score(margins[:, 0]) - start, start - score(-margins[:, 1]))
        values |= {f"{name}_mean": float(change.mean()), f"{name}_max": float(change.max())}
        values[f"{name}_margin"] = float((margins - own).mean())
    log(values)
    return values


def ball(layers: Any, metric: Any, x: Any, mean: Any, side: float) -> Iterator[float]:
    """One side's margin of a row, the largest one found in its ball and box, and a bound of all
    there.
    """
    (weight, bias), (last, constant) = layers
    basis, bounds = metric.basis_, metric.feature_bounds_
    outer, offset = side * (last[1] - last[0]), side * (constant[1] - constant[0])
    start, along, own = weight @ x + bias, weight @ basis, x @ basis
    place = basis.T @ (x + mean)
    length = np.linalg.norm(place)
    low, high = np.minimum(bounds.free_low - own, 0.0), np.maximum(bounds.free_high - own, 0.0)

    def support(rows: Any) -> Any:
        box = np.maximum(rows * low, rows * high).sum(axis=-1)
        return np.minimum(box, length * np.linalg.norm(rows, axis=-1) - rows @ place)

    def farthest(row: Any) -> Any:
        return length * row / max(np.linalg.norm(row), 1e-12) - place

    yield float(outer @ np.maximum(start, 0.0) + offset)
    found, random = -np.inf, np.random.default_rng(0)
    for _ in range(STARTS):
        t = farthest(random.normal(size=basis.shape[1]))
        for _ in range(MOVES):
            t = np.clip(t, low, high)
            # back into the ball, along the line to the person
            t = t * np.clip(-2.0 * (place @ t) / max(t @ t, 1e-12), 0.0, 1.0)
            inputs = start + along @ t
            found = max(found, float(outer @ np.maximum(inputs, 0.0)))
            t = farthest((outer * (inputs > 0)) @ along)
    yield found + offset
    ends = start - support(-along), start + support(along)
    slope, intercept = upper_line(*ends)
    crossing, lower, proved = (ends[0] < 0) & (ends[1] > 0), slope.copy(), np.inf
    for step in range(STEPS):
        used = np.where(outer > 0, slope, lower)
        row = (outer * used) @ along
        value = support(row) + outer @ (used * start + np.where(outer > 0, intercept, 0.0))
        proved = min(proved, float(value))
        inputs = start + along @ farthest(row)
        lower = np.where(crossing, lower + 2.0 / (step + 3.0) * ((inputs > 0) - lower), lower)
    yield proved + offset


if __name__ == "__main__":
    main()
