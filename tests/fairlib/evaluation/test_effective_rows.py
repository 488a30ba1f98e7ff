"""How many independent rows weighted or repeated rows are worth."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.evaluation.effective_rows import cell_means, effective_rows


def test_rows_of_one_person_count_as_one_where_they_agree() -> None:
    people = np.repeat(np.arange(30), 8)
    cell = np.zeros(240, dtype=np.int64)
    alike = np.repeat(np.arange(30) % 3 == 0, 8)
    random = np.random.default_rng(0).random(240) < 1 / 3
    assert effective_rows(cell, 1, alike, 0.95, people=people)[0] == pytest.approx(
        29 * 0.92, rel=0.03
    )
    assert effective_rows(cell, 1, random, 0.95, people=people)[0] > 150
    # of equal answers nothing is known of how alike the rows of a person are
    assert effective_rows(cell, 1, random | True, 0.95, people=people)[0] == pytest.approx(
        27.5, rel=0.05
    )
    assert effective_rows(cell, 1, alike, 0.95)[0] == 240


def test_unequal_weights_are_worth_fewer_rows() -> None:
    rng = np.random.default_rng(1)
    weights, hit = rng.gamma(1.0, 1.0, 4000), rng.random(4000) < 0.3
    cell = np.zeros(4000, dtype=np.int64)
    # weights of a coefficient of variation of 1 halve the number of rows
    assert effective_rows(cell, 1, hit, 0.95, weights=weights)[0] == pytest.approx(2000, rel=0.1)
    assert effective_rows(cell, 1, hit, 0.95, weights=np.full(4000, 7.0))[0] == 4000
    means = cell_means(cell, 2, hit.astype(float), weights)
    assert means.mean[0] == pytest.approx(np.average(hit, weights=weights))
    assert np.isnan(means.mean[1])
