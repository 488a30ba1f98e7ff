"""AUC of an attribute from what is left: chance, separable groups, predictors, intervals."""

import numpy as np
import pytest

from evenhand.fairlib.distances.attribute_leak import attribute_leak, auc_error


def test_independent_rows_are_at_chance_and_copies_are_not():
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 200)
    noise = rng.normal(size=(400, 2))
    chance = attribute_leak(noise, group)
    assert not chance.above_chance
    assert 0.05 < chance.high - chance.low < 0.2
    leak = attribute_leak(np.column_stack([noise, group == "b"]), group)
    assert leak.auc > 0.99
    assert leak.low <= leak.auc <= leak.high


def test_only_trees_find_a_product_of_signs():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, 2))
    group = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    assert attribute_leak(rows, group, predictors=("linear",)).auc < 0.6
    leak = attribute_leak(rows, group)
    assert leak.auc > 0.9
    assert leak.predictor == "trees"


def test_the_best_predicted_of_several_groups_counts():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 150)
    rows = rng.normal(size=(450, 1)) + 5.0 * (group == 2)[:, None]
    assert attribute_leak(rows, group).auc > 0.95


def test_neighbours_respect_the_scale_of_rows():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 300)
    proxy = group + 0.1 * rng.normal(size=600)
    noise = rng.normal(size=600)
    wide = attribute_leak(np.column_stack([proxy, noise]), group, predictors=("neighbours",))
    tiny = attribute_leak(np.column_stack([proxy * 1e-4, noise]), group, predictors=("neighbours",))
    assert wide.auc > 0.95
    assert tiny.auc < 0.6


def test_no_column_is_chance_and_one_group_is_refused():
    assert attribute_leak(np.empty((40, 0)), np.repeat([0, 1], 20)).auc == 0.5
    with pytest.raises(ValueError, match="two are needed"):
        attribute_leak(np.zeros((20, 1)), np.zeros(20))


def test_error_of_a_chance_auc_by_hand():
    # at .5 both shares are 1/3, so each pair of means adds 1/12
    expected = np.sqrt((0.25 + 9 / 12 + 19 / 12) / 200)
    assert auc_error(0.5, 10, 20) == pytest.approx(expected)
