"""Rows in a mapped file train the models of rows in memory, and need no memory."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from evenhand.fairlib import mapped, splits
from evenhand.fairlib.arrays import Float32, Int
from evenhand.fairlib.mapped import (
    is_paged,
    mapped_file,
    new_like,
    new_matrix,
    release,
    row_blocks,
    rows_at,
)
from evenhand.fairlib.methods import row_iterator, tree_rows
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ReweighedGBDTClassifier

N, D = 6000, 5


@pytest.fixture
def rows() -> tuple[Float32, Int]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)).astype(np.float32)
    X[:, 4] = X[:, 4] > 0
    y = (rng.random(N) < expit(2 * X[:, 0] + X[:, 1] * X[:, 2] - X[:, 4])).astype(np.int64)
    return X, y


def stored(X: Float32, folder: Path, paged: bool = False) -> Float32:
    found = new_matrix(X.shape, folder, paged)
    found[:] = X
    return found


def test_a_mapped_matrix_keeps_its_values_and_leaves_no_file(
    tmp_path: Path, rows: tuple[Float32, Int]
) -> None:
    X = stored(rows[0], tmp_path)
    assert os.listdir(tmp_path) == []
    release(X)
    assert np.array_equal(X, rows[0])
    view = np.asarray(X, dtype=np.float32)[10:]
    assert mapped_file(view) is mapped_file(X)
    assert mapped_file(X.copy()) is None
    assert mapped_file(rows[0]) is None
    assert not is_paged(X)
    assert is_paged(new_like(stored(rows[0], tmp_path, True)))
    assert mapped_file(new_like(rows[0])) is None
    # blocks cover all rows once; a matrix in memory is one block
    assert [(b.start, b.stop) for b in row_blocks(X, 2500)] == [
        (0, 2500),
        (2500, 5000),
        (5000, 6000),
    ]
    assert [(b.start, b.stop) for b in row_blocks(rows[0], 2500)] == [(0, N)]


def test_a_full_disk_is_an_error_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path)._replace(free=4 * N * D - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)
    with pytest.raises(OSError, match="No space left"):
        new_matrix((N, D), tmp_path)
    taken: list[int] = []
    monkeypatch.setattr(
        os, "posix_fallocate", lambda number, start, size: taken.append(size), raising=False
    )
    assert new_matrix((N - 1, D), tmp_path).shape == (N - 1, D)
    assert taken == [4 * (N - 1) * D]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("share", [0.02, 0.9, 0.0])  # far apart, near each other, none
def test_chosen_rows_stay_in_a_file(
    tmp_path: Path, rows: tuple[Float32, Int], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(mapped, "BLOCK_ROWS", 900)
    monkeypatch.setattr(mapped, "SPREAD_ROWS", 7)
    chosen = np.flatnonzero(np.random.default_rng(1).random(N) < share)
    found = rows_at(stored(rows[0], tmp_path), chosen)
    assert np.array_equal(found, rows[0][chosen])
    assert (mapped_file(found) is not None) == bool(share)
    assert mapped_file(rows_at(rows[0], chosen)) is None


def test_bins_of_many_rows_come_from_a_sample(
    tmp_path: Path, rows: tuple[Float32, Int], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"random_state": 0, "n_steps": 25, "n_jobs": 1}
    y = rows[1]
    # a sample that has every value gives the same bins; of other columns it gives other ones
    for X, same in ((rows[0].round(0).clip(-1, 1), True), (rows[0], False)):
        whole = GBDTClassifier(**options).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(tree_rows, "BIN_ROWS", 500)
            for paged in (False, True):
                model = GBDTClassifier(**options, max_depth=3).fit(stored(X, tmp_path, paged), y)
                known = GBDTClassifier(**options, max_depth=3).fit(X, y)
                assert (model.booster_.save_raw() == known.booster_.save_raw()) == same
            parts = GBDTClassifier(**options).fit(stored(X, tmp_path), y)
        assert parts.score(X, y) == pytest.approx(whole.score(X, y), abs=0.02)


def test_rows_are_held_out_of_large_tables_by_stratum(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).choice(3, 1000, p=[0.7, 0.28, 0.02])
    monkeypatch.setattr(splits, "LARGE", 100)
    kept, held = splits.hold_out(codes, 0.15, 3)
    assert np.array_equal(np.sort(np.concatenate([kept, held])), np.arange(1000))
    assert np.array_equal(held, np.sort(held))
    counts = np.bincount(codes)
    assert np.bincount(codes[held]).tolist() == [round(0.15 * n) for n in counts.tolist()]
    assert np.array_equal(held, splits.hold_out(codes, 0.15, 3)[1])
    assert not np.array_equal(held, splits.hold_out(codes, 0.15, 4)[1])
    assert splits.drawn_rows(1000, None, 0.2, 0).sum() == 200
    with pytest.raises(ValueError, match="class is missing"):
        splits.hold_out(np.r_[np.zeros(200, int), 1], 0.15, 0)


@pytest.mark.parametrize(
    "cls", [GBDTClassifier, pytest.param(ReweighedGBDTClassifier, marks=pytest.mark.long)]
)
def test_trees_of_blocks_are_those_of_the_whole(
    tmp_path: Path,
    rows: tuple[Float32, Int],
    monkeypatch: pytest.MonkeyPatch,
    cls: type[GBDTClassifier],
) -> None:
    # few rows: XGBoost's sketches are exact, and so merged ones are too
    X, y = rows[0].round(1), rows[1]
    groups = {"sensitive_features": {"g": np.where(X[:, 4] > 0, "a", "b")}}
    options = {"random_state": 0, "n_steps": 25, "n_jobs": 1}
    whole = cls(**options).fit(X, y, **groups)
    monkeypatch.setattr(row_iterator, "BLOCK_CELLS", 900 * D)
    monkeypatch.setattr(row_iterator, "PAGE_CELLS", 1700 * D)
    monkeypatch.setattr(mapped, "BLOCK_ROWS", 900)
    parts = cls(**options).fit(stored(X, tmp_path), y, **groups)
    assert parts.booster_.save_raw("json") == whole.booster_.save_raw("json")
    assert parts.best_step_ == whole.best_step_
    np.testing.assert_array_equal(parts.predict_proba(stored(X, tmp_path)), whole.predict_proba(X))
    by_depth = cls(**options, max_depth=3).fit(X, y, **groups)
    paged = cls(**options, max_depth=3).fit(stored(X, tmp_path, True), y, **groups)
    assert paged.booster_.save_raw("json") == by_depth.booster_.save_raw("json")
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_trees_without_a_depth_grow_by_level_in_external_memory(
    tmp_path: Path, rows: tuple[Float32, Int]
) -> None:
    X, y = rows
    paged = GBDTClassifier(random_state=0, n_steps=40, n_jobs=1).fit(stored(X, tmp_path, True), y)
    whole = GBDTClassifier(random_state=0, n_steps=40, n_jobs=1).fit(X, y)
    assert paged.score(X, y) == pytest.approx(whole.score(X, y), abs=0.02)
    assert whole.score(X, y) > 0.7


def test_a_network_on_mapped_rows_is_the_same(tmp_path: Path, rows: tuple[Float32, Int]) -> None:
    X, y = rows
    options = {"random_state": 0, "n_steps": 150, "hidden": (8,)}
    whole = NeuralNetworkClassifier(**options).fit(X, y)
    parts = NeuralNetworkClassifier(**options).fit(stored(X, tmp_path), y)
    np.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))


def test_infinite_values_in_a_later_block_are_refused(
    tmp_path: Path, rows: tuple[Float32, Int], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = stored(rows[0], tmp_path)
    monkeypatch.setattr(mapped, "BLOCK_ROWS", 900)
    X[5000, 2] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        GBDTClassifier().fit(X, rows[1])
    X[5000, 2] = np.nan
    with pytest.raises(ValueError, match="takes no missing values"):
        NeuralNetworkClassifier().fit(X, rows[1])
