"""``evenhand report --all``: one page over all runs of a store, whatever state they are in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from evenhand.tasks.execution.store import Store

RUN = 'href="20260901-090000-a-00aaff/report.html"'
VERDICT = {
    "status": "published",
    "exit_code": 0,
    "metrics": {"auc": 0.9},
    "model": {"name": "a", "version": "1"},
}


def call(store: Path | str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["report", *arguments, "--store", str(store)])


def put(store: Path, run_id: str, verdict: Any = None, *, report: bool = True) -> Path:
    """Make a run's folder; `verdict` is JSON, or the text of a broken file."""
    folder = store / "runs" / run_id
    folder.mkdir(parents=True)
    if verdict is not None:
        text = verdict if isinstance(verdict, str) else json.dumps(verdict)
        (folder / "verdict.json").write_text(text)
    if report:
        (folder / "report.html").write_text("<p>")
    return folder


def index_of(store: Path) -> str:
    done = call(store, "--all")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"{store / 'runs' / 'index.html'}\n"
    return (store / "runs" / "index.html").read_text()


def test_every_run_is_listed_with_a_relative_link(tmp_path: Path) -> None:
    put(tmp_path, "20260901-090000-a-00aaff", VERDICT)
    put(tmp_path, "20260902-090000-a-00aafe", {**VERDICT, "status": "gated", "exit_code": 1})
    html = index_of(tmp_path)
    assert RUN in html
    assert html.index("20260902-090000-a-00aafe") < html.index("20260901-090000-a-00aaff")
    assert "2 runs of 1 job or model" in html


@pytest.mark.parametrize(
    "text", ["", '{"status": "publ', "[1, 2]", "\x00\x01", "[" * 5000, '{"status": NaN}']
)
def test_damaged_verdicts_are_listed(tmp_path: Path, text: str) -> None:
    put(tmp_path, "20260901-090000-a-00aaff", text, report=False)
    put(tmp_path, "20260902-090000-a-00aafe", VERDICT)
    html = index_of(tmp_path)
    assert "Damaged verdict" in html
    assert "Outcomes: 1 passed and 1 no verdict." in html


def test_bytes_that_are_no_text_are_a_damaged_verdict(tmp_path: Path) -> None:
    (put(tmp_path, "20260901-090000-a-00aaff") / "verdict.json").write_bytes(b"\xff\xfe{")
    assert "Damaged verdict" in index_of(tmp_path)


def test_missing_verdicts_are_listed(tmp_path: Path) -> None:
    put(tmp_path, "20260901-090000-a-00aaff", report=False)
    html = index_of(tmp_path)
    assert "No verdict" in html
    assert "it is still running, or was stopped" in html


def test_the_index_is_no_run(tmp_path: Path) -> None:
    put(tmp_path, "20260901-090000-a-00aaff", VERDICT)
    first = index_of(tmp_path)
    assert Store(str(tmp_path)).runs() == ["20260901-090000-a-00aaff"]
    assert index_of(tmp_path).count(RUN) == first.count(RUN) == 1
    latest = call(tmp_path)
    assert latest.exit_code == 0
    assert latest.stdout.strip().endswith("20260901-090000-a-00aaff/report.html")
    wrong = call(tmp_path, "index.html")
    assert wrong.exit_code == 2
    assert "has no run 'index.html'" in wrong.stderr


def test_an_empty_store_has_an_index_too(tmp_path: Path) -> None:
    assert "There is no run in this store yet." in index_of(tmp_path)


def test_all_or_one(tmp_path: Path) -> None:
    done = call(tmp_path, "latest", "--all")
    assert done.exit_code == 2
    assert done.stderr == "evenhand: --all is about every run: leave out 'latest'.\n"


def test_a_store_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store("memory://index-test")
    try:
        store.write_text(json.dumps(VERDICT), "runs", "20260901-090000-a-00aaff", "verdict.json")
        store.write_text("<p>", "runs", "20260901-090000-a-00aaff", "report.html")
        for _ in range(2):
            done = call(store.url, "--all")
            assert done.exit_code == 0, done.stderr
        html = store.read_text("runs", "index.html")
        assert html is not None
        assert html.count(RUN) == 1
        assert store.runs() == ["20260901-090000-a-00aaff"]
    finally:
        store.filesystem.rm("/index-test", recursive=True)


def test_what_runs_leave_fills_it(bench: Any) -> None:
    bench.job["gates"] = {"auc": {"min": 0.99}}
    done = bench.run()
    assert done.code == 1, done.err
    html = index_of(bench.store)
    assert "Refused by a gate" in html
    assert "people-gbdt" in html
    assert "Area under the ROC curve" in html
