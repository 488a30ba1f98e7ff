"""The index of a store's runs: every run has a row, and says what came of it in words."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from html_tree import Node, read
from index_example import JOBS, RUNS, index_context, verdict_of

from evenhand.tasks.reporting.index import render_index

HOSTILE = '<script>alert("1")</script>\'&"><img src=x onerror=alert(1)>'


def table(root: Node, caption: str) -> Node:
    (found,) = [t for t in root.all("table") if t.all("caption")[0].text().startswith(caption)]
    return found


def rows(root: Node) -> list[Node]:
    return [row for row in table(root, "Every run").all("tr") if row.all("td")]


def one(suffix: str, status: str, code: int, **more: Any) -> list[str]:
    """Texts of the cells of a store's only run."""
    verdict = {"run_id": "x", "status": status, "exit_code": code, **more}
    run_id = f"20260901-090000-adult-gbdt{suffix}-00aaff"
    runs = [{"run_id": run_id, "verdict": verdict, "report": f"{run_id}/report.html"}]
    (row,) = rows(read(render_index({**index_context(2), "runs": runs})))
    return [cell.text() for cell in row.all("th", "td")]


def test_whole_html_that_speaks_and_loads_nothing() -> None:
    html = render_index(index_context())
    root = read(html)
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        for name in ("aria-labelledby", "href"):
            value = node.attrs.get(name) or ""
            targets = value.split() if name == "aria-labelledby" else [value[1:]] * value.startswith("#")
            assert set(targets) <= set(ids), value
    assert not root.all("script", "img", "link", "iframe", "form")
    assert "http" not in html.replace("http-equiv", "")
    for found in root.all("table"):
        widths = {
            sum(int(cell.attrs.get("colspan") or 1) for cell in row.all("th", "td"))
            for row in found.all("tr")
        }
        assert len(widths) == 1
    assert all(label.all("input") for label in root.all("label"))
    assert all(part.all("legend") for part in root.all("fieldset"))


def test_every_run_has_one_row_newest_first_with_a_link_beside_the_page() -> None:
    context = index_context(200)
    found = rows(read(render_index(context)))
    assert len(found) == 200
    times = [(row.all("time")[0].attrs["datetime"] or "") for row in found]
    assert times == sorted(times, reverse=True)
    linked = {link.attrs["href"] for row in found for link in row.all("a")}
    assert linked == {run["report"] for run in context["runs"] if run["report"]}


@pytest.mark.parametrize(
    ("suffix", "status", "code", "name", "words"),
    [
        ("", "published", 0, "adult-gbdt run", "\u2713 Published"),
        ("", "gated", 1, "adult-gbdt run", "\u2715 Refused by a gate"),
        ("", "gated", 3, "adult-gbdt run", "? Not enough evidence"),
        ("", "up_to_date", 0, "adult-gbdt run", "\u2713 Up to date: nothing to do"),
        ("", "failed", 4, "adult-gbdt run", "! Failed"),
        ("-sweep", "evaluated", 0, "adult-gbdt sweep", "\u2713 All runs finished"),
        ("-sweep", "evaluated", 1, "adult-gbdt sweep", "\u2715 No value is good enough"),
        ("-sweep", "evaluated", 4, "adult-gbdt sweep", "! Some runs failed"),
        ("-sweep", "failed", 4, "adult-gbdt sweep", "! Failed"),
        ("-filter", "filtered", 0, "adult-gbdt filter", "\u2713 Filtered"),
        ("-filter", "filtered", 2, "adult-gbdt filter", "! Some files failed"),
        ("-evaluate", "evaluated", 0, "adult-gbdt evaluation", "\u2713 Judged without gates"),
        ("-evaluate", "evaluated", 1, "adult-gbdt evaluation", "\u2715 Refused by a gate"),
        ("-evaluate", "evaluated", 3, "adult-gbdt evaluation", "? Not enough evidence"),
        ("-monitor", "monitored", 0, "adult-gbdt monitor", "\u2713 Within its limits"),
        ("-monitor", "monitored", 1, "adult-gbdt monitor", "\u2715 Refused: drift"),
        # a job may be named as if it were another kind of run
        ("-filter", "published", 0, "adult-gbdt-filter run", "\u2713 Published"),
    ],
)
def test_kind_and_verdict_in_words(suffix: str, status: str, code: int, name: str, words: str) -> None:
    when, job, verdict, *_ = one(suffix, status, code)
    assert when == "1 September 2026, 09:00 UTC"
    assert job == name
    assert verdict == words


def test_leading_numbers_are_few_and_start_with_what_is_gated() -> None:
    _, verdict = verdict_of(0, "adult-budro")
    shown = one("", "published", 0, metrics=verdict["metrics"], gates=verdict["gates"])[3]
    assert shown == (
        "Largest gap in right answers by sex 0.157 Balanced accuracy 0.812 "
        "Same answer for copies differing in spouse 0.944"
    )
    filtered = one("-filter", "filtered", 0, metrics={"rows_in": 1e5, "rows_out": 48021.0, "kept": 0.48021})
    assert filtered[3] == "Share kept 48.0% Rows kept 48,021 Rows read 100,000"
    assert one("", "gated", 3, metrics={"auc": None})[3] == "none"


def test_version_time_and_error_are_told() -> None:
    model = {"name": "adult", "version": "7", "alias": "champion", "uri": "models:/adult@champion"}
    cells = one("", "published", 0, model=model, seconds={"train": 100.0, "gate": 30.0})
    assert cells[1] == "adult-gbdt run, version 7 of adult"
    assert cells[4] == "2 min 10 s"
    assert one("", "failed", 2, error="the table has no column 'x'")[2].endswith(
        "the table has no column 'x'"
    )


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        [],
        "text",
        {"status": "published"},
        {"status": "published", "exit_code": 0, "metrics": {"a": "b"}},
    ],
)
def test_what_is_no_verdict_is_listed_as_damaged(verdict: Any) -> None:
    runs = [{"run_id": "20260901-090000-adult-gbdt-00aaff", "verdict": verdict}]
    root = read(render_index({**index_context(2), "runs": runs}))
    (row,) = rows(root)
    assert row.attrs["data-outcome"] == "unknown"
    assert "Damaged verdict" in row.text()
    assert "no report" in row.text()
    assert "1 left no verdict that can be read." in root.text()


def test_missing_verdicts_and_odd_names_are_listed() -> None:
    runs = [
        {"run_id": "20260901-090000-adult-gbdt-00aaff", "damage": "missing"},
        {"run_id": "my-own-name", "verdict": {"status": "gated", "exit_code": 1}},
        {
            "run_id": "another",
            "verdict": {"status": "gated", "exit_code": 1},
            "modified": "2026-09-02T08:00:00+00:00",
        },
        {"run_id": "20269999-999999-adult-gbdt-00aaff", "verdict": {"status": "gated", "exit_code": 1}},
    ]
    found = rows(read(render_index({**index_context(2), "runs": runs})))
    heads = [row.all("th")[0].text() for row in found]
    assert heads[:2] == ["2 September 2026, 08:00 UTC no report", "1 September 2026, 09:00 UTC no report"]
    assert sorted(heads[2:]) == ["20269999-999999-adult-gbdt-00aaff no report", "my-own-name no report"]
    assert "No verdict it still runs" in found[1].text()


def has_alias(run: dict[str, Any]) -> bool:
    return bool(run["verdict"] and (run["verdict"].get("model") or {}).get("alias"))


def test_the_front_counts_and_names_champions() -> None:
    context = index_context(33)
    root = read(render_index(context))
    sentences = [li.text() for li in root.all("ul")[0].all("li")]
    assert sentences[0] == "33 runs of 3 jobs and models, the newest on 13 September 2026, 00:00 UTC."
    assert sentences[1] == (
        "14 did what was asked, 11 were refused, 3 lacked evidence, 3 failed and "
        "2 left no verdict that can be read."
    )
    (where,) = root.all("dl")
    assert [term.text() for term in where.all("dt")] == sorted(JOBS)
    for name, told in zip(sorted(JOBS), where.all("dd"), strict=True):
        newest = max(
            (run for run in context["runs"] if run["run_id"][16:].startswith(f"{name}-") and has_alias(run)),
            key=lambda run: run["run_id"],
        )
        assert told.text().startswith(f"version {newest['verdict']['model']['version']} is champion")
        assert told.all("a")[0].attrs["href"] == newest["report"]


def test_every_alias_of_a_model_is_told() -> None:
    runs = []
    for day, (version, alias) in enumerate([("1", "champion"), ("2", "challenger"), ("3", "challenger")], 1):
        model = {"name": "adult", "version": version, "alias": alias}
        verdict = {"status": "published", "exit_code": 0, "model": model}
        runs.append({"run_id": f"2026090{day}-090000-adult-00aaff", "verdict": verdict})
    (where,) = read(render_index({**index_context(2), "runs": runs})).all("dl")
    told = [item.text().partition(",")[0] for item in where.all("dd")]
    assert told == ["version 3 is challenger", "version 1 is champion"]


def test_an_evaluation_makes_no_champion() -> None:
    model = {"name": "adult", "version": "7", "alias": "champion"}
    verdict = {"status": "evaluated", "exit_code": 0, "model": model}
    runs = [{"run_id": "20260901-090000-adult-evaluate-00aaff", "verdict": verdict}]
    assert not read(render_index({**index_context(2), "runs": runs})).all("dl")


def test_jobs_are_counted_by_what_came_of_their_runs() -> None:
    found = table(read(render_index(index_context(33))), "Jobs and models")
    counts = {
        row.all("th")[0].solid(): [int(c.text()) for c in row.all("td")[:6]] for row in found.all("tr")[1:]
    }
    assert set(counts) == set(JOBS)
    assert all(runs == sum(rest) == 11 for runs, *rest in counts.values())


def test_every_choice_has_its_rule_and_rows() -> None:
    html = render_index(index_context(33))
    root = read(html)
    for name in ("outcome", "kind", "job"):
        choices = [n for n in root.all("input") if n.attrs["name"] == name]
        assert [n for n in choices if "checked" in n.attrs] == choices[:1]
        values = [re.sub(r"^\w+-", "", n.attrs["id"] or "") for n in choices[1:]]
        assert {row.attrs[f"data-{name}"] for row in rows(root)} == set(values)
        for value in values:
            assert f'#{name}-{value}:checked) tr[data-{name}]:not([data-{name}="{value}"])' in html


def test_one_job_needs_no_choices_and_no_run_no_table() -> None:
    context = index_context(2)
    _, verdict = verdict_of(0, "adult-budro")
    context["runs"] = [{"run_id": "20260901-090000-a-00aaff", "verdict": verdict}]
    assert not read(render_index(context)).all("input")
    context["runs"] = []
    root = read(render_index(context))
    assert not root.all("table")
    assert "There is no run in this store yet." in root.text()


def test_hostile_text_stays_text() -> None:
    model = {"name": HOSTILE, "version": HOSTILE, "alias": HOSTILE}
    verdict = {
        "status": "published",
        "exit_code": 0,
        "error": HOSTILE,
        "model": model,
        "metrics": {HOSTILE: 1.0},
    }
    runs = [{"run_id": f"20260901-090000-{HOSTILE}-00aaff", "verdict": verdict, "report": "javascript:x"}]
    root = read(render_index({"store": HOSTILE, "created": HOSTILE, "runs": runs}))
    assert not root.all("script", "img")
    assert not any((link.attrs["href"] or "").startswith("java") for link in root.all("a"))
    assert HOSTILE in root.all("td")[0].solid()


def test_small_and_the_same_for_the_same_context() -> None:
    context = index_context(200)
    before = copy.deepcopy(context)
    html = render_index(context)
    assert html == render_index(context)
    assert context == before
    assert len(html.encode()) < 400_000
    assert len(RUNS) == 11


def test_a_context_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=re.escape("runs.0.damage")):
        render_index({**index_context(2), "runs": [{"run_id": "a", "damage": "lost"}]})
