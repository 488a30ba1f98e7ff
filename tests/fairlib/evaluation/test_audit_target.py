"""What labels and predictions are read as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.evaluation.audit_target import read_target


def read(labels: Any, predicted: Any, **stated: Any) -> Any:
    true = None if labels is None else pd.Series(labels)
    return read_target(true, {"": pd.Series(predicted)}, {}, **stated)


@pytest.mark.parametrize(
    ("labels", "predicted", "kind", "classes"),
    [
        ([0, 1], [1, 1], "two labels", ("0", "1")),
        ([False, True], [0, 1], "two labels", ("0", "1")),
        ([-1, 1], [1, 1], "two labels", ("-1", "1")),
        (["yes", "no"], ["no", "no"], "two labels", ("no", "yes")),
        ([1, 1], [1, 1], "two labels", ("0", "1")),
        ([0, 0], [0, 0], "two labels", ("0", "1")),
        ([0, 1], [0.2, 0.7], "two labels", ("0", "1")),
        (None, [0.2, 0.7], "two labels", ("0", "1")),
        ([0, 1, 2], [2, 1, 2], "classes", ("0", "1", "2")),
        (["b", "a", "c"], ["a", "a", "a"], "classes", ("a", "b", "c")),
        ([1.5, 2.0], [1.0, 2.5], "numbers", ()),
        (list(range(30)), list(range(30)), "numbers", ()),
    ],
)
def test_kinds(labels: Any, predicted: Any, kind: str, classes: tuple[str, ...]) -> None:
    target = read(labels, predicted)
    assert (target.kind, target.classes) == (kind, classes)


def test_the_positive_and_the_favourable_label() -> None:
    target = read(["bad", "good"], ["bad", "bad"], favourable="good")
    assert (target.classes, target.favourable) == (("bad", "good"), 1)
    assert target.y_true.tolist() == [0, 1]
    adverse = read(["bad", "good"], ["bad", "bad"], favourable="good", positive="bad")
    assert (adverse.classes, adverse.favourable) == (("good", "bad"), 0)
    coded = read([0, 1], [0, 0], favourable=0)
    assert (coded.favourable, coded.is_stated) == (0, True)
    assert not read([0, 1], [0, 0]).is_stated
    # German credit has 1 for good and 2 for bad: nothing says so
    with pytest.raises(ValueError, match="the labels are 1, 2"):
        read([1, 2], [1, 2])


def test_scores_give_decisions_at_the_threshold() -> None:
    score = np.array([0.2, 0.5, 0.7])
    target = read_target(pd.Series([0, 1, 1]), {}, {"m": score}, threshold=0.6)
    assert target.y_pred["m"].tolist() == [0, 0, 1]
    columns = np.column_stack([1 - score, score])
    same = read_target(pd.Series([0, 1, 1]), {}, {"m": columns}, threshold=0.6)
    assert same.score["m"].tolist() == pytest.approx(score)
    classes = read_target(pd.Series(["a", "b", "c"]), {}, {"m": np.eye(3)})
    assert classes.y_pred["m"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="expected a probability of each of the 3 labels"):
        read_target(pd.Series(["a", "b", "c"]), {}, {"m": np.eye(3)[:, :2]})
