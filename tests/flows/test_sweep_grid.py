"""The grid of a sweep: what `--over` means, which points there are, and what is refused before any
runs.
"""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.sweep import as_text, make_grid, parse_axis
from evenhand.tasks.errors import InputError
from evenhand.tasks.written_input import as_number

WORDS = st.text("abcxyz019 -:,#{}[]'\"é", max_size=6).filter(lambda text: as_number(text) == text)
SCALARS = st.one_of(
    st.integers(-1000, 1000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    WORDS,
    st.none(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=4,
)


def as_list(values: list[Any]) -> str:
    """The values as they stand between commas in a YAML flow list."""
    text = yaml.safe_dump(values, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return str(text).strip()[1:-1]


@given(VALUES)
def test_a_value_written_as_text_reads_back(value: Any) -> None:
    text = as_text(value)
    assert "\n" not in text
    assert yaml.safe_load(text) == value
    assert type(yaml.safe_load(text)) is type(value)


@given(st.lists(VALUES, min_size=1, max_size=4, unique_by=repr))
def test_the_values_of_an_axis_are_those_of_a_flow_list(values: list[Any]) -> None:
    pairs = [(a, b) for i, a in enumerate(values) for b in values[:i]]
    twice = any(a == b and isinstance(a, bool) == isinstance(b, bool) for a, b in pairs)
    if twice:
        with pytest.raises(InputError, match="twice"):
            parse_axis(f"method.x={as_list(values)}")
        return
    axis = parse_axis(f"method.x={as_list(values)}")
    assert (axis.key, list(axis.values)) == ("method.x", values)


def test_values_by_hand() -> None:
    assert parse_axis("method.eta=1e-3,0.5,2").values == (0.001, 0.5, 2)
    assert parse_axis("method.hidden=[100],[50,1e2]").values == ([100], [50, 100.0])
    assert parse_axis("method=gbdt,{name: budro, eta: 1e-2}").values == (
        "gbdt",
        {"name": "budro", "eta": 0.01},
    )
    assert parse_axis("evaluate.intersections=true,no,1").values == (True, False, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("method.eta", "KEY=V1,V2"),
        ("=1,2", "KEY=V1,V2"),
        ("method.eta=", "lists no value"),
        ("method.eta=1,,2", "not a YAML list"),
        ("method.eta=1],[2", "not a YAML list"),
        ("method.eta=0.1,1e-1", "0.1 twice"),
        ("method.eta=1,1.0", "1.0 twice"),
        ("method.hidden=[1,2],[1,2]", "twice"),
        ("seed=1,2", "--seeds"),
        ("sweep.workers=1,2", "--set"),
    ],
)
def test_another_axis_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match="--over") as caught:
        parse_axis(text)
    assert words in str(caught.value)


def test_each_combination_and_seed_is_a_point() -> None:
    """Neighbours differ in their seed."""
    grid = make_grid(
        "loans-gbdt",
        ["method.eta=0.1,0.2", "split.test=0.2,0.3,0.4"],
        seeds=3,
        overrides=["seed=5"],
    )
    assert grid.seeds == (5, 6, 7)
    found = {
        (p.resolved.arguments["eta"], p.resolved.job.split.test, p.resolved.job.seed)
        for p in grid.points
    }
    assert found == {(e, t, s) for e in (0.1, 0.2) for t in (0.2, 0.3, 0.4) for s in (5, 6, 7)}
    assert len(grid.points) == 18
    assert all(a.seed != b.seed for a, b in pairwise(grid.points))
    assert all(p.settings == grid.values[p.value] for p in grid.points)


def test_a_point_is_the_job_that_a_run_with_the_same_set_has() -> None:
    common = ["table.rows=500", "gates.auc.min=1e-1"]
    grid = make_grid(
        "loans-gbdt", ["method.eta=1e-2", "method.max_depth=2"], overrides=common, seeds=2
    )
    expected = resolve(
        *load_job("loans-gbdt", [*common, "method.eta=0.01", "method.max_depth=2", "seed=1"])
    )
    assert grid.points[1].resolved == expected


def test_a_swept_key_wins_over_a_set_one() -> None:
    """Sections go before their parts."""
    grid = make_grid(
        "loans-gbdt",
        ["method.eta=0.3", "method=budro"],
        overrides=["method.eta=0.9", "method.max_depth=7"],
    )
    (point,) = grid.points
    assert (point.resolved.method, point.resolved.arguments) == ("budro", {"eta": 0.3})


def test_a_swapped_method_drops_arguments() -> None:
    """The job's own method keeps them."""
    own = resolve(*load_job("german-gbdt", ["method.eta=0.25"]))
    grid = make_grid(
        "german-gbdt",
        ["method=reweigh,gbdt,{name: gbdt, eta: 0.125}"],
        overrides=["method.eta=0.25"],
    )
    reweigh, gbdt, mapped = (point.resolved for point in grid.points)
    assert (reweigh.method, reweigh.arguments) == ("reweigh", {})
    assert (gbdt.method, gbdt.arguments) == ("gbdt", own.arguments)
    assert len(own.arguments) > 1
    assert (mapped.method, mapped.arguments) == ("gbdt", {"eta": 0.125})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--over", "methd.eta=1,2"], ("unknown key", "'methd'")),
        (["--over", "method.eta=0.1,high"], ("method.eta", "'high'")),
        (["--over", "method.et=0.1"], ("method.et", "did you mean 'eta'")),
        (["--over", "method=gbdt,budrow"], ("'budrow'", "did you mean 'budro'")),
        (["--over", "method.eta=1", "--over", "method.eta=2"], ("given twice",)),
        (["--over", "method.eta=1", "--seeds", "0"], ("at least one seed",)),
        (["--over", "method.eta=1", "--seeds", "2", "--set", f"seed={2**31 - 1}"], ("seed",)),
        (
            ["--over", "method.eta=1", "--workers", "0"],
            ("sweep.workers", "at least 1"),
        ),
        (["--over", "method.eta=1", "--set", "sweep.engine=threads"], ("sweep.engine", "'dask'")),
        (["--over", "method.eta=1", "--set", "sweep.address=tcp://h:1"], ("address", "dask")),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, arguments: list[str], words: tuple[str, ...]
) -> None:
    store = tmp_path / "store"
    done = CliRunner().invoke(
        app, ["sweep", "loans-gbdt", "--direct", "--store", str(store), *arguments]
    )
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr, done.stderr
    assert not store.exists()


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "distributed" else real(name, *rest),
    )
    with pytest.raises(InputError, match=r"pip install 'evenhand\[dask\]'"):
        make_grid("loans-gbdt", ["method.eta=1"], overrides=["sweep.engine=dask"])
