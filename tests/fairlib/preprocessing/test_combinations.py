"""Tests of columns that only together determine a label or a sensitive attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.preprocessing.combinations import find_source, is_computed
from evenhand.fairlib.preprocessing.leaks import find_leaks

N = 1500
Columns = dict[str, NDArray[Any]]


def honest(seed: int) -> tuple[Columns, NDArray[np.bool_]]:
    """Numbers and categories, and a label that some of them predict."""
    random = np.random.default_rng(seed)
    columns: Columns = {
        "score": random.normal(50, 12, N),
        "income": np.exp(random.normal(9, 0.6, N)),
        "hours": random.integers(5, 60, N).astype(float),
        "city": random.integers(0, 5, N),
        "branch": random.integers(0, 9, N),
    }
    merit = (columns["score"] - 50) / 12 + 0.3 * (columns["city"] - 2)
    return columns, merit + random.normal(size=N) > 0


def difference(r: np.random.Generator, y: NDArray[np.bool_]) -> Columns:
    """A scaled difference determines the label."""
    paid = np.exp(r.normal(8, 0.5, N))
    return {"paid": paid, "due": paid / 2.5 + np.where(y, 1, -1) * r.uniform(1, 400, N)}


def ratio(r: np.random.Generator, y: NDArray[np.bool_]) -> Columns:
    """A ratio within two bounds determines the label."""
    whole = np.exp(r.normal(8, 0.9, N))
    return {"whole": whole, "part": whole * np.where(y, r.uniform(0.5, 0.9, N), 0.3)}


def equal_numbers(r: np.random.Generator, y: NDArray[np.bool_]) -> Columns:
    """Two numbers are equal for one label."""
    first = r.integers(0, 1000, N).astype(float)
    off = r.integers(1, 300, N) * r.choice([-1, 1], N)
    return {"first": first, "second": np.where(y, first, first + off)}


def pair(r: np.random.Generator, y: NDArray[np.bool_]) -> Columns:
    """A pair of categories determines the label, and neither of them says anything."""
    one = r.integers(0, 4, N)
    return {"one": one, "two": np.where(y, one, (one + r.integers(1, 4, N)) % 4)}


@pytest.mark.parametrize("plant", [difference, ratio, equal_numbers, pair])
def test_two_columns_that_determine_the_label_are_found(
    plant: Callable[[np.random.Generator, NDArray[np.bool_]], Columns],
) -> None:
    columns, _ = honest(1)
    random = np.random.default_rng(2)
    label = random.random(N) < 0.4
    planted = plant(random, label)
    suspects, _ = find_leaks({**columns, **planted}, label, {})
    assert {item.name: item.partners for item in suspects} == {
        name: tuple(other for other in planted if other != name) for name in planted
    }
    assert {item.kind for item in suspects} == {"combined"}


def test_three_columns_that_determine_the_label_are_found() -> None:
    columns, _ = honest(3)
    random = np.random.default_rng(4)
    parts = {name: random.normal(0, 10, N) for name in "uvw"}
    label = parts["u"] + 2 * parts["v"] - parts["w"] > 3
    suspects, _ = find_leaks({**columns, **parts}, label, {})
    assert sorted(item.name for item in suspects) == ["u", "v", "w"]
    # with a little noise the label is only predicted, by an honest sum of three columns
    noisy = parts["u"] + 2 * parts["v"] - parts["w"] + random.normal(0, 12, N) > 3
    assert find_leaks({**columns, **parts}, noisy, {})[0] == []


@pytest.mark.parametrize("seed", range(6))
def test_honest_columns_are_no_suspects(seed: int) -> None:
    columns, label = honest(seed)
    random = np.random.default_rng(seed + 100)
    sensitive: Columns = {
        "age": random.integers(18, 80, N).astype(float),
        "sex": random.integers(0, 2, N),
        "race": random.integers(0, 4, N),
    }
    # a proxy feature of each attribute
    columns["experience"] = np.clip(sensitive["age"] - 22 + random.normal(0, 5, N), 0, 60)
    columns["title"] = np.where(random.random(N) < 0.9, sensitive["sex"], 1 - sensitive["sex"])
    assert find_leaks(columns, label, sensitive)[0] == []


def attributes(seed: int) -> Columns:
    """Three sensitive columns."""
    random = np.random.default_rng(seed)
    return {
        "age": random.integers(18, 80, N).astype(float),
        "sex": random.integers(0, 2, N),
        "race": random.integers(0, 4, N),
    }


def test_two_dates_whose_difference_is_the_age_are_found() -> None:
    columns, label = honest(5)
    sensitive = attributes(6)
    random = np.random.default_rng(7)
    applied = random.integers(15000, 20000, N).astype(float)
    born = applied - sensitive["age"] * 365.25 - random.integers(0, 365, N)
    columns |= {"applied": applied, "born": born}
    suspects, _ = find_leaks(columns, label, sensitive)
    assert {item.name: (item.kind, item.attribute) for item in suspects} == {
        "applied": ("sensitive_combined", "age"),
        "born": ("sensitive_combined", "age"),
    }


def test_a_pair_of_categories_that_is_the_sex_is_found() -> None:
    columns, label = honest(8)
    sensitive = attributes(9)
    random = np.random.default_rng(10)
    key = random.integers(0, 2, N)
    columns |= {"key": key, "coded": key ^ sensitive["sex"]}
    suspects, _ = find_leaks(columns, label, sensitive)
    assert sorted(item.name for item in suspects) == ["coded", "key"]
    assert {item.attribute for item in suspects} == {"sex"}


@pytest.mark.parametrize(
    ("names", "compute"),
    [
        (("age", "sex"), lambda s: ((s["age"] > 40) * 2 + s["sex"]).astype(np.int64)),
        (("sex", "race"), lambda s: s["race"] * 2 + s["sex"]),
        (("age", "sex"), lambda s: 3.0 * s["age"] + 20.0 * s["sex"]),
    ],
)
def test_a_column_computed_from_two_sensitive_ones_is_found(
    names: tuple[str, str], compute: Callable[[Columns], NDArray[Any]]
) -> None:
    columns, label = honest(11)
    sensitive = attributes(12)
    columns["computed"] = compute(sensitive)
    suspects, _ = find_leaks(columns, label, sensitive)
    assert [(item.name, item.kind) for item in suspects] == [("computed", "sensitive")]
    assert suspects[0].attribute == " and ".join(names)


def test_degenerate_columns_are_no_reason_to_fail() -> None:
    empty = np.full(N, np.nan)
    constant = np.ones(N)
    infinite = np.where(np.arange(N) == 0, np.inf, 1.0)
    label = np.arange(N) % 2 == 0
    columns: Columns = {"empty": empty, "constant": constant, "infinite": infinite}
    sensitive: Columns = {"age": empty, "sex": np.zeros(N, dtype=np.int64)}
    assert find_leaks(columns, label, sensitive)[0] == []
    assert find_source(columns, empty) is None
    assert not is_computed(constant, sensitive)


def test_few_rows_of_a_label_are_no_evidence() -> None:
    columns, _ = honest(13)
    label = np.zeros(N, dtype=bool)
    label[:15] = True
    assert find_leaks(columns, label, {})[0] == []
