"""The report of an evaluation: does it pass, is it better than the baseline, is every number in a table."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest
from evaluation_example import DIFFERENCES, alone, evaluation_context, gate
from html_tree import Node, read
from hypothesis import given
from hypothesis import strategies as st
from report_example import example, ok
from test_report_svg import assert_apart, parse

from evenhand.tasks.reporting import evaluation_words, words
from evenhand.tasks.reporting.context import GateResult, Metric, parse_context
from evenhand.tasks.reporting.context import parse as parse_as
from evenhand.tasks.reporting.difference_plot import DifferenceRow, difference_plot, signed
from evenhand.tasks.reporting.evaluation import render_evaluation
from evenhand.tasks.reporting.evaluation_context import EvaluationContext
from evenhand.tasks.reporting.page import render_report

HOSTILE = '<script>alert("1")</script>\'&"><img src=x onerror=alert(1)>'


def hostile() -> dict[str, Any]:
    context = evaluation_context(notes=[HOSTILE])
    for part in ("model", "baseline"):
        for key in ("name", "version", "uri", "method", "content"):
            context[part][key] = HOSTILE
        context[part]["contract"] = {"name": HOSTILE, "version": HOSTILE}
    context["data"]["shown"] = context["label"]["positive"] = context["run_id"] = HOSTILE
    context["seconds"] = {HOSTILE: 1.0}
    for part in ("evaluation", "baseline_evaluation"):
        context[part] = {
            **context[part],
            "metrics": {f"gap_max.{HOSTILE}": ok(0.1, 0.02)},
            "counts": {HOSTILE: [{"group": HOSTILE, "label": 1, "n": 90, "predicted_positive": 30}]},
        }
    context["comparison"]["differences"] = {f"gap_max.{HOSTILE}": ok(0.1, 0.02)}
    context["gates"]["results"] = [gate(f"gap_max.{HOSTILE}", "max", 0.01, 0.1)]
    return context


def identical() -> dict[str, Any]:
    """A baseline that answers as the model does."""
    context = evaluation_context(status="passed", notes=[])
    context["comparison"]["differences"] = {name: ok(0.0, 0.0) for name in DIFFERENCES}
    context["gates"] = {"verdict": "passed", "results": [gate("auc", "no_worse_than_baseline", 0.0, 0.0)]}
    return context


CONTEXTS = {"full": evaluation_context, "alone": alone, "hostile": hostile, "identical": identical}


def said(context: dict[str, Any]) -> list[str]:
    return evaluation_words.headline(parse_as(EvaluationContext, context))


@pytest.fixture(params=sorted(CONTEXTS))
def root(request: pytest.FixtureRequest) -> Node:
    return read(render_evaluation(CONTEXTS[request.param]()))


def test_whole_html_that_speaks_and_loads_nothing(root: Node) -> None:
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        for name in ("aria-labelledby", "href"):
            value = node.attrs.get(name) or ""
            targets = value.split() if name == "aria-labelledby" else [value[1:]] * value.startswith("#")
            assert set(targets) <= set(ids), value
        assert not any(name.startswith("on") for name in node.attrs)
    assert not root.all("script", "img", "link", "iframe")
    for table in root.all("table"):
        assert table.all("caption")
        assert all(head.attrs.get("scope") in ("row", "col") for head in table.all("th"))
        widths = {
            sum(int(cell.attrs.get("colspan") or 1) for cell in row.all("th", "td"))
            for row in table.all("tr")
        }
        assert len(widths) == 1, table.all("caption")[0].text()
    for plot in root.all("svg"):
        assert plot.attrs["role"] == "img"
        assert plot.all("title")[0].text()
        assert plot.all("desc")[0].text()


def table_of(root: Node, caption: str) -> dict[str, list[str]]:
    """Rows of a table by the code in their heads."""
    (table,) = [t for t in root.all("table") if t.all("caption")[0].text().startswith(caption)]
    return {
        (row.all("code") or row.all("th"))[0].solid(): [cell.text() for cell in row.all("td")]
        for row in table.all("tr")
        if row.all("td")
    }


def test_every_difference_stands_in_the_table_with_interval_and_what_follows() -> None:
    rows = table_of(read(render_evaluation(evaluation_context())), "All metrics")
    assert set(rows) == set(DIFFERENCES)
    assert rows["auc"] == [
        "0.902 0.895 to 0.909",
        "0.914 0.908 to 0.921",
        "\u22120.012 \u22120.018 to \u22120.0073 \u2715 worse",
    ]
    assert rows["accuracy"][2] == "+0.0061 +0.0019 to +0.010 \u2713 better"
    assert rows["gap_max.sex"][2].endswith("\u2713 better")
    assert rows["demographic_parity_difference.sex"][2].endswith("\u2715 worse")
    assert rows["balanced_accuracy"][2].endswith("no difference can be told")
    assert rows["consistency.gender_race"][2] == "0.000 0.000 to 0.000 the same"
    assert all(text.startswith("not enough evidence") for text in rows["equal_opportunity_difference.age"])


def test_without_a_baseline_nothing_is_said_of_one() -> None:
    html = render_evaluation(alone())
    assert "baseline" not in re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL).lower()
    rows = table_of(read(html), "All metrics")
    assert rows["auc"] == ["0.902 0.895 to 0.909", "higher"]


def test_gates_of_all_three_kinds() -> None:
    rows = table_of(read(render_evaluation(evaluation_context())), "Every gate")
    assert rows["balanced_accuracy"] == [
        "\u2713 Passed",
        "at least 0.800 the estimate",
        "0.815",
        "0.015 to spare",
    ]
    assert rows["auc"] == [
        "\u2715 Refused",
        "at most 0.010 worse than the baseline unfavourable end of the 95% interval",
        "0.018 worse",
        "0.0075 too much",
    ]
    assert rows["gap_max.sex"] == [
        "\u2713 Passed",
        "no worse than the baseline the estimate",
        "0.041 better",
        "0.041 to spare",
    ]
    assert rows["equal_opportunity_difference.age"][3] == "cannot be told"


def test_the_run_report_takes_the_third_kind_too() -> None:
    context = example()
    context["gates"]["results"] = [gate("auc", "no_worse_than_baseline", 0.01, 0.0175, "interval")]
    rows = table_of(read(render_report(context)), "Every gate")
    assert rows["auc"][2:] == ["0.018 worse", "0.0075 too much"]
    sentences = words.headline(parse_context(context))
    assert sentences[2] == (
        "Ranking (AUC): the unfavourable end of the 95% interval is 0.018 worse, where at most 0.010 worse "
        "than the baseline was asked: 0.0075 too much."
    )


def test_the_front_page_answers_in_words() -> None:
    sentences = said(evaluation_context())
    assert sentences[0] == (
        "Version 4 of adult-budro, gradient-boosted trees held against a fair-distance adversary (BuDRO), "
        "was judged on 9,045 rows of /data/census/2026-q4.parquet, beside the baseline version 3 of "
        "adult-budro; 12 rows that break the data contract were set aside."
    )
    assert sentences[1] == "It does not pass: 1 of 4 gates refused it."
    assert "Note: the model learned from rows of this very table." in sentences
    assert sum(text.startswith("By ") for text in sentences) == 3
    (better,) = [text for text in sentences if text.startswith("Better than the baseline: ")]
    assert "Accuracy, by 0.0061 (95% interval 0.0019 to 0.010)" in better
    assert "Largest gap in right answers by sex, by 0.041 (0.025 to 0.057)" in better
    assert better.endswith("; and 2 more measures.")
    (worse,) = [text for text in sentences if text.startswith("Worse than the baseline: ")]
    assert "Ranking (AUC), by 0.012" in worse
    assert "Balanced accuracy" not in better + worse
    # six intervals hold 0, one measure is the same in both
    assert "In 7 other measures no difference can be told." in sentences
    assert "In 1 measure there is not enough evidence to compare the two." in sentences


@pytest.mark.parametrize(
    ("changes", "second"),
    [
        ({"status": "no_gates", "gates": None}, "No gate was set; the model was not held to any limit."),
        (
            {
                "status": "passed",
                "gates": {"verdict": "passed", "results": [gate("auc", "min", 0.5, 0.9)]},
            },
            "It passes its one gate.",
        ),
        (
            {
                "status": "insufficient_evidence",
                "gates": {"verdict": "insufficient_evidence", "results": [gate("auc", "min", 0.5, None)]},
            },
            "It does not pass: there is not enough evidence to decide.",
        ),
    ],
)
def test_the_second_sentence_says_whether_it_passes(changes: dict[str, Any], second: str) -> None:
    context = evaluation_context(**changes)
    assert said(context)[1] == second
    badge = read(render_evaluation(context)).all("p")[1]
    assert (badge.attrs["class"] or "").split()[1] == changes["status"]


def test_no_difference_is_claimed_where_none_can_be_told() -> None:
    context = evaluation_context()
    context["comparison"]["differences"] = {name: ok(0.01, 0.02) for name in ("auc", "gap_max.sex")}
    sentences = said(context)
    assert "No difference from the baseline can be told in any measure." in sentences
    assert not any(text.startswith(("Better", "Worse")) for text in sentences)
    assert "The model and the baseline have the same numbers in every measure." in said(identical())
    context["comparison"] = None
    assert "The model and the baseline were not compared." in said(context)


@given(st.sampled_from(["auc", "gap_max.sex"]), st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_findings_turn_round_with_the_sign(name: str, value: float, below: float, above: float) -> None:
    found = evaluation_words.finding(name, Metric(value=value, low=value - below, high=value + above))
    swapped = evaluation_words.finding(name, Metric(value=-value, low=-value - above, high=-value + below))
    turned = {"better": "worse", "worse": "better"}
    assert swapped == turned.get(found, found)
    outside = value - below > 0 or value + above < 0
    assert (found in turned) == outside
    if outside:
        assert (found == "better") == ((value > 0) == (name == "auc"))


def test_differences_of_unknown_metrics_have_no_side() -> None:
    known = Metric(value=0.1, low=0.05, high=0.2)
    assert evaluation_words.finding("made_up", known) == "other"
    assert evaluation_words.finding("auc", Metric(value=0.1)) == "unclear"
    assert evaluation_words.finding("auc", Metric(status="insufficient_evidence")) == "lacking"


@given(st.floats(-0.2, 0.2), st.floats(0, 0.2), st.sampled_from(["min", "max", "no_worse_than_baseline"]))
def test_margin_and_verdict_agree(value: float, limit: float, kind: str) -> None:
    result = GateResult.model_validate(gate("auc", kind, limit, value))
    margin = words.margin(result)
    assert margin is not None
    assert (margin >= 0) == result.passed
    assert math.isclose(max(-margin, 0.0), result.shortfall or 0.0, abs_tol=1e-12)
    sentence = words.gate_sentence(result)
    assert ("too" in sentence) == (not result.passed)
    if kind == "no_worse_than_baseline" and value:
        assert ("worse, where" in sentence) == (value > 0)


ROWS = [
    DifferenceRow("Accuracy", "", 0.02, 0.01, 0.03, True),
    DifferenceRow("Same answer for copies", "differing in spouse", -0.01, -0.03, 0.01),
    DifferenceRow("Ranking (AUC)", "", None),
    DifferenceRow("Balanced accuracy", "", 0.0, 0.0, 0.0, True, limit=("min", -0.02)),
]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("better", ["higher", "lower", None])
def test_the_plot_shades_the_better_side_and_keeps_its_texts_apart(better: Any, compact: bool) -> None:
    svg = difference_plot(ROWS, uid="d", title="t", description="d", better=better, compact=compact)
    root = parse(svg)
    assert_apart(svg)
    lines = [e for e in root.iter() if e.get("class") == "limit zero"]
    zero = float(re.findall(r"M([\d.]+) ", lines[0].get("d") or "")[0])
    shades = [e for e in root.iter() if e.get("class") == "span"]
    assert bool(shades) == (better is not None)
    for shade in shades:
        left, width = float(shade.get("x") or 0), float(shade.get("width") or 0)
        assert width > 10
        assert left == zero if better == "higher" else left + width == zero
    dots = [e for e in root.iter() if (e.get("class") or "").startswith("dot") and e.get("cy") != "0"]
    places = [float(dot.get("cx") or 0) for dot in dots]
    assert [p > zero for p in places] == [True, False, False]
    assert [dot.get("class") for dot in dots] == ["dot", "dot open", "dot"]


def test_signs() -> None:
    assert [signed(v) for v in (0.5, -0.5, 0.0, None)] == ["+0.500", "\u22120.500", "0.000", "not available"]


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("status",), "published", "status"),
        (("model", "contract"), None, "model.contract"),
        (("data", "rows"), -1, "data.rows"),
        (("evaluation",), None, "evaluation"),
        (("seconds",), {"a": float("nan")}, "seconds.a"),
        (("baseline",), None, "need the baseline"),
        (("surprise",), 1, "surprise"),
    ],
)
def test_a_context_that_does_not_fit_is_refused_in_one_line(
    path: tuple[str, ...], value: Any, named: str
) -> None:
    context: Any = copy.deepcopy(evaluation_context())
    place = context
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=re.escape(named)) as caught:
        render_evaluation(context)
    assert "\n" not in str(caught.value)


def test_same_context_same_page_and_context_left_alone() -> None:
    context = evaluation_context()
    before = copy.deepcopy(context)
    assert render_evaluation(context) == render_evaluation(context)
    assert context == before


def test_hostile_text_stays_text() -> None:
    root = read(render_evaluation(hostile()))
    assert not root.all("script", "img")
    assert root.all("h1")[0].solid() == f"{HOSTILE}, evaluated"
