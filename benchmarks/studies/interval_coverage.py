"""How often the intervals of rates, differences, ratios and gaps contain the truth, by simulation.

    python -m benchmarks.studies.interval_coverage [--draws 4000] [--output interval_coverage]

Every pair of the rates and sizes below is a cell: tables are drawn from it, and the share of tables
whose interval contains the true value is the cell's coverage. Of a single rate it is computed
exactly, for all sizes from 5 to 5,000 in steps of 3 %. A ratio counts where somebody is selected:
0/0 has no interval. More than two groups, and the gaps of error rates, have random cells from the
same rates and sizes.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import provenance, write_result
from evenhand.fairlib.evaluation.closed_intervals import exact_interval
from evenhand.fairlib.evaluation.metric_intervals import GROUP_INTERVALS, RateCells
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS

RATES = (0.0, 0.01, 0.05, 0.5, 1.0)
SIZES = (5, 10, 20, 50, 100, 300, 1000, 5000)
LEVEL = 0.95
NAME = "interval_coverage"
TOLERANCE = 1e-9
# Fewer tables of a cell in which a ratio is defined give no coverage.
FEWEST = 400
SELECTION = ("demographic_parity_difference", "impact_ratio")
Cell = dict[str, Any]


def coverage_of_a_rate(rate: float, n: int) -> float:
    """Exact coverage of the interval of one rate."""
    from scipy.stats import binom

    hits = np.arange(n + 1)
    found = exact_interval(hits, n, LEVEL)
    inside = (found.low <= rate + TOLERANCE) & (rate <= found.high + TOLERANCE)
    return float(binom.pmf(hits, n, rate)[inside].sum())


def drawn_cells(
    recalls: np.ndarray, sizes: np.ndarray, draws: int, rng: np.random.Generator
) -> tuple[RateCells, np.ndarray]:
    """Tables of K groups with given shares predicted right and sizes by label, (K, 2), and the true
    table.
    """
    right = rng.binomial(sizes, recalls, size=(draws, *recalls.shape))
    counts = _table(right, sizes)
    rows = np.broadcast_to(sizes.sum(axis=-1).astype(float), (draws, len(sizes)))
    by_label = np.broadcast_to(sizes.astype(float), (draws, *sizes.shape))
    return RateCells(counts, rows, by_label), _table(recalls * sizes, sizes)


def _table(right: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Counts by group, label and prediction, from those predicted right."""
    counts = np.zeros((*right.shape, 2))
    for label in (0, 1):
        counts[..., label, label] = right[..., label]
        counts[..., label, 1 - label] = (sizes - right)[..., label]
    return counts


def coverage(
    metric: str, recalls: np.ndarray, sizes: np.ndarray, draws: int, rng: np.random.Generator
) -> float | None:
    """Coverage of a metric's interval in one cell; None where it is hardly ever defined."""
    cells, truth = drawn_cells(recalls, sizes, draws, rng)
    expected = float(GROUP_METRICS[metric].function(truth))
    found = GROUP_INTERVALS[metric](cells, LEVEL)
    defined = ~np.isnan(found.value)
    if np.isnan(expected) or defined.sum() < min(FEWEST, draws):
        return None
    inside = (found.low <= expected + TOLERANCE) & (expected <= found.high + TOLERANCE)
    return float(inside[defined].mean())


def single_rates(sizes: Sequence[int]) -> list[Cell]:
    """Cells of one rate."""
    cells = []
    for rate, n in itertools.product(RATES, sizes):
        cells.append(
            {"kind": "rate", "rates": [rate], "sizes": [n], "coverage": coverage_of_a_rate(rate, n)}
        )
    return cells


def pairs_of_groups(
    sizes: Sequence[int], draws: int, rng: np.random.Generator, metrics: Sequence[str] = SELECTION
) -> list[Cell]:
    """Cells of two groups with every pair of rates and sizes, all rows of label 1."""
    cells = []
    for rates in itertools.combinations_with_replacement(RATES, 2):
        for pair in itertools.product(sizes, repeat=2):
            cells += _cell(metrics, _of_label_1(rates, 1.0), _of_label_1(pair, 0), draws, rng)
    return cells


def _of_label_1(values: Sequence[float], others: float) -> np.ndarray:
    """Values of label 1 by group, and others of label 0, shape (K, 2)."""
    return np.array([[others, value] for value in values])


def random_groups(
    number: int, sizes: Sequence[int], draws: int, rng: np.random.Generator
) -> list[Cell]:
    """Random cells of two, three and five groups with both labels, for every metric that compares
    groups.
    """
    cells = []
    for k in range(number):
        groups = (2, 3, 5)[k % 3]
        recalls = rng.choice(RATES, size=(groups, 2))
        if k % 2:
            # equal groups: the truth of every gap is 0, of the ratio 1
            recalls[:] = recalls[0]
        chosen = rng.choice(sizes, size=(groups, 2))
        if k % 2:
            chosen[:, 1] = chosen[:, 0]
        cells += _cell(list(GROUP_INTERVALS), recalls, chosen, draws, rng)
    return cells


def _cell(
    metrics: Sequence[str],
    recalls: np.ndarray,
    sizes: np.ndarray,
    draws: int,
    rng: np.random.Generator,
) -> list[Cell]:
    found = []
    for metric in metrics:
        covered = coverage(metric, recalls, sizes, draws, rng)
        if covered is not None:
            found.append(
                {
                    "kind": metric,
                    "rates": recalls.tolist(),
                    "sizes": sizes.tolist(),
                    "coverage": covered,
                }
            )
    return found


def summary(cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Per kind the number of cells, their mean and smallest coverage, and the cell of the
    smallest.
    """
    kinds: dict[str, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(cell["kind"], []).append(cell)
    found = {}
    for kind, own in kinds.items():
        covered = [cell["coverage"] for cell in own]
        found[kind] = {
            "cells": len(own),
            "mean": float(np.mean(covered)),
            "smallest": float(np.min(covered)),
            "smallest_cell": min(own, key=lambda cell: cell["coverage"]),
        }
    return found


def main() -> None:
    """Simulate, print a line a kind, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--cells", type=int, default=300, help="random cells of several groups")
    parser.add_argument("--output", default=NAME, help="name of the file of results")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    all_sizes = np.unique(np.geomspace(5, 5000, 235).round().astype(int)).tolist()
    cells = single_rates(all_sizes)
    cells += pairs_of_groups(SIZES, arguments.draws, rng)
    cells += random_groups(arguments.cells, SIZES, arguments.draws, rng)
    found = summary(cells)
    for kind, row in found.items():
        print(
            f"{kind:30} {row['cells']:5} cells  mean {row['mean']:.4f}  smallest "
            f"{row['smallest']:.4f}"
        )
    settings = {"level": LEVEL, "draws": arguments.draws, "rates": RATES, "sizes": SIZES}
    command = f"python -m benchmarks.studies.interval_coverage --draws {arguments.draws}"
    write_result(arguments.output, {**provenance(command), "settings": settings, "kinds": found})


if __name__ == "__main__":
    main()
