"""One-hot columns that are joined for XGBoost give the trees of the columns, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from evenhand.fairlib.arrays import Float32, Int
from evenhand.fairlib.mapped import new_matrix
from evenhand.fairlib.methods import tree_rows
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.one_hot import OneHotRuns

SIZES = (2, 5, 9)


def people(n: int = 6000, seed: int = 0) -> tuple[Float32, Int]:
    """Two numbers, a flag, and three columns of categories, of which one value is rare and last."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-9, 9, (n, 2))
    codes = [rng.integers(0, k, n) for k in SIZES]
    codes[2][codes[2] == SIZES[2] - 1] = 0
    codes[2][: max(2, n // 2000)] = SIZES[2] - 1
    flag = rng.random((n, 1)) < 0.4
    parts = [
        numbers,
        flag,
        *(column[:, None] == np.arange(k) for column, k in zip(codes, SIZES, strict=True)),
    ]
    score = (
        numbers[:, 0] / 4
        + (codes[1] == 3) * (numbers[:, 1] / 3)
        - flag[:, 0]
        + (codes[2] == SIZES[2] - 1)
    )
    return np.hstack(parts).astype(np.float32), (rng.random(n) < expit(score)).astype(np.int64)


def apart(monkeypatch: pytest.MonkeyPatch, model: Any, *given: Any, **options: Any) -> bytes:
    """The booster of a training on the columns as they are."""
    with monkeypatch.context() as patch:
        patch.setattr(
            OneHotRuns, "of", lambda rows: OneHotRuns(tuple((j,) for j in range(rows.shape[1])))
        )
        return bytes(model.fit(*given, **options).booster_.save_raw())


@pytest.mark.parametrize(
    "options",
    [
        {"n_steps": 40},
        {"n_steps": 15, "max_depth": 5, "balance_classes": True},
        {"n_steps": 8, "n_iter_no_change": None, "min_child_weight": 0.0},
        {"n_steps": 25, "validation_fraction": 0.2, "refit": False},
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_are_those_of_the_columns(
    options: dict[str, Any], classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = people()
    y = y + (X[:, 0] > 4) * (classes == 3)
    weights = np.random.default_rng(1).random(len(X))
    model = GBDTClassifier(**options, random_state=0, n_jobs=1)
    found = model.fit(X, y, sample_weight=weights).booster_
    assert len(OneHotRuns.of(X).members) == 6
    assert found.num_features() == X.shape[1]
    assert bytes(found.save_raw()) == apart(monkeypatch, model, X, y, sample_weight=weights)


def test_trees_of_budro_are_those_of_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = people(700)
    X[5, 0] = np.nan
    model = BudroClassifier(n_steps=8, perturbation_budget=0.3, random_state=0, n_jobs=1)
    found = model.fit(X, y)
    validation, history = found.validation_, found.history_
    assert bytes(found.booster_.save_raw()) == apart(monkeypatch, model, X, y)
    assert validation is not None
    assert np.array_equal(validation.probability, model.validation_.probability)
    assert history == model.history_


def test_a_rare_category_keeps_its_code_with_sampled_bins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = people()
    options = {
        "n_steps": 30,
        "max_depth": 4,
        "random_state": 0,
        "n_jobs": 1,
        "min_child_weight": 0.0,
    }
    known = GBDTClassifier(**options).fit(X, y)
    last = X.shape[1] - 1
    assert (
        last
        in known.booster_.trees_to_dataframe()["Feature"]
        .str[1:]
        .replace("eaf", -1)
        .astype(int)
        .values
    )
    monkeypatch.setattr(tree_rows, "BIN_ROWS", 700)
    for paged in (False, True):
        rows = new_matrix(X.shape, tmp_path, paged)
        rows[:] = X
        assert OneHotRuns.of(rows).members[-1][-1] != last
        model = GBDTClassifier(**options).fit(rows, y)
        assert model.booster_.save_raw() == known.booster_.save_raw()
        assert np.array_equal(model.validation_.probability, known.validation_.probability)


def test_categories_and_signs_are_not_joined() -> None:
    import pandas as pd

    X, y = people(800)
    signs = GBDTClassifier(
        n_steps=5, monotone_constraints=[0, 0, -1] + [0] * 15 + [1], random_state=0
    )
    assert signs.fit(X, y)._tree_rows(X, y, None)[1] is None
    frame = pd.DataFrame(X[:, :8]).assign(kind=pd.Categorical(X[:, 8:13].argmax(axis=1)))
    frame.columns = [str(name) for name in frame.columns]
    model = GBDTClassifier(n_steps=5, random_state=0).fit(frame, y)
    assert model._tree_rows(X, y, None)[1] is None
    assert model.booster_.feature_types == ["q"] * 8 + ["c"]


@pytest.mark.parametrize("values", [(0.5, 0.5), (2.0, -1.0), (np.nan, 1.0)])
def test_columns_that_add_up_to_1_need_not_be_one_hot(values: tuple[float, float]) -> None:
    X = np.repeat([[*values, 1.0, 0.0], [*values, 0.0, 1.0], [*values[::-1], 1.0, 0.0]], 3, axis=0)
    assert OneHotRuns.of(X.astype(np.float32)).members == ((0,), (1,), (2, 3))


@given(
    sizes=st.lists(
        st.sampled_from(["number", "flag", "zero", "one", 2, 3, 7]), min_size=1, max_size=8
    ),
    seed=st.integers(0, 99),
    rows=st.sampled_from([1, 2, 40]),
)
def test_runs_are_one_hot_and_none_is_missed(sizes: list[Any], seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    made: dict[Any, Any] = {
        "number": lambda: rng.choice([0.0, 1.0, 2.0, -1.0, np.nan, 0.5], (rows, 1)),
        "flag": lambda: rng.integers(0, 2, (rows, 1)),
        "zero": lambda: np.zeros((rows, 1)),
        "one": lambda: np.ones((rows, 1)),
    }
    X = np.hstack([made[k]() if k in made else np.eye(k)[rng.integers(0, k, rows)] for k in sizes])
    X = X.astype(np.float32)
    runs = OneHotRuns.of(X)
    assert [column for columns in runs.members for column in columns] == list(range(X.shape[1]))

    def one_hot(start: int, stop: int) -> bool:
        part = X[:, start:stop]
        return bool(np.isin(part, (0, 1)).all() and (part.sum(axis=1) == 1).all())

    joined, column = runs.join(X), 0
    for values, columns in zip(joined.T, runs.members, strict=True):
        stop = column + len(columns)
        if len(columns) == 1:
            assert np.array_equal(values, X[:, column], equal_nan=True)
        else:
            assert one_hot(column, stop)
            assert np.array_equal(values, X[:, column:stop].argmax(axis=1))
        column = stop
    # no run lies in the columns between the runs that were found; a column of one value is none's
    single = [columns[0] for columns in runs.members if len(columns) == 1]
    single = [place for place in single if len(np.unique(X[:, place])) > 1]
    for start in single:
        for stop in range(start + 2, X.shape[1] + 1):
            if all(place in single for place in range(start, stop)):
                assert not one_hot(start, stop)
