"""Counts of few people are rounded before a proxy is published."""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.proxies.proxy_groups import rounded_counts


def test_by_hand() -> None:
    """Two attributes of two groups; 30 people of whom 2 are in a group, 3 people, and a
    hidden row.
    """
    compositions = [
        [2 / 30, 28 / 30, 13 / 30, 17 / 30],
        [1 / 3, 2 / 3, 0, 1],
        None,
        [None, 1, 0, 1],
    ]
    counts, rows = rounded_counts([30, 2, 40, 12], compositions, [0.2, 0.8, 0.5, 0.5], [2, 2], 5)
    assert counts.tolist() == [30, 0, 40, 10]
    np.testing.assert_allclose(rows[0], [0, 1, 15 / 30, 15 / 30])
    # nobody is left of the second: the shares of all people take their place
    assert rows[1:] == [[0.2, 0.8, 0.5, 0.5], None, [None, 1, 0, 1]]


def test_no_count_below_the_least_is_left() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 60, 50)
    compositions = rng.dirichlet([0.3, 0.5, 2], 50)
    counts, rows = rounded_counts(sizes, compositions.tolist(), [0.2, 0.3, 0.5], [3], 5)
    cells = np.round(compositions * sizes[:, None] / 5) * 5
    for count, row, cell in zip(counts, rows, cells, strict=True):
        assert count % 5 == 0
        if cell.sum():
            np.testing.assert_allclose(np.array(row) * cell.sum(), cell, atol=1e-9)
