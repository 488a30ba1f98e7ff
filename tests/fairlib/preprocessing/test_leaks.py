from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.preprocessing.leaks import (
    FOLDS,
    binned,
    cross_validated_auc,
    find_leaks,
    is_derived,
    joint_tree,
    label_auc,
    rank_auc,
    sampled_rows,
    stand_ins,
)

N = 2000


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def test_rank_auc_equals_all_pairs_by_hand(rng: np.random.Generator) -> None:
    values, positive = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    pairs = itertools.product(values[positive], values[~positive])
    wins = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert rank_auc(values, positive) == pytest.approx(max(wins, 1 - wins), abs=1e-12)


def test_cross_validated_auc_equals_scikit_learn_on_each_fold(rng: np.random.Generator) -> None:
    codes = rng.integers(0, 6, 300)
    positive = rng.random(300) < np.array([0.1, 0.9, 0.4, 0.5, 0.3, 0.7])[codes]
    folds = np.arange(300) % FOLDS
    expected = []
    for fold in range(FOLDS):
        rest = folds != fold
        base = positive[rest].mean()
        share = [
            (positive[rest & (codes == k)].sum() + base) / ((rest & (codes == k)).sum() + 1)
            for k in range(6)
        ]
        expected.append(roc_auc_score(positive[~rest], np.array(share)[codes[~rest]]))
    assert cross_validated_auc(codes, positive, folds) == pytest.approx(
        np.mean(expected), abs=1e-12
    )


def test_an_id_does_not_predict_and_a_curve_does(rng: np.random.Generator) -> None:
    positive = rng.random(N) < 0.5
    assert abs(label_auc(np.arange(N), positive) - 0.5) < 0.05
    x = rng.uniform(-1, 1, N)
    assert label_auc(x, np.abs(x) < 0.5) > 0.99
    assert label_auc(rng.normal(size=N), positive) < 0.6


def test_bins_keep_missing_values_apart() -> None:
    assert binned(np.array([np.nan, 2.0, 1.0, np.nan, 2.0])).tolist() == [0, 2, 1, 0, 2]
    assert binned(np.array([-1, 4, 4, 2])).tolist() == [0, 2, 2, 1]
    many = binned(np.arange(10_000, dtype=float), 16)
    assert np.bincount(many)[1:].min() >= 600


@pytest.mark.parametrize("kind", ["label", "alone", "joint", "sensitive"])
def test_each_kind_of_leak_is_found_and_nothing_else(rng: np.random.Generator, kind: str) -> None:
    positive = rng.random(N) < 0.4
    age = rng.integers(18, 80, N).astype(float)
    innocent = {"x": rng.normal(size=N) + positive, "c": rng.integers(0, 7, N)}
    first = np.where(positive, rng.choice([1, 2], N), rng.choice([0, 1], N))
    second = np.where(first == 1, positive, rng.integers(0, 2, N)).astype(np.int64)
    planted = {
        "label": {"leak": np.where(positive, 3, 1)},
        "alone": {"leak": np.where(positive, rng.normal(50, 9, N), np.nan)},
        "joint": {"first": first, "second": second},
        "sensitive": {"leak": np.searchsorted([30, 55], age).astype(np.int64)},
    }[kind]
    found, joint = find_leaks({**innocent, **planted}, positive, {"age": age})
    assert {item.name for item in found} == set(planted)
    assert {item.kind for item in found} == (
        {"label"} if kind == "alone" else {kind}
    ) or kind == "alone"
    assert joint is not None
    assert joint < 0.98


def test_two_runs_and_few_rows(rng: np.random.Generator) -> None:
    positive = rng.random(N) < 0.4
    columns = {"a": rng.normal(size=N) + 4 * positive, "b": rng.normal(size=N)}
    assert find_leaks(columns, positive, {}) == find_leaks(columns, positive, {})
    few = {name: values[:25] for name, values in columns.items()}
    assert find_leaks(few, positive[:25], {}) == ([], None)


def test_derived_columns(rng: np.random.Generator) -> None:
    age = rng.integers(18, 80, N).astype(float)
    sex = rng.integers(0, 2, N)
    exact = np.searchsorted([25, 60], age).astype(np.int64)
    assert is_derived(exact, age)
    assert is_derived(2024 - age, age)
    assert is_derived(1 - sex, sex)
    noisy = np.where(rng.random(N) < 0.01, 2 - exact, exact)
    assert not is_derived(noisy, age)
    assert not is_derived(np.round(age + rng.normal(size=N)), age)
    assert not is_derived((age % 2).astype(np.int64), age)
    assert not is_derived(rng.integers(0, 2, N), sex)
    assert not is_derived(np.zeros(N, dtype=np.int64), sex)
    # two rows say nothing
    assert not is_derived((age >= np.sort(age)[-2]).astype(np.int64)[: N // 2] * 0, age[: N // 2])


def test_a_tree_of_depth_three_finds_what_no_column_tells_alone(rng: np.random.Generator) -> None:
    a, b = rng.uniform(size=N), rng.uniform(size=N)
    noise = rng.uniform(size=N)
    positive = (a > 0.5) & (b > 0.3)
    auc, used = joint_tree({"a": a, "b": b, "noise": noise}, positive)
    assert auc > 0.99
    assert used == ["a", "b"]


def test_stand_ins_name_the_group_that_is_told(rng: np.random.Generator) -> None:
    groups = np.array(["f", "m", "x"])[rng.choice(3, N, p=[0.45, 0.54, 0.01])]
    columns = {
        "title": np.where(rng.random(N) < 0.9, groups == "f", rng.random(N) < 0.5).astype(np.int64),
        "weak": rng.normal(size=N) + 0.2 * (groups == "f"),
        "sex": np.unique(groups, return_inverse=True)[1].astype(np.int64),
    }
    found = stand_ins(columns, {"sex": groups})["sex"]
    assert [item.name for item in found] == ["title"]
    assert found[0].group in ("f", "m")
    assert 0.9 < found[0].auc < 1.0


def test_people_without_a_group_do_not_hide_a_proxy_feature(rng: np.random.Generator) -> None:
    sex = np.where(rng.random(N) < 0.5, "f", "m")
    index = rng.normal(size=N) + 1.2 * (sex == "f")
    whole = stand_ins({"index": index}, {"sex": sex})["sex"][0]
    unknown = np.where(rng.random(N) < 0.5, "missing", sex)
    partly = stand_ins({"index": index}, {"sex": unknown})["sex"][0]
    assert partly.group in ("f", "m")
    assert partly.auc == pytest.approx(whole.auc, abs=0.03)


def test_the_sample_is_always_the_same() -> None:
    rows = sampled_rows(100, 10)
    assert len(np.unique(rows)) == 10
    np.testing.assert_array_equal(rows, sampled_rows(100, 10))
    np.testing.assert_array_equal(sampled_rows(5, 10), np.arange(5))
