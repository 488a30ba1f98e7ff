"""What may come in: contexts, sections' markup, numbers, links."""

from __future__ import annotations

from typing import Any

import pytest
from report_example import example

from evenhand.tasks.reporting import formats, markup
from evenhand.tasks.reporting.context import parse_context
from evenhand.tasks.reporting.page import render_report
from evenhand.tasks.reporting.row_plots import Bar, timeline


def broken(path: str, value: Any) -> dict[str, Any]:
    context: Any = example()
    *way, last = path.split("/")
    spot = context
    for key in way:
        spot = spot[int(key)] if isinstance(spot, list) else spot[key]
    spot[int(last) if isinstance(spot, list) else last] = value
    return context


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("status", "fine", "status"),
        ("surplus", 1, "surplus"),
        ("table/rows", -1, "table.rows"),
        ("evaluation/metrics/auc/value", float("nan"), "evaluation.metrics.auc.value"),
        ("evaluation/counts/sex/0/predicted_positive", 10**6, "evaluation.counts.sex.0"),
        ("evaluation/counts/sex/0/label", 2, "evaluation.counts.sex.0.label"),
        ("gates/results/0/kind", "near", "gates.results.0.kind"),
        ("histograms/sex/edges", [0, 1, 1], "histograms.sex"),
        ("training/series/loss", [1.0], "training"),
        ("sections/0/table/columns", ["one"], "sections.0.table"),
        ("steps/0/seconds", -1, "steps.0.seconds"),
    ],
)
def test_a_wrong_context_is_refused_in_one_line(path: str, value: Any, place: str) -> None:
    with pytest.raises(ValueError, match=f"^report context, {place.replace('.', chr(92) + '.')}: ") as caught:
        render_report(broken(path, value))
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named() -> None:
    context = example()
    del context["run_id"]
    with pytest.raises(ValueError, match="run_id: Field required"):
        parse_context(context)


def test_group_names_stay_out_of_messages() -> None:
    context = example()
    context["histograms"]["sex"]["groups"]["Martian"] = ["many"]
    with pytest.raises(ValueError, match="histograms") as caught:
        parse_context(context)
    assert "Martian" not in str(caught.value)


def test_an_evaluation_is_taken_as_the_science_writes_it() -> None:
    import numpy as np

    from evenhand.fairlib.evaluation.evaluate import evaluate
    from evenhand.fairlib.evaluation.gates import decide, parse_gates
    from evenhand.fairlib.evaluation.outcomes import Outcomes, score_histograms

    rng = np.random.default_rng(3)
    score = rng.random(400)
    y_true = (rng.random(400) < score).astype(np.int64)
    sensitive = {"sex": np.where(rng.random(400) < 0.4, "x", "y"), "rare": np.array(["p"] * 398 + ["q"] * 2)}
    outcomes = Outcomes(y_true, (score > 0.5).astype(np.int64), score, sensitive, {"all": score > 0.1})
    found = evaluate(outcomes, draws=50, seed=1, level=0.9)
    decision = decide(found, parse_gates({"accuracy": {"min": 0.99}, "gap_max.rare": {"max": 0.5}}))
    context = example()
    context.update(
        evaluation=found.to_json(),
        gates=decision.to_json(),
        histograms=score_histograms(outcomes),
        paper=None,
    )
    html = render_report(context)
    assert formats.number(found.metrics["accuracy"].value) in html
    assert "90% interval" in html
    assert "95%" not in html
    assert "Not shown, because there are too few rows: q." in html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain & <b>bold</b>", "plain &amp; <b>bold</b>"),
        ("<b>open", "<b>open</b>"),
        ("<b><i>x</b></i>", "<b><i>x</i></b>"),
        ("a<br/>b", "a<br>b"),
        ("<b onclick='x()'>x</b>", "<b>x</b>"),
        ("shut</b></i>", "shut"),
        ("<!-- x -->y", "y"),
        ("1 < 2 &amp; 3 &lt; 4", "1 &lt; 2 &amp; 3 &lt; 4"),
    ],
)
def test_paragraphs_keep_plain_inline_markup(text: str, expected: str) -> None:
    assert markup.paragraph(text) == expected


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "<img src=x onerror=y>", "<a href='javascript:x'>y</a>", "<svg/onload=x>"],
)
def test_paragraphs_show_other_markup_as_text(text: str) -> None:
    shown = markup.paragraph(text)
    assert "<" not in shown
    assert "&lt;" in shown


def test_own_drawings_get_through() -> None:
    image = timeline([Bar("a", 1.0, True)], uid="u", title="T", description="D")
    assert markup.drawing(image) == image


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        ("<svg role='img'><title>t</title><script>x</script></svg>", "<script>"),
        ("<svg role='img' onload='x'><title>t</title></svg>", "onload"),
        ("<svg role='img'><title>t</title><a href='x'/></svg>", "<a>"),
        ("<svg role='img'><title>t</title><rect href='x'/></svg>", "href"),
        ("<svg role='img'><title>t</title><rect fill='url(http://x)'/></svg>", "fill"),
        ("<svg role='img'><title>t</title><foreignObject/></svg>", "foreignObject"),
        ("<svg role='img'></svg>", "title"),
        ("<svg><title>t</title></svg>", "role"),
        ("<svg role='img'><title>t</svg>", "well-formed"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><svg role='img'><title>&a;</title></svg>", "declaration"),
        ("<div/>", "role"),
    ],
)
def test_drawings_that_do_more_are_refused(svg: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        markup.drawing(svg)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not available"),
        (0, "0.000"),
        (1, "1.000"),
        (0.12345, "0.123"),
        (-0.5, "\u22120.500"),
        (0.00713, "0.00713"),
        (0.0000123, "1.23e-05"),
        (1234.5, "1,234"),
        (3.2e12, "3.2e+12"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert formats.number(value) == text


def test_times_and_lists() -> None:
    assert formats.moment("2026-11-20T19:42:10+00:00") == "20 November 2026, 19:42 UTC"
    assert formats.moment("2026-01-02T00:30:00+02:00") == "1 January 2026, 22:30 UTC"
    assert formats.moment("2026-01-02T00:30:00") == "2 January 2026, 00:30"
    assert formats.moment("soon") == "soon"
    assert [formats.seconds(s) for s in (0, 0.04, 59.94, 119.4, 119.6, 3601, 7300)] == [
        "0.00 s",
        "0.04 s",
        "59.9 s",
        "119.4 s",
        "2 min 00 s",
        "60 min 01 s",
        "2 h 01 min",
    ]
    assert formats.join(["a"]) == "a"
    assert formats.join(["a", "b", "c"]) == "a, b and c"
    assert formats.join([]) == ""
    assert formats.flatten({"a": {"b": 1, "c": [1, 0.5]}, "d": None, "e": True, "f": {}}) == [
        ("a.b", "1"),
        ("a.c", "1, 0.5"),
        ("d", "none"),
        ("e", "yes"),
        ("f", "none"),
    ]


def test_two_numbers_are_told_apart() -> None:
    assert formats.apart(0.9498, 0.95) == ("0.9498", "0.9500")
    assert formats.apart(0.95, 0.95) == ("0.950", "0.950")
    assert formats.apart(None, 0.95) == ("not available", "0.950")


def test_long_names_may_break_and_stay_escaped() -> None:
    assert formats.breakable("a_b.c&<d>") == "a_<wbr>b.<wbr>c&amp;<wbr>&lt;d&gt;"
