"""Held-out rows: which they are, and that no model that predicts them was trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.tasks.classifier_training import HELD_OUT, HeldOut, Learner
from evenhand.tasks.errors import InputError
from tests.tasks.steps_of_rows import encoded, held_out


def learner(method: str = "logistic", **arguments: Any) -> Learner:
    return Learner(METHODS[method], lambda: method_class(method)(**arguments))


def test_held_out_rows_are_written_and_read_bit_for_bit(tmp_path: Path) -> None:
    found = held_out(shift=float(np.log(3.7)))
    found.write(tmp_path / "one.parquet")
    found.write(tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    again = HeldOut.read(tmp_path / "one.parquet")
    assert again.shift == found.shift
    for name in ("rows", "label", "probability"):
        assert np.array_equal(getattr(again, name), getattr(found, name))


def test_without_validation_rows_a_method_is_trained_once_more() -> None:
    """No share of the rows is left out."""
    data = encoded(400)
    one = learner()
    model = one.fit(data)
    assert model.validation_ is None
    found = one.held_out(model, data, seed=3)
    assert len(found.rows) == HELD_OUT * 400
    assert np.array_equal(found.rows, np.unique(found.rows))
    assert found.label.tolist() == data.y[found.rows].tolist()
    assert found.label.mean() == pytest.approx(data.y.mean(), abs=0.01)
    kept = np.setdiff1d(np.arange(400), found.rows)
    other = one.fit(data, kept)
    assert np.array_equal(found.probability, other.predict_proba(data.X[found.rows])[:, 1])
    assert found.shift == other.prior_shift_
    assert np.array_equal(one.held_out(model, data, seed=3).rows, found.rows)
    assert not np.array_equal(one.held_out(model, data, seed=4).rows, found.rows)


def test_validation_rows_of_early_stopping_are_used_as_they_are() -> None:
    data = encoded(400)
    one = learner("gbdt", n_steps=20, max_depth=2, n_jobs=1, n_iter_no_change=3, random_state=0)
    model: Any = one.fit(data)
    found = one.held_out(model, data, seed=0)
    assert np.array_equal(found.rows, model.validation_.rows)
    assert np.array_equal(found.probability, model.validation_.probability[:, 1])
    assert found.label.tolist() == data.y[found.rows].tolist()


@pytest.mark.parametrize("method", ["logistic", "gbdt"])
def test_with_folds_every_row_is_predicted_once(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The model learned from the other rows."""
    data = encoded(300)
    arguments = {"n_steps": 5, "max_depth": 2, "n_jobs": 1} if method == "gbdt" else {}
    one = learner(method, **arguments)
    model, trained, fit = one.fit(data), [], Learner.fit

    def recorded(self: Learner, data: Any, rows: Any = None, **options: Any) -> Any:
        trained.append(rows)
        return fit(self, data, rows, **options)

    monkeypatch.setattr(Learner, "fit", recorded)
    found = one.held_out(model, data, seed=3, folds=4)
    assert found.rows.tolist() == list(range(300))
    assert found.label.tolist() == data.y.tolist()
    assert [len(rows) for rows in trained] == [225] * 4
    for rows in trained:
        others = np.setdiff1d(np.arange(300), rows)
        expected = fit(one, data, rows).predict_proba(data.X[others])[:, 1]
        assert np.array_equal(found.probability[others], expected)
    again = one.held_out(model, data, seed=3, folds=4)
    assert np.array_equal(again.probability, found.probability)
    data.y[:] = np.arange(300) < 3
    with pytest.raises(InputError, match="too few people of a label for 4 folds"):
        one.held_out(model, data, seed=3, folds=4)


def test_trees_may_keep_the_model_of_the_other_rows() -> None:
    """These are the rows that were not held out."""
    data = encoded(400)
    given: dict[str, Any] = {
        "n_steps": 20,
        "max_depth": 2,
        "n_jobs": 1,
        "validation_fraction": 0.25,
    }
    once: Any = learner("gbdt", refit=False, **given).fit(data)
    kept = np.setdiff1d(np.arange(400), once.validation_.rows)
    assert len(kept) == 300
    share = float(data.y.mean())
    given |= {"n_steps": once.best_step_, "n_iter_no_change": None, "base_score": share}
    alone = learner("gbdt", **given).fit(data, kept)
    assert np.allclose(
        once.predict_proba(data.X[kept]), alone.predict_proba(data.X[kept]), rtol=1e-6
    )
    held = once.validation_
    assert np.allclose(once.predict_proba(data.X[held.rows]), held.probability, rtol=1e-5)
    # the number of steps of a cross-validation has no model of its own
    given = {"n_steps": 20, "max_depth": 2, "n_jobs": 1}
    both = [
        learner("gbdt", refit=refit, **given).fit(data).predict_proba(data.X)
        for refit in (True, False)
    ]
    assert np.array_equal(*both)


def test_too_few_rows_to_hold_out_are_one_line_with_the_keys() -> None:
    data = encoded(6)
    data.y[:] = [0, 0, 0, 0, 0, 1]
    one = learner()
    with pytest.raises(InputError, match="calibration: none and decision: own") as caught:
        one.held_out(one.fit(data), data, seed=0)
    assert "\n" not in str(caught.value)


def test_a_method_that_refuses_the_rows_is_an_input_error() -> None:
    with pytest.raises(InputError, match="method gbdt"):
        learner("gbdt", n_steps=0).fit(encoded(50))
