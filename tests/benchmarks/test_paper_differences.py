"""Trials of single differences: thresholds, proxy trees by distance, and what counts as print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.reproductions import faias_thresholds, measured_reasons
from benchmarks.reproductions.proxies_differences import VARIANTS, NearestTree
from evenhand.fairlib.proxies.tree import ProxyTree


def test_the_threshold_has_the_best_balanced_accuracy() -> None:
    label = np.array([0, 0, 0, 1])
    probability = np.array([0.05, 0.15, 0.25, 0.35])
    # .3 alone separates the classes
    assert faias_thresholds.best_threshold(label, probability) == 0.3
    # of equally good ones the first
    assert faias_thresholds.best_threshold(np.array([0, 1]), np.array([0.15, 0.95])) == 0.2


def test_a_tree_by_distance_is_no_farther_after_its_first_split() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b", "c"], [20, 40, 140])
    shift = np.select([group == "a", group == "b"], [2.0, -2.0], 0.0)
    X = rng.normal(size=(200, 2)) + np.column_stack([shift, np.abs(shift)])
    settings: dict[str, Any] = {"alpha": 0.6, "progress": 0.05, "tolerance": 0.02, "min_leaf": 1}
    trees = [make(**settings).fit(X, sensitive_features=group) for make in (ProxyTree, NearestTree)]
    after_first = [tree.distances_[1] for tree in trees]
    assert after_first[1] < after_first[0]
    for tree in trees:
        rates = np.array([0.1, 0.2, 0.7])
        assert np.abs(tree.compositions_ - rates).max() <= 0.6 + 1e-9


def test_variants_of_a_tree_change_what_they_name() -> None:
    tree = VARIANTS["leaves of at least 50 people"].tree(0.82)
    assert (tree.alpha, tree.min_leaf, tree.progress) == (0.82, 50, 0.1)
    assert VARIANTS["ours at the printed settings"].tree(0.97).min_leaf == 1


@pytest.mark.parametrize(
    ("groups", "holds"), [([3, 3, 3, 8, 9], True), ([3, 3, 8, 8, 9], False), ([2, 3, 4], False)]
)
def test_three_groups_on_most_splits_are_as_printed(
    monkeypatch: pytest.MonkeyPatch, groups: list[int], holds: bool
) -> None:
    rows = {"ours": [{"groups": count} for count in groups]}
    monkeypatch.setattr(measured_reasons, "read_result", lambda _: {"rows": rows})
    (trial,) = measured_reasons.adult_three_groups().trials
    assert trial.holds == holds


def test_gaps_of_a_degenerate_network_count_for_nothing() -> None:
    small = {gap: [0.01, 0.01] for gap in measured_reasons.GAPS}
    for accuracy, holds in ((0.51, False), (0.78, True)):
        entry = {"splits": 2, "method": {**small, "balanced_accuracy": [accuracy, accuracy]}}
        assert measured_reasons._gaps_trial("a difference", entry).holds == holds
