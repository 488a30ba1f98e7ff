"""The generated households have the sizes that the paper prints, and tell what they should."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import common
from benchmarks.reproductions import dadi_curve
from benchmarks.reproductions.dadi_paper import Table
from benchmarks.reproductions.households import HOUSEHOLDS, kind_of, make_households


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return make_households(4000, seed=1)


def test_sizes_are_the_printed_ones(frame: pd.DataFrame) -> None:
    assert HOUSEHOLDS == 70_305
    table = Table(
        frame.drop(columns=["senior", "poor"]), frame["poor"].to_numpy(), frame["senior"].to_numpy()
    )
    assert len(table.groups) == 99
    assert table.X.shape == (4000, 183)
    assert frame["poor"].mean() == pytest.approx(0.36, abs=1e-3)


def test_columns_tell_what_their_kind_says(frame: pd.DataFrame) -> None:
    correlations: dict[str, list[float]] = {}
    for position in range(10):
        values = frame[f"q{position + 1}"].to_numpy()
        with_poor = abs(np.corrcoef(values, frame["poor"])[0, 1])
        with_senior = abs(np.corrcoef(values, frame["senior"])[0, 1])
        correlations.setdefault(kind_of(position), []).extend([with_poor, with_senior])
    wealth, age, nothing = (correlations[kind] for kind in ("wealth", "age", "nothing"))
    assert min(wealth[::2]) > 0.3
    assert max(wealth[1::2]) < 0.2
    assert min(age[1::2]) > 0.3
    assert max(nothing) < 0.05


def test_a_seed_gives_one_table(frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(frame, make_households(4000, seed=1))


def test_every_table_of_the_curve_has_its_own_results() -> None:
    assert set(dadi_curve.TABLES) == {"adult", "households", "households-short"}
    assert len({result for result, _ in dadi_curve.TABLES.values()}) == 3


def test_agents_of_fewer_iterations_are_not_kept_as_printed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (common, dadi_curve):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    for table in ("households", "households-short"):
        dadi_curve.keep(table, 0, {"gamma": 0.1})
    printed = common.read_result("papers_dadi_households")["settings"]
    short = common.read_result("papers_dadi_households_short")["settings"]
    assert (printed["n_iterations"], printed["pretrain_iterations"]) == (20_000, 2000)
    assert (short["n_iterations"], short["pretrain_iterations"]) == (1000, 1000)
    assert printed["processing_steps"] == short["processing_steps"] == 5


def test_an_agent_is_kept_as_short_as_the_pages_need_it() -> None:
    agent = {"gamma": 0.5, "auc": 0.8, "selected": {"age": 0.4}, "alone": {"age": {}}, "all": {}}
    assert dadi_curve.shortened(agent, "adult")["selected"] == {"age": 0.4}
    assert "alone" not in dadi_curve.shortened(agent, "adult")
    first = dadi_curve.shortened({**agent, "gamma": 0.1}, "adult")
    assert first["alone"] == {"age": {}}
    assert dadi_curve.shortened({**agent, "gamma": 0.05}, "adult")["selected"] == {}


def test_folds_measured_at_the_same_time_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (common, dadi_curve):
        monkeypatch.setattr(module, "RESULTS", tmp_path)

    def provenance(_: str) -> dict[str, str]:
        # the other thread writes meanwhile, unless the file is locked
        time.sleep(0.002)
        return {}

    monkeypatch.setattr(dadi_curve, "provenance", provenance)

    def measure(fold: int) -> None:
        for gamma in dadi_curve.GAMMAS:
            dadi_curve.keep("adult", fold, {"gamma": gamma, "auc": 0.8})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(measure, range(2)))
    folds = common.read_result("papers_dadi_printed")["folds"]
    assert {fold: len(agents) for fold, agents in folds.items()} == {"0": 18, "1": 18}


def test_shares_of_households_are_means_by_kind() -> None:
    shares = {f"q{position + 1}": float(position) for position in range(10)}
    agent = {"gamma": 0.5, "auc": 0.8, "selected": shares, "alone": {}, "all": {}}
    kept = dadi_curve.shortened(agent, "households")
    assert kept["selected"] == {"wealth": 1.0, "both": 3.5, "age": 5.5, "nothing": 8.0}
