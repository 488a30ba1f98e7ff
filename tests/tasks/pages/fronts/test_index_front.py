"""The page over a store's runs: a row for every run with its outcome in words, champions, jobs."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from html_tree import Node, read
from page_blocks import page, rows, table
from page_examples import HOSTILE, JOBS, RUNS, index_documents, indexed

from evenhand.tasks.pages.build import build, cells, write_page
from evenhand.tasks.pages.fronts.index_front import entries_of
from evenhand.tasks.pages.page_model import Front, Table

EMPTY = index_documents(2) | {"runs": []}
ID = "20260901-090000-adult-gbdt-00aaff"


def of(*runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Documents of a store with these runs."""
    return {**EMPTY, "runs": list(runs), **more}


def every_run(documents: dict[str, Any]) -> Table:
    return table(page("index", documents)["runs"], "Every run")


def texts(found: Table) -> list[list[str]]:
    """Texts of all cells with their symbols and smaller lines."""
    return [
        [
            " ".join(part for part in (cell.symbol, cell.text, *cell.below) if part)
            for cell in cells(list(row))
        ]
        for row in found.rows
    ]


def one(suffix: str, status: str, code: int, **more: Any) -> list[str]:
    """Texts of the row of a store's only run."""
    run_id = f"20260901-090000-adult-gbdt{suffix}-00aaff"
    verdict = {"status": status, "exit_code": code, **more}
    (row,) = texts(every_run(of(indexed(run_id, verdict, report=f"{run_id}/report.html"))))
    return row


def front(documents: dict[str, Any]) -> Front:
    return build("index", documents).front


# the runs


def test_every_run_has_one_row_newest_first() -> None:
    """Each has a link to its page."""
    documents = index_documents(200)
    heads = [row[0] for row in every_run(documents).rows]
    times = [head.time for head in heads]
    assert len(times) == 200
    assert times == sorted(times, reverse=True)
    assert {head.href for head in heads} - {None} == {
        run["report"] for run in documents["runs"] if run["report"]
    }
    assert [head.below for head in heads[:2]] == [("no report",)] * 2


@pytest.mark.parametrize(
    ("suffix", "status", "code", "name", "words"),
    [
        ("", "published", 0, "adult-gbdt run", "\u2713 Published"),
        ("", "gated", 1, "adult-gbdt run", "\u2715 Refused by a gate"),
        ("", "gated", 3, "adult-gbdt run", "? Not enough evidence"),
        ("", "up_to_date", 0, "adult-gbdt run", "\u2713 Up to date: nothing to do"),
        ("", "failed", 4, "adult-gbdt run", "! Failed"),
        ("-sweep", "evaluated", 0, "adult-gbdt sweep", "\u2713 All runs finished"),
        # of earlier releases
        ("-sweep", "evaluated", 1, "adult-gbdt sweep", "\u2715 No value is good enough"),
        ("-sweep", "evaluated", 4, "adult-gbdt sweep", "! Some runs failed"),
        ("-sweep", "failed", 4, "adult-gbdt sweep", "! Failed"),
        ("-filter", "filtered", 0, "adult-gbdt filter", "\u2713 Filtered"),
        ("-filter", "filtered", 2, "adult-gbdt filter", "! Some files failed"),
        ("-evaluate", "evaluated", 0, "adult-gbdt evaluation", "\u2713 Evaluated without gates"),
        ("-evaluate", "evaluated", 1, "adult-gbdt evaluation", "\u2715 Refused by a gate"),
        ("-evaluate", "evaluated", 3, "adult-gbdt evaluation", "? Not enough evidence"),
        ("-monitor", "monitored", 0, "adult-gbdt monitor", "\u2713 Within its limits"),
        ("-monitor", "monitored", 1, "adult-gbdt monitor", "\u2715 Refused: drift"),
        # a job may be named as if it were another kind of run
        ("-filter", "published", 0, "adult-gbdt-filter run", "\u2713 Published"),
    ],
)
def test_kind_and_verdict_in_words(
    suffix: str, status: str, code: int, name: str, words: str
) -> None:
    when, job, verdict, *_ = one(suffix, status, code)
    assert when == "1 September 2026, 09:00 UTC"
    assert job == name
    assert verdict == words


def test_the_main_metrics_are_few_and_start_with_those_of_gates() -> None:
    _, _, _, more = RUNS[0]
    shown = one("", "published", 0, metrics=more["metrics"], gates=more["gates"])[3]
    assert shown == (
        "Largest gap in error rates by sex 0.157 Balanced accuracy 0.812 "
        "Counterfactual consistency over spouse 0.944"
    )
    filtered = one(
        "-filter", "filtered", 0, metrics={"rows_in": 1e5, "rows_out": 48021.0, "kept": 0.48021}
    )
    assert filtered[3].endswith("48.0% Rows in the output 48,021 Rows read 100,000")
    assert one("", "gated", 3, metrics={"auc": None})[3] == "none"


def test_version_time_and_error_stand_in_the_row() -> None:
    model = {"name": "adult", "version": "7", "alias": "champion", "uri": "models:/adult@champion"}
    found = one("", "published", 0, model=model, seconds={"train": 100.0, "gate": 30.0})
    assert found[1] == "adult-gbdt run, version 7 of adult"
    assert found[4] == "2 min 10 s"
    failed = one("", "failed", 2, error="the table has no column 'x'" + "." * 300)
    assert "the table has no column 'x'." in failed[2]
    assert len(failed[2]) < 220
    assert failed[4] == "unknown"


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        [],
        "text",
        {"status": "published"},
        {"status": "published", "exit_code": 0, "metrics": {"a": "b"}},
        {"status": "published", "exit_code": 0, "metrics": {"a": float("nan")}},
    ],
)
def test_what_is_no_verdict_is_listed_as_damaged(verdict: Any) -> None:
    documents = of(indexed(ID, verdict))
    found = every_run(documents)
    assert [cells(list(row))[2].kind for row in found.rows] == ["unknown"]
    (row,) = texts(found)
    assert row[0].endswith("no report")
    assert row[2] == "! Damaged verdict its verdict.json cannot be read"
    assert front(documents).headline[1] == "Outcomes: 1 no verdict."


def test_missing_verdicts_and_odd_names_are_listed() -> None:
    gated = {"status": "gated", "exit_code": 1}
    documents = of(
        indexed(ID, damage="missing"),
        indexed("my-own-name", gated),
        indexed("20269999-999999-adult-gbdt-00aaff", gated),
    )
    found = texts(every_run(documents))
    heads = [row[0] for row in found]
    assert heads[0] == "1 September 2026, 09:00 UTC no report"
    assert sorted(heads[1:]) == [
        "20269999-999999-adult-gbdt-00aaff no report",
        "my-own-name no report",
    ]
    assert found[0][2] == "! No verdict it is still running, or was stopped"


# the front


def has_alias(run: dict[str, Any]) -> bool:
    return bool(run["verdict"] and (run["verdict"].get("model") or {}).get("alias"))


def test_the_front_counts_and_names_champions() -> None:
    documents = index_documents(33)
    found = front(documents)
    assert list(found.headline) == [
        "33 runs of 3 jobs and models, the newest on 13 September 2026, 00:00 UTC.",
        "Outcomes: 14 passed, 11 refused, 3 not enough evidence, 3 failed and 2 no verdict.",
    ]
    assert [name for name, _ in found.facts] == sorted(JOBS)
    for name, cell in found.facts:
        newest = max(
            (
                run
                for run in documents["runs"]
                if run["run_id"][16:].startswith(f"{name}-") and has_alias(run)
            ),
            key=lambda run: run["run_id"],
        )
        assert cell.text.startswith(
            f"version {newest['verdict']['model']['version']} is champion, published on"
        )
        assert cell.href == newest["report"]
    assert "the registry was not asked" in found.note


def published(
    day: int, version: str, alias: str | None, status: str = "published"
) -> dict[str, Any]:
    model = {"name": "adult", "version": version, "alias": alias}
    run_id = f"2026090{day}-090000-adult-00aaff"
    return indexed(
        run_id, {"status": status, "exit_code": 0, "model": model}, report=f"{run_id}/report.html"
    )


def test_every_alias_of_a_model_is_shown() -> None:
    runs = [
        published(1, "1", "champion"),
        published(2, "2", "challenger"),
        published(3, "3", "challenger"),
    ]
    shown = [cell.text.partition(",")[0] for _, cell in front(of(*runs)).facts]
    assert shown == ["version 3 is challenger", "version 1 is champion"]


def test_aliases_are_those_of_the_registry_where_it_was_asked() -> None:
    runs = [published(1, "1", "champion"), published(2, "2", "champion")]
    found = front(of(*runs, aliases={"adult": {"champion": "1", "old": "9"}}))
    assert [(cell.text, cell.href) for _, cell in found.facts] == [
        (
            "version 1 is champion, published on 1 September 2026, 09:00 UTC",
            f"{runs[0]['run_id']}/report.html",
        ),
        ("version 9 is old", None),
    ]
    assert found.note.startswith("Aliases are those of the registry")
    assert not front(of(*runs, aliases={})).facts


def test_an_evaluation_makes_no_champion() -> None:
    assert not front(of(published(1, "7", "champion", status="evaluated"))).facts


# the jobs, and the choices


def test_jobs_are_counted_by_the_outcomes_of_their_runs() -> None:
    found = rows(table(page("index", index_documents(33))["jobs"], "Jobs and models"))
    counts = {name: [int(text) for text in row[:6]] for name, row in found.items()}
    assert set(counts) == set(JOBS)
    assert all(runs == sum(rest) == 11 for runs, *rest in counts.values())


def test_a_page_of_many_runs_stays_small() -> None:
    assert len(write_page("index", index_documents(33)).encode()) < 200_000


def test_no_run_needs_no_table() -> None:
    assert not page("index", EMPTY)
    assert front(EMPTY).headline[0] == "There is no run in this store yet."


def test_hostile_text_stays_text() -> None:
    model = {"name": HOSTILE, "version": HOSTILE, "alias": HOSTILE}
    verdict = {
        "status": "published",
        "exit_code": 0,
        "error": HOSTILE,
        "model": model,
        "metrics": {HOSTILE: 1.0},
    }
    hostile = indexed(f"20260901-090000-{HOSTILE}-00aaff", verdict, report="javascript:x")
    documents = of(hostile, published(2, "1", None), run={"store": HOSTILE, "created": HOSTILE})
    root: Node = read(write_page("index", documents))
    assert not root.all("script", "img")
    # the other run's report is linked, the hostile address is not
    links = [link.attrs["href"] for link in root.all("a") if not link.attrs["href"].startswith("#")]
    assert links
    assert all(re.fullmatch(r"[\w.-]+/report\.html", link) for link in links)
    assert any(HOSTILE in cell.solid() for cell in root.all("td"))


def test_the_documents_are_not_changed() -> None:
    documents = index_documents(33)
    before = copy.deepcopy(documents)
    assert write_page("index", documents) == write_page("index", documents)
    assert documents == before
    assert len(entries_of(documents)) == 33
