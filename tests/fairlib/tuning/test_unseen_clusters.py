"""Unseen rows that come as whole people or places."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from evenhand.fairlib.tuning.unseen_clusters import (
    MOST_CLUSTERS,
    design_effects,
    draw_clusters,
    merged_clusters,
)


@pytest.mark.parametrize(
    ("clusters", "unseen", "inflation"),
    [(8, 0.25, 1.0), (12, 0.5, 1.0), (60, 0.25, 1.0), (200, 5.0, 3.25)],
)
@pytest.mark.parametrize("are_shares_known", [False, True])
def test_drawn_clusters_have_the_variance_that_is_due(
    clusters: int, unseen: float, inflation: float, are_shares_known: bool
) -> None:
    value = np.random.default_rng(5).normal(size=clusters)
    drawn = draw_clusters(
        np.arange(clusters),
        unseen=unseen,
        inflation=inflation,
        are_shares_known=are_shares_known,
        rng=np.random.default_rng(6),
    )
    total = drawn.times.sum(axis=1)
    assert total == pytest.approx(clusters * unseen)
    due = 1.0 / (clusters * unseen)
    if not are_shares_known:
        due += inflation / clusters
    due *= value.var(ddof=1) * (t.ppf(0.95, clusters - 1) / norm.ppf(0.95)) ** 2
    assert np.var(drawn.times @ value / total) == pytest.approx(due, rel=0.12)


def test_many_clusters_are_merged_evenly() -> None:
    numbers = np.random.default_rng(1).permutation(3 * MOST_CLUSTERS + 7)
    merged = merged_clusters(np.repeat(numbers, 2), np.random.default_rng(2))
    assert np.all(merged[::2] == merged[1::2])
    sizes = np.bincount(merged[::2])
    assert len(sizes) == MOST_CLUSTERS
    assert set(sizes.tolist()) == {3, 4}
    few = merged_clusters(np.array([9, 4, 9, 7]), np.random.default_rng(2))
    assert few.tolist() == [2, 0, 2, 1]


def test_design_effects_are_those_of_alike_and_other_rows() -> None:
    rng = np.random.default_rng(8)
    person = np.repeat(np.arange(4000), 5)
    alike = rng.integers(0, 3, 4000)[person]
    other = rng.integers(0, 3, 20_000)
    # alike, independent, always the same option, and a block without rows
    block = np.repeat([0, 1, 2], 20_000)
    option = np.concatenate([alike, other, np.ones(20_000, dtype=np.int64)])
    effects = design_effects(block, 4, option, 3, np.tile(person, 3))
    assert effects == pytest.approx([5.0, 1.0, 5.0, 1.0], rel=0.05)
