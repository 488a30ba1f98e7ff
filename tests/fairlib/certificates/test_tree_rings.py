"""Rings of tree models: the same as the bounds of each radius alone, from fewer searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.certificates import trees
from evenhand.fairlib.certificates.tree_rings import tree_rings
from evenhand.fairlib.certificates.trees import TreeProver
from tests.fairlib.certificates.test_trees import drawn, stump

RADII = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, np.inf]


def model_of(prover: TreeProver) -> Any:
    """A model with the prover's booster."""
    return type("Model", (), {"booster_": prover.booster})()


def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Radius and number of people of every search from now on."""
    found: list[tuple[float, int]] = []
    margins = TreeProver.margins

    def recorded(self: TreeProver, X: Any, radius: float, **options: Any) -> Any:
        found.append((radius, len(X)))
        return margins(self, X, radius, **options)

    monkeypatch.setattr(TreeProver, "margins", recorded)
    return found


@pytest.mark.parametrize("k", [0, 1, 2])
def test_rings_are_those_of_each_radius_alone(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prover = drawn(20 + k, 4, k, trees=4)
    X = prover.X[:8]  # type: ignore[attr-defined]
    alone = [prover.margins(X, radius) for radius in RADII]
    searches = searched(monkeypatch)
    rings = tree_rings(model_of(prover), prover.metric, X, RADII)
    assert sum(people for _, people in searches) < len(X) * len(RADII)
    whole = {radius for radius, people in searches if people == len(X)}
    exact = 0
    for ring, bounds in zip(rings, alone, strict=True):
        proved = np.stack([bounds.high, -bounds.low], axis=1)
        largest_found = np.stack([bounds.found_high, -bounds.found_low], axis=1)
        # neither end crosses the other one of a search of its own
        assert (ring.found <= proved).all()
        assert (largest_found <= ring.proved).all()
        met = proved == largest_found
        assert np.array_equal(ring.proved[met], proved[met])
        exact += met.sum()
        if ring.radius in whole:
            assert (ring.found >= largest_found).all()
    assert exact > 0.9 * len(RADII) * X.shape[0] * 2


def test_few_states_prove_no_less_than_each_radius_alone() -> None:
    prover = drawn(30, 4, 1, trees=8)
    X = prover.X[:8]  # type: ignore[attr-defined]
    rings = tree_rings(model_of(prover), prover.metric, X, RADII, rounds=(4,), far_rounds=(1,))
    for number, radius in enumerate(RADII):
        exact = prover.margins(X, radius)
        few = prover.margins(X, radius, rounds=(1,) if np.isinf(radius) else (4,))
        ring = rings[number]
        assert (ring.proved[:, 0] >= exact.found_high).all()
        assert (ring.proved[:, 1] >= -exact.found_low).all()
        assert (ring.found[:, 0] <= exact.high).all()
        assert (ring.found[:, 1] <= -exact.low).all()
        assert ring.proved[:, 0].sum() <= few.high.sum()
        assert ring.proved[:, 1].sum() <= -few.low.sum()
    for near, far in zip(rings, rings[1:], strict=False):
        assert (near.proved <= far.proved).all()
        assert (near.found <= far.found).all()


def test_radii_between_equal_bounds_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = stump()
    # the threshold is 0.25 away from the first, and 0.05 from the second
    X = np.array([[0.25, 0], [0.45, 0]], dtype=np.float32)
    searches = searched(monkeypatch)
    radii = [0.0, 0.01, 0.02, 0.1, 0.2]
    rings = tree_rings(model_of(prover), prover.metric, X, radii)
    # the middle radius is searched for the second alone, and so is the one before
    assert searches == [(0.0, 2), (0.2, 2), (0.02, 1), (0.1, 1)]
    assert [ring.proved[:, 0].tolist() for ring in rings] == [[0, 0]] * 3 + [[0, 2]] * 2


def test_points_of_larger_radii_are_tried_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = stump()
    X = np.array([[0.25, 0]], dtype=np.float32)
    margins = TreeProver.margins

    def finds_the_farthest(self: TreeProver, X: Any, radius: float, **options: Any) -> Any:
        bounds = margins(self, X, radius, **options)
        if radius == 0.4:
            bounds.highest[:] = [[0.65, 0.5]]
        return bounds

    monkeypatch.setattr(TreeProver, "margins", finds_the_farthest)
    # nothing between 0.3 and 0.4 differs, so 0.3 is not searched before
    rings = tree_rings(model_of(prover), prover.metric, X, [0.0, 0.2, 0.3, 0.4])
    assert [ring.found[0, 0] for ring in rings] == [0, 0, 2, 2]


def test_people_in_parts_have_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    prover = drawn(40, 4, 2)
    X = prover.X[:20]  # type: ignore[attr-defined]
    whole = prover.margins(X, 0.1)
    monkeypatch.setattr(trees, "CHUNK", 7)
    parts = prover.margins(X, 0.1)
    for name in ("low", "high", "found_low", "found_high"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    nobody = prover.margins(X[:0], 0.1)
    assert nobody.high.shape == (0,)
