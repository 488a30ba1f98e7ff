"""What changed since the champion: the sentence on the front page, and the section's tables."""

from __future__ import annotations

import re
from typing import Any

import pytest
from html_tree import Node, read
from report_example import example
from since_champion_example import with_champion

from evenhand.tasks.reporting.champion import champion_sentence, since_champion
from evenhand.tasks.reporting.context import parse_context
from evenhand.tasks.reporting.page import headline, render_report


def said(context: dict[str, Any]) -> str | None:
    return champion_sentence(parse_context(context))


def published(version: str) -> dict[str, Any]:
    context = with_champion()
    context["status"] = "published"
    context["gates"] = {"verdict": "passed", "results": context["gates"]["results"][:1]}
    context["model"] = {"name": "adult-budro", "version": version, "uri": "models:/adult-budro@champion"}
    return context


def section(root: Node) -> Node:
    (found,) = [node for node in root.all("section") if node.attrs.get("id") == "champion"]
    return found


def rows(table: Node) -> dict[str, list[str]]:
    return {
        (row.all("code") or row.all("th"))[0].solid(): [cell.text() for cell in row.all("td")]
        for row in table.all("tr")
        if row.all("td")
    }


def test_without_a_champion_nothing_is_said() -> None:
    assert said(example()) is None
    assert since_champion(parse_context(example())) is None
    assert "What changed since the champion" not in render_report(example())


def test_a_refused_run_names_what_was_refused_first() -> None:
    assert said(with_champion()) == (
        "Version 3 was champion before, and stays it: Same answer for copies differing in spouse was 0.952 "
        "and is now 0.944, Gap in positive answers by age is still 0.316, on the same table, with other "
        "values of boosting.eta and solver."
    )


def test_the_sentence_follows_what_the_gates_said() -> None:
    sentences = headline(parse_context(with_champion()))
    place = next(i for i, text in enumerate(sentences) if text.startswith("Version 3 was champion"))
    assert sentences[1].startswith("It is not published")
    assert sentences[place - 1].startswith("Gap in positives found by age: not enough evidence")
    assert sentences[place + 1].startswith("By age")


def test_a_published_run_took_its_place() -> None:
    sentence = said(published("4"))
    assert sentence is not None
    assert sentence.startswith("Version 3 was champion before: Balanced accuracy was 0.765 and is now 0.815,")


def test_a_run_whose_own_version_is_the_champion_says_so() -> None:
    context = published("3")
    assert said(context) == "This is the champion: version 3 was it before, from the same content."
    found = section(read(render_report(context)))
    assert "same content as version 3" in found.text()
    assert not found.all("table")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data_fingerprint": "ab" * 32}, "on new data"),
        ({"method": "gbdt"}, "by another method (gbdt before)"),
        ({"parameters": example()["job"]["parameters"]}, "with the same parameters"),
        ({"parameters": {}}, "with other values of boosting.steps, boosting.eta and 4 more"),
    ],
)
def test_data_method_and_parameters_in_words(changes: dict[str, Any], words: str) -> None:
    sentence = said(with_champion(**changes))
    assert sentence is not None
    assert words in sentence
    other_table = "data_fingerprint" in changes
    text = section(read(render_report(with_champion(**changes)))).text()
    assert ("judged on different rows" in text) == other_table


def test_a_champion_without_a_card_is_still_named() -> None:
    context = example()
    context["champion"] = {"version": 3, "uri": "models:/adult-budro/3"}
    assert said(context) == "Version 3 was champion before, and stays it; its card could not be read."
    found = section(read(render_report(context)))
    assert "nothing more can be told" in found.text()
    assert not found.all("table")


def test_the_tables_hold_both_numbers_and_the_change() -> None:
    metrics, settings = map(rows, section(read(render_report(with_champion()))).all("table"))
    assert set(metrics) == set(example()["evaluation"]["metrics"])
    # far apart: 0.765 with 0.757 to 0.774, and 0.815 with 0.807 to 0.824
    assert metrics["balanced_accuracy"] == [
        "0.765 0.757 to 0.774",
        "0.815 0.807 to 0.824",
        "+0.050 \u2713 better, intervals apart",
    ]
    assert metrics["consistency.spouse"][2] == "\u22120.008 worse, intervals overlap"
    assert metrics["gap_max.sex"][2] == "0.000 the same"
    assert metrics["equal_opportunity_difference.age"] == [
        "not enough evidence",
        "not enough evidence",
        "cannot be told",
    ]
    assert metrics["gap_rms.race"][0] == "not measured"
    assert settings == {"boosting.eta": ["0.01", "0.005"], "solver": ["not given", "dual"]}


def test_other_contract_and_seed_stand_in_the_table() -> None:
    context = with_champion(contract_version="0.9.0", seed=8, data_fingerprint="ab" * 32, method="gbdt")
    _, settings = map(rows, section(read(render_report(context))).all("table"))
    assert settings["Contract version"] == ["0.9.0", "1.0.0"]
    assert settings["Seed"] == ["8", "7"]
    assert settings["Method"] == ["gbdt", "budro"]
    assert settings["Fingerprint of the table (SHA-256)"][0] == "ab" * 32


def test_a_run_that_ended_early_compares_no_metrics() -> None:
    context = with_champion()
    context.update(status="failed", evaluation=None, gates=None, paper=None, histograms={})
    found = section(read(render_report(context)))
    assert [table.all("caption")[0].text() for table in found.all("table")] == [
        "What the two were made from, where they differ"
    ]


def test_a_champion_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=re.escape("champion.metrics.auc.value")):
        render_report(with_champion(metrics={"auc": {"value": float("nan")}}))
