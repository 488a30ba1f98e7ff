"""``make papers``: it goes on where it ended, and without tables that are absent."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproductions import dadi_curve, paper_results, papers, proxies_paper
from benchmarks.reproductions.paper_rows import ROWS as ROWS_OF_TABLES
from benchmarks.reproductions.paper_rows import PaperRow, row_of
from benchmarks.studies import unseen_terms
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError

ROWS = (PaperRow("german", "budro", "german-budro"), PaperRow("adult", "budro", "adult-budro"))


@pytest.fixture
def measured(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Make measuring a split cheap, and return which were measured; Adult is absent."""
    calls: list[tuple[str, int]] = []

    def measure(store: Any, row: PaperRow, seed: int, *, is_quick: bool = False) -> Any:
        if row.data == "adult":
            raise InputError("adult.data cannot be fetched:\nno network.")
        calls.append((row.key, seed))
        return {"method": {"accuracy": 0.5}}

    monkeypatch.setattr("benchmarks.common.RESULTS", tmp_path / "results")
    monkeypatch.setattr(papers, "measure_split", measure)
    monkeypatch.setattr(papers, "rows_of", lambda paper: ROWS if paper == "budro" else ())
    monkeypatch.setattr(papers, "PARTS", {})
    monkeypatch.setattr(papers.paper_pages, "main", lambda: None)
    monkeypatch.setattr(papers, "Store", lambda folder: None)
    return calls


def test_an_absent_table_is_one_line_and_the_others_go_on(
    measured: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers.main(["--splits", "2"]) == 2
    assert measured == [("german budro", 0), ("german budro", 1)]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert line.startswith("budro: adult is left out: adult.data cannot be fetched: no network;")
    assert "EVENHAND_DATA" in line


def test_a_failure_is_one_line_and_the_other_rows_go_on(
    measured: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = (PaperRow("german", "bad", "german-budro"), PaperRow("german", "good", "german-budro"))

    def measure(store: Any, row: PaperRow, seed: int, *, is_quick: bool = False) -> Any:
        if row.row == "bad":
            raise ZeroDivisionError("no\nweights.")
        return {"method": {"accuracy": 0.5}}

    monkeypatch.setattr(papers, "measure_split", measure)
    monkeypatch.setattr(papers, "rows_of", lambda paper: rows if paper == "budro" else ())
    assert papers.main(["--splits", "1"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert line.startswith("budro: german bad failed in test_papers.py, line ")
    assert line.endswith(": ZeroDivisionError: no weights")
    assert list(paper_results.stored("budro")["rows"]) == ["german good"]


def test_a_damaged_table_of_a_figure_is_one_line(
    measured: list[tuple[str, int]],
    tmp_path: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bank-full.csv").write_text("age;job;y\n")
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    parts = {
        "proxies": (papers.Part("shares", "proxies", "shares", lambda _: proxies_paper.bank()),)
    }
    monkeypatch.setattr(papers, "PARTS", parts)
    assert papers.main(["proxies", "budro", "--splits", "1"]) == 2
    first, _ = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert first.startswith(f"proxies: shares is left out: {tmp_path / 'bank-full.csv'} has sha256")
    assert measured == [("german budro", 0)]


def test_an_absent_extra_is_not_cured_by_a_folder(
    measured: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unseen_terms.importlib.util, "find_spec", lambda name: None)
    part = papers.Part("terms", "unseen_terms", "whole", lambda _: unseen_terms.main([]))
    monkeypatch.setattr(papers, "PARTS", {"sensei": (part,)})
    assert papers.main(["sensei"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert line.endswith("pip install 'evenhand[text]'")


def test_a_restored_row_stays_until_it_is_measured_again(
    measured: list[tuple[str, int]],
) -> None:
    restored = {"means": {"accuracy": [0.7, 0.1]}, "splits": 2, "origin": "old"}
    row = PaperRow("german", "budro", "german-budro", splits=2)
    paper_results.write_result("papers_budro", {"rows": {row.key: restored}})
    assert paper_results.splits_done("budro", row) == 2
    assert paper_results.splits_done("budro", row, is_again=True) == 0
    paper_results.add_split("budro", row, {"method": {"accuracy": 0.5}})
    assert paper_results.stored("budro")["rows"][row.key] == restored
    assert paper_results.splits_done("budro", row, is_again=True) == 1
    paper_results.add_split("budro", row, {"method": {"accuracy": 0.6}})
    assert paper_results.stored("budro")["rows"][row.key]["method"] == {"accuracy": [0.5, 0.6]}
    assert paper_results.stored("budro")["begun"] == {}
    assert paper_results.splits_done("budro", row, is_again=True) == 2


def test_a_whole_row_is_measured_once_more_if_it_is_named(
    measured: list[tuple[str, int]],
) -> None:
    row = ROWS[0]
    whole = {"changes": [], "splits": 10, "method": {"accuracy": [0.7] * 10}, "origin": "old"}
    paper_results.write_result("papers_budro", {"rows": {row.key: whole}})
    named = ["budro", "--row", row.key]
    assert papers.main(named) == 0
    assert papers.main(["budro", "--splits", "10", "--again"]) == 2  # Adult is absent
    assert measured == []
    assert papers.main([*named, "--again", "--splits", "4"]) == 0
    assert paper_results.stored("budro")["rows"][row.key] == whole
    assert papers.main([*named, "--again"]) == 0
    assert [seed for _, seed in measured] == list(range(10))
    entry = paper_results.stored("budro")["rows"][row.key]
    assert (entry["splits"], entry["method"]) == (10, {"accuracy": [0.5] * 10})
    assert paper_results.stored("budro")["begun"] == {}


def test_a_restored_row_with_too_few_splits_is_measured(measured: list[tuple[str, int]]) -> None:
    restored = {"means": {"accuracy": [0.7, 0.1]}, "splits": 2, "origin": "old"}
    paper_results.write_result("papers_budro", {"rows": {"german budro": restored}})
    arguments = ["budro", "--row", "german budro", "--splits"]
    assert papers.main([*arguments, "3"]) == 0
    assert measured == [("german budro", 0), ("german budro", 1), ("german budro", 2)]
    assert papers.main([*arguments, "3"]) == 0
    assert len(measured) == 3


def test_a_baseline_of_two_papers_is_measured_once(measured: list[tuple[str, int]]) -> None:
    shared = row_of("sensei", "adult adversarial_debiasing")
    for paper in ("sensei", "budro", "sensei"):
        if paper_results.splits_done(paper, shared) < 2:
            paper_results.add_split(paper, shared, {"method": {"accuracy": 0.5}})
    assert paper_results.stored("sensei")["rows"] == {}
    assert paper_results.stored("budro")["rows"][shared.key]["splits"] == 2


def test_only_missing_splits_are_measured(measured: list[tuple[str, int]]) -> None:
    arguments = ["budro", "--row", "german budro", "--splits"]
    assert papers.main([*arguments, "1"]) == 0
    assert papers.main([*arguments, "3"]) == 0
    assert measured == [("german budro", 0), ("german budro", 1), ("german budro", 2)]
    assert paper_results.stored("budro")["rows"]["german budro"]["splits"] == 3


def test_an_unknown_row_is_refused(
    measured: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers.main(["--row", "german bodro"]) == 2
    assert "'german bodro'" in capsys.readouterr().err
    assert measured == []


def test_the_list_states_what_is_done(
    measured: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    papers.main(["budro", "--row", "german budro", "--splits", "1"])
    papers.main(["budro", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "budro: german budro: 1 of 10 splits"


def test_the_agents_of_dadi_come_fold_by_fold() -> None:
    agents = dadi_curve.order()
    assert len(agents) == len(set(agents)) == 6 * 18
    assert [fold for fold, _ in agents] == sorted([0, 1, 2, 3, 4, 5] * 18)
    # of each fold the trade-offs of figure 3 first
    for fold in range(6):
        mine = [gamma for _, gamma in agents[18 * fold : 18 * (fold + 1)]]
        assert mine[:3] == [0.1, 0.5, 0.9]
        assert mine[3:] == sorted(mine[3:])


def test_without_time_what_is_missing_is_stated(
    measured: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = papers.Part("a figure", "figures", "done", lambda _: measured.append(("figure", 0)))
    monkeypatch.setattr(papers, "PARTS", {"dadi": (part,)})
    pages: list[str] = []
    monkeypatch.setattr(papers.paper_pages, "main", lambda: pages.append("written"))
    assert papers.main(["--minutes", "0"]) == 0
    assert (measured, pages) == ([], ["written"])
    assert capsys.readouterr().err.splitlines() == [
        "missing: dadi: a figure: 0 of 1 done",
        *(f"missing: budro: {row.key}: 0 of 10 splits done" for row in ROWS),
        "nothing is missing of sensei, faias, proxies",
    ]


def test_a_figure_ends_after_the_unit_that_exceeds_the_time(
    measured: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(minutes: float) -> None:
        for unit in range(3):
            measured.append(("unit", unit))
            if unit == 1:
                time.sleep(0.05)
            paper_results.write_result("figures", {"rows": {str(n): 1 for n in range(unit + 1)}})

    def count() -> tuple[int, int]:
        return len(paper_results.read_result("figures").get("rows", {})), 3

    part = papers.Part("a figure", "figures", "rows", measure, count)
    monkeypatch.setattr(papers, "PARTS", {"dadi": (part,)})
    assert papers.main(["dadi", "--minutes", str(0.04 / 60)]) == 0
    assert measured == [("unit", 0), ("unit", 1)]
    assert capsys.readouterr().err.splitlines()[-1] == "missing: dadi: a figure: 2 of 3 done"
    papers.main(["dadi"])
    assert part.is_done
    assert capsys.readouterr().err.splitlines()[-1] == "nothing is missing of dadi"


def test_every_figure_counts_its_units() -> None:
    for parts in papers.PARTS.values():
        for part in parts:
            done, units = part.progress
            assert 0 <= done <= units, part.name


def test_a_closed_reader_of_the_list_is_no_error(
    measured: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert papers.main(["--list"]) == 0
        # what is left is written to nowhere when the process ends
        pipe.write("more")
        pipe.flush()


def test_a_finished_part_is_not_measured_again(
    measured: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    part = papers.Part("a figure", "figures", "done", lambda _: calls.append("measured"))
    monkeypatch.setattr(papers, "PARTS", {"dadi": (part,)})
    papers.main(["dadi"])
    paper_results.write_result("figures", {"done": True})
    papers.main(["dadi"])
    assert calls == ["measured"]


def test_only_metrics_that_a_paper_prints_are_kept(measured: list[tuple[str, int]]) -> None:
    values = {"method": {"theil_index": 0.1, "gap_max.sex": 0.2, "mcc": 0.3}, "plain": {"mcc": 0.4}}
    paper_results.add_split("budro", ROWS[0], values)
    paper_results.add_split("faias", PaperRow("german", "faias", "german-faias"), values)
    assert paper_results.stored("budro")["rows"]["german budro"]["method"] == {"gap_max.sex": [0.2]}
    entry = paper_results.stored("faias")["rows"]["german faias"]
    assert entry["method"] == {"theil_index": [0.1], "gap_max.sex": [0.2]}
    assert entry["plain"] == {}


def test_no_proof_is_made_that_no_paper_prints() -> None:
    job, _ = load_job("adult-budro", list(paper_results.SHORT_EVALUATION))
    assert job.evaluate.proof_parts == "none"
    assert job.evaluate.draws == 0


def test_agents_of_one_trade_off_are_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.common.RESULTS", tmp_path)
    monkeypatch.setattr(dadi_curve, "TABLES", {"adult": ("agents", lambda: None)})
    measured: list[tuple[int, float]] = []

    def measure(_: object, fold: int, gamma: float, settings: object) -> dict[str, Any]:
        assert settings == dadi_curve.PRINTED
        measured.append((fold, gamma))
        return {"gamma": gamma, "auc": float(len(measured)), "selected": {}, "alone": {}}

    monkeypatch.setattr(dadi_curve, "measure", measure)
    dadi_curve.main(["--gamma", "0.2", "--fold", "3"])
    dadi_curve.main(["--gamma", "0.2", "--fold", "3"])
    assert measured == [(2, 0.2)]
    # a later command, in whatever folder, goes on from the results
    dadi_curve.main(["--gamma", "0.2"])
    assert measured[1:] == [(fold, 0.2) for fold in (0, 1, 3, 4, 5)]
    dadi_curve.main(["--gamma", "0.2", "--fold", "3", "--again"])
    folds = json.loads((tmp_path / "agents.json").read_text())["folds"]
    assert [folds[str(fold)]["0.2"]["auc"] for fold in range(6)] == [2, 3, 7, 4, 5, 6]


def test_a_wrong_option_of_a_row_is_not_an_absent_table(
    measured: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(store: Any, row: PaperRow, seed: int, *, is_quick: bool = False) -> Any:
        raise InputError(f"job {row.job}: unknown key 'method.n_step'.")

    monkeypatch.setattr(papers, "measure_split", measure)
    assert papers.main(["budro", "--row", "german budro", "--splits", "1"]) == 1
    error = capsys.readouterr().err
    assert "german budro failed" in error
    assert "EVENHAND_DATA" not in error


def test_every_row_has_a_job_that_takes_its_options() -> None:
    for row in [row for rows in ROWS_OF_TABLES.values() for row in rows]:
        job, folder = load_job(row.job, [*row.changes, paper_results.quick_change(row)])
        assert resolve(job, folder).job.method, row.key
