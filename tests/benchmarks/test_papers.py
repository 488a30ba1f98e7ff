"""``make papers``: it goes on where it ended, and without tables that are absent."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.reproductions import dadi_curve, paper_results, papers
from benchmarks.reproductions.paper_rows import PaperRow
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
        return {"method": {"auc": 0.5}}

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


def test_the_agents_of_dadi_are_all_and_those_shown_come_first() -> None:
    agents = dadi_curve.order()
    assert len(agents) == len(set(agents)) == 6 * 18
    assert [gamma for _, gamma in agents[:3]] == [0.1, 0.5, 0.9]


def test_a_finished_part_is_not_measured_again(
    measured: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    part = papers.Part("a figure", "figures", "done", lambda: calls.append("measured"))
    monkeypatch.setattr(papers, "PARTS", {"dadi": (part,)})
    papers.main(["dadi"])
    paper_results.write_result("figures", {"done": True})
    papers.main(["dadi"])
    assert calls == ["measured"]
