"""Proxy features that are left out: found by their AUC, up to a threshold that is chosen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.proxy_features import columns_to_leave_out, nested_proxy_features

N = 2000


def world(**columns: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A biased table: merit decides, and men get an advantage that they did not earn."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, N)
    merit = rng.normal(size=N)
    label = (merit + 1.5 * sex + rng.normal(scale=0.5, size=N) > 0.75).astype(int)
    made = {"merit": merit}
    for name, strength in columns.items():
        made[name] = strength * sex + rng.normal(size=N)
    return made, {"label": label, "sex": np.where(sex == 1, "M", "F")}


def chosen(columns: dict[str, Any], table: dict[str, Any], **options: Any) -> Any:
    X = np.column_stack(list(columns.values())).astype(np.float32)
    places = {name: [j] for j, name in enumerate(columns)}
    groups = {"sex": table["sex"]}
    return columns_to_leave_out(X, table["label"], places, groups, **options)


def test_the_columns_that_follow_the_group_are_left_out() -> None:
    choice = chosen(*world(strong=3.0, middle=1.5))
    assert choice.columns == ("strong", "middle")
    assert list(choice.aucs) == ["strong", "middle", "merit"]
    assert 0.52 <= choice.threshold <= choice.aucs["middle"]
    assert choice.aucs["merit"] < choice.threshold


def test_the_auc_is_that_of_the_normal_shift() -> None:
    """Two normal groups that are d apart have the AUC Phi(d / sqrt 2)."""
    choice = chosen(*world(strong=2.0))
    assert choice.aucs["strong"] == pytest.approx(0.9214, abs=0.015)


def test_without_a_proxy_feature_nothing_is_left_out() -> None:
    choice = chosen(*world(noise=0.0))
    assert (choice.columns, choice.threshold) == ((), None)


def test_a_column_that_earns_the_label_stays() -> None:
    """It differs between the groups, and without it the label cannot be predicted within them."""
    columns, people = world(noise=0.0)
    columns["merit"] = columns["merit"] + 0.8 * (people["sex"] == "M")
    choice = chosen(columns, people)
    assert choice.aucs["merit"] > 0.65
    assert choice.columns == ()


def test_where_every_column_tells_none_is_left_out() -> None:
    columns, people = world(strong=3.0)
    del columns["merit"]
    assert chosen(columns, people).columns == ()


def test_a_category_is_one_column() -> None:
    columns, people = world()
    member = np.random.default_rng(1).random(N) < np.where(people["sex"] == "M", 0.8, 0.2)
    X = np.column_stack([columns["merit"], member, ~member]).astype(np.float32)
    places = {"merit": [0], "club": [1, 2]}
    choice = columns_to_leave_out(X, people["label"], places, {"sex": people["sex"]})
    assert choice.columns == ("club",)
    # with two equally frequent values the AUC is the share of the more frequent one in a group
    assert choice.aucs["club"] == pytest.approx(0.8, abs=0.02)


def test_a_vector_is_one_column() -> None:
    columns, people = world()
    rng = np.random.default_rng(1)
    vector = rng.normal(size=(N, 3)) + 0.9 * (people["sex"] == "M")[:, None]
    X = np.column_stack([columns["merit"], vector]).astype(np.float32)
    places = {"merit": [0], "words": [1, 2, 3]}
    choice = columns_to_leave_out(X, people["label"], places, {"sex": people["sex"]})
    assert choice.columns == ("words",)


def test_missing_values_and_several_attributes_and_classes() -> None:
    columns, people = world(strong=3.0, other=0.0)
    group = np.arange(N) % 3
    columns["other"] = np.where(group == 1, np.nan, columns["other"])
    X = np.column_stack(list(columns.values())).astype(np.float32)
    places = {name: [j] for j, name in enumerate(columns)}
    label = people["label"] + (columns["merit"] > 1)
    label[:2] = 3  # fewer rows than folds
    groups = {"sex": people["sex"], "place": group}
    choice = columns_to_leave_out(X, label, places, groups)
    assert choice.aucs["other"] == pytest.approx(1.0, abs=0.01)
    assert "strong" in choice.columns
    assert "merit" not in choice.columns


def test_the_choice_is_reproducible_and_few_rows_choose_nothing() -> None:
    columns, people = world(strong=3.0, middle=1.5)
    numbers = np.arange(N) // 2
    assert chosen(columns, people, people=numbers) == chosen(columns, people, people=numbers)
    few = {name: values[:40] for name, values in columns.items()}
    assert chosen(few, {name: values[:40] for name, values in people.items()}).columns == ()


def test_sets_of_proxy_features_are_nested() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 600)
    shift = (group == "b").astype(float)
    spreads = (0.2, 0.5, 1.0, 2.0, 4.0)
    columns = [shift + rng.normal(scale=spread, size=1200) for spread in spreads]
    X = np.column_stack([*columns, rng.normal(size=1200)]).astype(np.float32)
    names = {f"p{number}": [number] for number in range(5)} | {"merit": [5], "team": [5]}
    sets = nested_proxy_features(X, names, {"team": group})
    assert len(sets) == 3
    assert sets[0][0] == "p0"
    for smaller, larger in itertools.pairwise(sets):
        assert set(smaller) < set(larger)
    assert "merit" not in sets[-1]
    assert "team" not in sets[-1]
    assert nested_proxy_features(X, names, {"team": group}, most=1) == [sets[0]]
    # nothing predicts a group, or there are too few rows
    assert nested_proxy_features(X, {"merit": [5]}, {"team": group}) == []
    assert nested_proxy_features(X[::40], names, {"team": group[::40]}) == []
