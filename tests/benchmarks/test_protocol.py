"""The protocol: nobody chooses and judges, and the stated search picks what it states."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.protocol import choose, choosing_seed, inner_folds, last_within, selection_people


def test_settings_come_from_another_seed() -> None:
    assert [choosing_seed(seed, 3) for seed in range(3)] == [1, 2, 0]
    with pytest.raises(ValueError, match="at least two seeds"):
        choosing_seed(0, 1)


def test_nobody_who_judges_has_chosen() -> None:
    rows, judged = np.array([3, 4, 8, 9, 11]), np.array([4, 9, 10])
    assert rows[selection_people(rows, judged)].tolist() == [3, 8, 11]


def test_inner_folds_divide_the_selection_people() -> None:
    labels = np.arange(30) % 2
    folds = list(inner_folds(labels, seed=0))
    assert np.sort(np.concatenate([held for _, held in folds])).tolist() == list(range(30))
    for kept, held in folds:
        assert not {*kept} & {*held}
        assert labels[held].mean() == pytest.approx(0.5)


def test_the_strongest_candidate_near_the_best_is_chosen() -> None:
    values = {1: 0.80, 3: 0.81, 10: 0.805, 30: 0.70}
    candidates = [{"strength": strength} for strength in values]
    seen = []

    def measure(settings: dict[str, int], kept: np.ndarray, held: np.ndarray) -> dict[str, float]:
        seen.append(len(held))
        # the mean over the folds is the value
        return {"accuracy": values[settings["strength"]] + (0.03 if len(seen) % 3 == 0 else -0.015)}

    chosen, means = choose(
        candidates, measure, last_within("accuracy", 0.01), np.arange(30) % 2, seed=0
    )
    assert chosen == {"strength": 10}
    assert [round(mean["accuracy"], 6) for mean in means] == list(values.values())
    assert seen == [10] * 12
