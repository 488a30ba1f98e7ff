"""Attacks of the benchmark: their points are comparable, and a bound that is too low is
found out.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.studies import certificate_attacks
from benchmarks.studies.certificate_attacks import Comparable, attack
from evenhand.fairlib.certificates.measures import Ring
from evenhand.fairlib.distances import FACE, Metric
from evenhand.fairlib.methods.networks.network_training import build_network

X = np.random.default_rng(0).uniform(-1, 1, (40, 3))


def oblique() -> Metric:
    """A metric with one free direction that is no column."""
    return FACE(n_directions=1).fit(X, groups=np.arange(40) // 4)


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_points_are_within_the_distance_and_the_ranges(radius: float) -> None:
    metric = oblique()
    near = Comparable(metric, X[:6], radius)
    bounds, basis = metric.feature_bounds_, metric.basis_
    for moves in (near.somewhere(50), near.corners(50), (0.0, near.grid((0, 20, 4, 3)))):
        points = near.points(np.broadcast_to(moves[0], (len(moves[1]), 6, 3)), moves[1])
        own = np.broadcast_to(near.x, points.shape).reshape(-1, 3)
        flat = points.reshape(-1, 3)
        assert (metric.distance(flat, own) <= radius * (1.0 + 1e-9) + 1e-9).all()
        along = flat @ basis
        assert (along >= bounds.free_low - 1e-9).all()
        assert (along <= bounds.free_high + 1e-9).all()
        assert np.ptp(along.reshape(-1, 6, 1), axis=0).min() > 0.5
    reached = metric.distance(
        near.points(*near.corners(50))[1::2].reshape(-1, 3), np.tile(X[:6], (25, 1))
    )
    assert reached.max() == pytest.approx(radius, abs=1e-6)


def test_a_bound_that_is_too_low_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(3, (8,), 2, torch.Generator().manual_seed(3)).eval()
    model, true = SimpleNamespace(network_=network), certificate_attacks.network_rings
    found = attack(model, oblique(), X[:8])
    assert found["attacks"] == 8 * 4 * 4
    counts = ("above_direction", "above_score", "above_change", "decisions_within_safe_radius")
    assert [found[name] for name in counts] == [0, 0, 0, 0]
    assert min(found["reached_of_proved_score"][:3]) > 0.9

    def shrunk(*arguments: Any, **settings: Any) -> list[Ring]:
        rings = true(*arguments, **settings)
        for ring in rings:
            for array in (ring.proved, ring.inner_proved):
                array -= 0.3 * (array - ring.own)
        return rings

    monkeypatch.setattr(certificate_attacks, "network_rings", shrunk)
    found = attack(model, oblique(), X[:8])
    assert min(found[name] for name in counts) > 0
