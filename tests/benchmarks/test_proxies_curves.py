"""Figures 1 and 2 of the balancing proxies: kept by split, and gone on with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import common
from benchmarks.reproductions import proxies_curves
from evenhand.fairlib.proxies.proxy_evaluation import measure_proxy
from evenhand.fairlib.proxies.proxy_groups import indicators_of
from evenhand.fairlib.proxies.tree import ProxyTree
from tests.oracles.remixed_proxy import remixed


def points(family: str, seed: int) -> list[dict[str, Any]]:
    """Points of a split whose every number is another one."""
    random = np.random.default_rng(seed)
    made = []
    for method in proxies_curves._methods(family):
        for knob in proxies_curves._knobs("bank", family):
            point: dict[str, Any] = {"method": method, "knob": knob, "leaves": 3 + seed}
            for part in proxies_curves.PARTS:
                names = ("disclosivity", "imbalance", "smallest_growth", "kept")
                point[part] = {name: round(float(random.random()), 4) for name in names}
            made.append(point)
    return made


@pytest.mark.parametrize("family", ["paper", "held-out", "comparators"])
def test_a_kept_split_gives_its_points_again(family: str) -> None:
    before = points(family, 1)
    kept = proxies_curves.record_of(list(reversed(before)), family)
    after = proxies_curves.points_of(kept, "bank", family)
    assert [(p["method"], p["knob"]) for p in after] == [(p["method"], p["knob"]) for p in before]
    for was, point in zip(before, after, strict=True):
        for part in proxies_curves.PARTS:
            for name, value in point[part].items():
                assert value == pytest.approx(was[part][name])
    shown = [point for point in after if "leaves" in point]
    assert len(shown) == (0 if family == "comparators" else 2 * 7)
    assert all({"smallest_growth", "kept"} < set(point["test"]) for point in shown)


def test_an_undefined_value_stays_undefined() -> None:
    before = points("paper", 0)
    before[0]["test"]["imbalance"] = float("nan")
    before[0]["test"]["smallest_growth"] = None
    after = proxies_curves.points_of(proxies_curves.record_of(before, "paper"), "bank", "paper")
    assert after[0]["test"]["imbalance"] is None
    assert after[0]["test"]["smallest_growth"] is None


@pytest.mark.parametrize("mixing", [0.0, 0.3])
def test_measures_are_those_of_the_evaluation(mixing: float) -> None:
    rng = np.random.default_rng(0)
    job = rng.choice(["a", "b", "c"], 400, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(400, 2)) + (job == "a")[:, None] - (job == "c")[:, None]
    proxy = remixed(
        ProxyTree(alpha=0.3, min_leaf=5).fit(X, sensitive_features={"job": job}), mixing
    )
    held_out, groups = X[:150] + 0.2, job[:150]
    tallies = proxy.shares(held_out).T @ indicators_of({"job": groups}, proxy.group_names_)
    expected = measure_proxy(proxy, held_out, {"job": groups}, draws=0).values
    measured = proxies_curves.measures_of(proxy, tallies)
    assert len(proxy.masses_) > 1
    for name, value in measured.items():
        assert value == pytest.approx(expected[name]), name


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Make measuring a split cheap, and return which were measured."""
    calls: list[tuple[str, str, int]] = []

    def measure(table: str, family: str, seed: int) -> list[dict[str, Any]]:
        calls.append((table, family, seed))
        return points(family, seed)

    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(proxies_curves, "points_of_split", measure)
    monkeypatch.setattr(
        proxies_curves, "CURVES", {"bank": {"comparators": 2, "paper": 2, "held-out": 2}}
    )
    return calls


def test_the_drawn_families_come_first_and_none_twice(
    measured: list[tuple[str, str, int]],
) -> None:
    proxies_curves.main(["--family", "paper"])
    assert measured == [("bank", "paper", 0), ("bank", "paper", 1)]
    proxies_curves.main([])
    assert measured[2:] == [
        *(("bank", "comparators", 0), ("bank", "comparators", 1)),
        *(("bank", "held-out", 0), ("bank", "held-out", 1)),
    ]
    assert proxies_curves.count() == (6, 6)
    proxies_curves.main([])
    assert len(measured) == 6


def test_without_time_nothing_is_measured_but_counted(
    measured: list[tuple[str, str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    proxies_curves.main(["--minutes", "0"])
    assert measured == []
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "proxies, bank, comparators: 0 of 2 splits: the same command goes on"


def test_a_split_that_exceeds_the_time_is_kept(
    measured: list[tuple[str, str, int]],
) -> None:
    with pytest.raises(common.OutOfTime), common.time_limit(time.monotonic()):
        proxies_curves.main([])
    assert measured == [("bank", "comparators", 0)]
    assert proxies_curves.splits_kept("bank", "comparators") == 1


def test_the_pages_get_the_means_of_all_kept_splits(
    measured: list[tuple[str, str, int]],
) -> None:
    proxies_curves.main([])
    curves = proxies_curves.read_curves()
    assert curves["command"] == proxies_curves.COMMAND
    shown = curves["result"]["bank"]
    assert [row["seeds"] for row in shown["held-out"]] == [2] * 14
    first, second = (points("paper", seed)[0]["test"]["imbalance"] for seed in (0, 1))
    disclosivity, imbalance = shown["lines"]["proxy"]["test"][0]
    assert imbalance == pytest.approx((first + second) / 2, abs=1e-4)
    assert shown["paper"][0]["leaves"] == 3.5


def test_an_earlier_family_stays_until_it_is_measured(
    measured: list[tuple[str, str, int]],
) -> None:
    margins = {family: {"proxy": {"margin": 0.1, "at": 0.2}} for family in ("paper", "held-out")}
    tables = {"held-out": [{"seeds": 9}], "paper": [{"seeds": 9}]}
    tables["dominance"] = {part: dict(margins) for part in proxies_curves.PARTS}
    common.write_result("proxies", {"curves": {"command": "old", "result": {"bank": tables}}})
    assert proxies_curves.read_curves()["command"] == "old"
    for family in ("paper", "comparators"):
        proxies_curves.main(["--family", family])
    proxies_curves.measure("bank", "held-out", 0)
    shown = proxies_curves.read_curves()["result"]["bank"]
    assert shown["held-out"] == [{"seeds": 9}]
    assert shown["paper"][0]["seeds"] == 2
    assert shown["dominance"]["train"]["held-out"] == margins["held-out"]
