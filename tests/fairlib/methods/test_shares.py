"""Processes that train one model together give the model of one, up to the order of sums."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from xgboost.collective import CommunicatorContext
from xgboost.tracker import RabitTracker

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.mapped import new_matrix
from evenhand.fairlib.methods import row_iterator, tree_rows
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ReweighedGBDTClassifier
from evenhand.fairlib.methods.shares import of_all, share

N = 6001
# Largest difference of two probabilities, as docs/scale.md says.
TOLERANCE = 1e-5


def connected(count: int, function: Callable[[int], Any]) -> list[Any]:
    """Results of a function in threads that XGBoost connects, as it does processes."""
    tracker = RabitTracker(n_workers=count, host_ip="127.0.0.1", sortby="task", timeout=20)
    tracker.start()

    def one(rank: int) -> Any:
        with CommunicatorContext(**tracker.worker_args(), dmlc_task_id=str(rank), dmlc_timeout=20):
            return function(rank)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_shares_are_all_rows_in_their_order() -> None:
    def one(rank: int) -> Any:
        own = np.arange(20.0).reshape(10, 2)[share(10)]
        return share(10), of_all(own, 10)

    for rank, (part, whole) in enumerate(connected(3, one)):
        assert part == [slice(0, 3), slice(3, 6), slice(6, 10)][rank]
        assert whole.tolist() == np.arange(20.0).reshape(10, 2).tolist()
    assert share(10) == slice(0, 10)
    assert of_all(np.arange(3), 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("cls", "options", "paged"),
    [
        (GBDTClassifier, {}, True),  # a search for leaves and steps
        (GBDTClassifier, {"max_depth": 4, "refit": False}, False),
        (GBDTClassifier, {"max_depth": 4, "n_iter_no_change": None}, True),
        (ReweighedGBDTClassifier, {}, False),
        pytest.param(GBDTClassifier, {}, False, marks=pytest.mark.long),
        pytest.param(
            GBDTClassifier, {"max_depth": 4, "refit": False}, True, marks=pytest.mark.long
        ),
        pytest.param(
            GBDTClassifier,
            {"max_depth": 4, "n_iter_no_change": None},
            False,
            marks=pytest.mark.long,
        ),
        pytest.param(ReweighedGBDTClassifier, {}, True, marks=pytest.mark.long),
    ],
)
def test_two_train_the_model_of_one(
    cls: type[GBDTClassifier],
    options: dict[str, Any],
    paged: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_iterator, "BLOCK_CELLS", 1000 * 8)
    monkeypatch.setattr(row_iterator, "PAGE_CELLS", 1000 * 8)
    monkeypatch.setattr(tree_rows, "BIN_ROWS", 1000 if paged else 10_000)  # a sample, or all rows
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8)).astype(np.float32)
    X[:, 3:] = np.eye(5, dtype=np.float32)[rng.integers(0, 5, N)]  # joined
    y = (rng.random(N) < expit(2 * X[:, 0] + X[:, 1] * X[:, 2] - X[:, 4])).astype(np.int64)
    groups = {"group": np.where(X[:, 2] > 0, "a", "b")}

    def one(rank: int = 0) -> Any:
        rows: Float32 = new_matrix(X.shape, tmp_path, paged)
        rows[:] = X
        model = cls(n_steps=15, random_state=1, n_jobs=1, **options)
        model.fit(rows, y, sensitive_features=groups)
        return model

    alone, *together = [one(), *connected(2, one)]
    expected = alone.predict_proba(X)[:, 1]
    for model in together:
        assert model.best_step_ == alone.best_step_
        found = model.predict_proba(X)[:, 1]
        assert np.abs(found - expected).max() < TOLERANCE
        if alone.validation_ is not None:
            assert np.array_equal(model.validation_.rows, alone.validation_.rows)
            np.testing.assert_allclose(
                model.validation_.probability, alone.validation_.probability, atol=TOLERANCE
            )
    assert together[0].booster_.save_raw() == together[1].booster_.save_raw()


def test_all_have_the_bins_of_one_also_with_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = new_matrix((131_072, 29), tmp_path)
    rows[:] = rng.standard_normal(rows.shape)
    weights = rng.uniform(0, 3, len(rows))
    people = tree_rows.TreeRows(rows, np.zeros(len(rows), dtype=np.int64), weights, None, 0)

    def bins(rank: int = 0) -> Any:
        return people.matrix(1).get_quantile_cut()[1]

    known = bins()
    assert all(np.array_equal(found, known) for found in connected(3, bins))
