"""An independent checker of one certificate: interval arithmetic, rounded outwards, no code of the
prover.

It reads the arrays that a run writes: weights and biases of the network, the metric's free
directions and bounds, one person's encoded row. It checks the claim that within fair distance r the
margin stays in [low, high]: it cuts the range of the free directions into cells, and encloses the
margin on every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from evenhand.fairlib.certificates.branching import MARGIN, network_rings
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.networks.network_training import build_network

Interval = tuple[float, float]


def add(a: Interval, b: Interval) -> Interval:
    return math.nextafter(a[0] + b[0], -math.inf), math.nextafter(a[1] + b[1], math.inf)


def times(factor: float, a: Interval) -> Interval:
    low, high = sorted((factor * a[0], factor * a[1]))
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)


def total(terms: Sequence[Interval]) -> Interval:
    found = (0.0, 0.0)
    for term in terms:
        found = add(found, term)
    return found


class Checker:
    """The claim about one person; `people`, `metric` and `network` are arrays by name, as they are
    saved.
    """

    def __init__(
        self, network: Mapping[str, np.ndarray], metric: Mapping[str, np.ndarray], x: np.ndarray
    ) -> None:
        names = sorted({int(name.split(".")[0]) for name in network})
        self.layers = [
            (network[f"{i}.weight"].tolist(), network[f"{i}.bias"].tolist()) for i in names
        ]
        self.x, self.B = [float(v) for v in x], metric["basis"].tolist()
        d, k = len(self.x), len(self.B[0])
        self.k = k
        own = [sum(self.B[j][i] * self.x[j] for j in range(d)) for i in range(k)]
        free = zip(metric["free_low"].tolist(), metric["free_high"].tolist(), own, strict=True)
        self.free = [
            (min(low - o, 0.0) - 1e-12, max(high - o, 0.0) + 1e-12) for low, high, o in free
        ]

    def margin(self, cell: Sequence[Interval], radius: float) -> Interval:
        """An interval that holds the margin of all points x + P delta + B t with t in the cell.

        The first layer is enclosed row by row: a row a changes by at most r |P a| through delta
        (Cauchy and Schwarz; the metric is an orthogonal projection), and by the sum of its products
        with the cell."""
        units: list[Interval] = []
        for depth, (weight, bias) in enumerate(self.layers):
            rows = zip(weight, bias, strict=True)
            if depth == 0:
                units = [self._first(row, b, cell, radius) for row, b in rows]
            elif depth < len(self.layers) - 1:
                units = [
                    add((b, b), total([times(w, u) for w, u in zip(row, units, strict=True)]))
                    for row, b in rows
                ]
            if depth < len(self.layers) - 1:
                units = [(max(low, 0.0), max(high, 0.0)) for low, high in units]
        weight, bias = self.layers[-1]
        row = [second - first for first, second in zip(*weight, strict=True)]
        constant = bias[1] - bias[0]
        ends = total([times(w, u) for w, u in zip(row, units, strict=True)])
        return add((constant - 1e-12, constant + 1e-12), ends)

    def _first(
        self, row: Sequence[float], bias: float, cell: Sequence[Interval], radius: float
    ) -> Interval:
        along = [sum(self.B[j][i] * row[j] for j in range(len(row))) for i in range(self.k)]
        across = [
            row[j] - sum(self.B[j][i] * along[i] for i in range(self.k)) for j in range(len(row))
        ]
        reach = radius * math.sqrt(sum(a * a for a in across)) * (1 + 1e-12) + 1e-12
        at = [(w * v, w * v) for w, v in zip(row, self.x, strict=True)]
        moved = [times(c, t) for c, t in zip(along, cell, strict=True)]
        return total([(bias, bias), *at, *moved, (-reach - 1e-11, reach + 1e-11)])

    def holds(self, low: float, high: float, radius: float, most: int = 20_000) -> bool:
        """Whether the claim holds; false also where this simple method cannot tell within so many
        cells.
        """
        waiting = [self.free]
        for _ in range(most):
            if not waiting:
                return True
            cell = waiting.pop()
            found = self.margin(cell, radius)
            if found[0] >= low and found[1] <= high:
                continue
            widest = max(range(self.k), key=lambda i: cell[i][1] - cell[i][0])
            middle = (cell[widest][0] + cell[widest][1]) / 2
            if cell[widest][1] - cell[widest][0] < 1e-6:
                return False
            for part in ((cell[widest][0], middle), (middle, cell[widest][1])):
                waiting.append([part if i == widest else old for i, old in enumerate(cell)])
        return False


@pytest.mark.parametrize("radius", [0.0, 0.02])
def test_a_stranger_confirms_the_certificate_from_the_files(tmp_path: Path, radius: float) -> None:
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (30, 3)).astype(np.float32)
    metric = SensitiveSubspace(indicators=(0,)).fit(X)
    network = build_network(3, (6,), 2, torch.Generator().manual_seed(1))
    save_file(
        {name: array.numpy() for name, array in network.state_dict().items()},
        tmp_path / "network.safetensors",
    )
    metric.save(tmp_path)
    *_, ring = network_rings(network, metric, X[:2], [0.0, radius][: 1 + (radius > 0)], parts=500)
    for i in range(2):
        checker = Checker(
            load_file(tmp_path / "network.safetensors"),
            load_file(tmp_path / "metric.safetensors"),
            X[i],
        )
        high, low = (
            s * np.sqrt(2.0) * ring.proved[i, j] for s, j in zip((1, -1), MARGIN, strict=True)
        )
        found = math.sqrt(2.0) * ring.found[i, MARGIN[0]]
        # the simple method needs room: a fiftieth of the range
        room = 0.02 * (high - low) + (0.5 * radius)
        assert checker.holds(low - room, high + room, radius)
        # and it refuses a claim that a point contradicts
        assert not checker.holds(low - room, found - 1e-3, radius, most=2000)
