"""How often the intervals of an audit contain the truth: weights, people, AUCs, pairs, means.

    python -m benchmarks.studies.audit_coverage [--draws 2000]
        [--output audit_coverage]

:mod:`benchmarks.studies.interval_coverage` has rates, differences and ratios of rows of one weight.
Here are the intervals that only an audit by group has. Every cell below is simulated often, each
simulated table is a cell of one audit, and the share of tables whose interval contains the true
value is the cell's coverage.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.common import provenance, write_result
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    paired_correlation,
    paired_difference,
    pairwise_differences,
)
from evenhand.fairlib.evaluation.group_metrics import (
    Cells,
    auc_metric,
    mean_metric,
    share_metric,
)

LEVEL = 0.95
RATES = (0.01, 0.05, 0.2, 0.5)
NAME = "audit_coverage"
TOLERANCE = 1e-9
Cell = dict[str, Any]
Simulated = tuple[dict[str, Any], float, Estimates]


def weighted_rates(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """Rates of rows whose weights differ by a factor of ten and more."""
    for rate in RATES:
        for n in (20, 100, 1000):
            code = np.repeat(np.arange(draws), n)
            weights = rng.lognormal(0.0, 0.7, draws * n)
            cells = Cells(code, draws, weights)
            metric = share_metric(cells, rng.random(draws * n) < rate)
            assert metric.intervals is not None
            yield {"rate": rate, "n": n}, rate, metric.intervals(LEVEL)


def rates_of_people(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """Rates of people with one to nine rows each, which agree more than rows of different people."""
    for rate in RATES:
        for n in (20, 100, 500):
            size = rng.integers(1, 10, draws * n)
            person = np.repeat(np.arange(draws * n), size)
            own_rate = rng.beta(rate, 1.0 - rate, draws * n)
            hit = rng.random(len(person)) < own_rate[person]
            cells = Cells(person // n, draws, people=person)
            metric = share_metric(cells, hit)
            assert metric.intervals is not None
            yield {"rate": rate, "people": n}, rate, metric.intervals(LEVEL)


def areas(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """AUCs of two normal distributions of equal spread."""
    for area in (0.5, 0.7, 0.9, 0.98):
        for positives, negatives in ((10, 10), (10, 100), (50, 50), (200, 1000)):
            label, score = _scores(area, positives, negatives, draws, rng)
            code = np.repeat(np.arange(draws), positives + negatives)
            metric = auc_metric(Cells(code, draws), label, _ranks(score))
            assert metric.intervals is not None
            yield (
                {"area": area, "positives": positives, "negatives": negatives},
                area,
                metric.intervals(LEVEL),
            )


def differences_of_areas(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """Differences between the AUCs of two groups."""
    for areas_of_groups in ((0.7, 0.7), (0.6, 0.9)):
        for size in (20, 100):
            parts = []
            for area in areas_of_groups:
                label, score = _scores(area, size, size, draws, rng)
                code = np.repeat(np.arange(draws), 2 * size)
                metric = auc_metric(Cells(code, draws), label, _ranks(score))
                assert metric.intervals is not None
                parts.append(metric.intervals(LEVEL))
            stacked = Estimates(
                *(np.stack(columns, axis=-1) for columns in zip(*parts, strict=True))
            )
            difference = pairwise_differences(stacked)
            truth = areas_of_groups[0] - areas_of_groups[1]
            found = Estimates(*(column[..., 0, 1] for column in difference))
            yield {"areas": areas_of_groups, "of_each_label": size}, truth, found


def _scores(
    area: float, positives: int, negatives: int, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores of all tables."""
    shift = np.sqrt(2.0) * norm.ppf(area)
    label = np.tile(np.repeat([1, 0], [positives, negatives]), draws)
    return label, rng.normal(size=len(label)) + shift * label


def _ranks(score: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(score)).astype(np.int64)


def paired_rates(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """Differences between two predictions of the same people, which mostly agree."""
    for first, changed in ((0.5, 0.02), (0.5, 0.2), (0.1, 0.05), (0.02, 0.01)):
        for n in (20, 100, 1000):
            one = rng.random(draws * n) < first
            # some of those selected by the first are not by the second, and the other way round
            lost = one & (rng.random(draws * n) < changed)
            won = ~one & (rng.random(draws * n) < changed / 2)
            other = (one & ~lost) | won
            truth = first * changed - (1.0 - first) * changed / 2
            cells = Cells(np.repeat(np.arange(draws), n), draws)
            of_one = share_metric(cells, one)
            of_other = share_metric(cells, other)
            both = share_metric(cells, one & other)
            assert of_one.intervals is not None
            assert of_other.intervals is not None
            correlation = paired_correlation(both.value, of_one.value, of_other.value, both.n)
            found = paired_difference(
                of_one.intervals(LEVEL), of_other.intervals(LEVEL), correlation
            )
            yield {"rate": first, "changed": changed, "n": n}, truth, found


def means(draws: int, rng: np.random.Generator) -> Iterator[Simulated]:
    """Means of normal, skewed and bounded numbers."""
    kinds: dict[str, tuple[Callable[[int], np.ndarray], float]] = {
        "normal": (lambda size: rng.normal(3.0, 2.0, size), 3.0),
        "exponential": (lambda size: rng.exponential(2.0, size), 2.0),
        "squared error": (lambda size: rng.beta(2.0, 5.0, size) ** 2, 2 * 3 / (7 * 8)),
    }
    for kind, (draw, truth) in kinds.items():
        for n in (10, 50, 500):
            cells = Cells(np.repeat(np.arange(draws), n), draws)
            metric = mean_metric(cells, draw(draws * n), is_positive=False)
            assert metric.intervals is not None
            yield {"kind": kind, "n": n}, truth, metric.intervals(LEVEL)


STUDIES: dict[str, Callable[[int, np.random.Generator], Iterator[Simulated]]] = {
    "rate, weights": weighted_rates,
    "rate, people with several rows": rates_of_people,
    "AUC": areas,
    "difference of AUCs": differences_of_areas,
    "difference of two predictions": paired_rates,
    "mean": means,
}


def coverage(name: str, draws: int, rng: np.random.Generator) -> list[Cell]:
    """Coverage of every cell of a study."""
    cells = []
    for cell, truth, found in STUDIES[name](draws, rng):
        inside = (found.low <= truth + TOLERANCE) & (truth <= found.high + TOLERANCE)
        cells.append({**cell, "coverage": float(inside.mean())})
    return cells


def main() -> None:
    """Simulate, print a line a study, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--output", default=NAME, help="name of the result")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    result = {}
    for name in STUDIES:
        cells = coverage(name, arguments.draws, rng)
        covered = [cell["coverage"] for cell in cells]
        worst = min(cells, key=lambda cell: cell["coverage"])
        print(f"{name:32} mean {np.mean(covered):.4f}  smallest {min(covered):.4f}  {worst}")
        result[name] = {"mean": float(np.mean(covered)), "smallest": min(covered), "cells": cells}
    settings = {"level": LEVEL, "draws": arguments.draws}
    command = f"python -m benchmarks.studies.audit_coverage --draws {arguments.draws}"
    written = {**provenance(command), "settings": settings, "studies": result}
    write_result(arguments.output, written)


if __name__ == "__main__":
    main()
