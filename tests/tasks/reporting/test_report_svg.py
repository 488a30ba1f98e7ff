"""Plots: marks stand where the numbers say, labels stand apart, markup is whole."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.tasks.reporting import axes, charts, draw
from evenhand.tasks.reporting.row_plots import Bar, IntervalRow, RateRow, interval_plot, rate_plot, timeline

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def parse(image: str) -> ElementTree.Element:
    return ElementTree.fromstring(image)


def boxes(image: str) -> list[tuple[str, float, float, float, float]]:
    """Text, left, right, top and bottom of every label, by the estimate that placed them."""
    found = []
    for element in parse(image).iter("text"):
        classes = (element.get("class") or "").split()
        size = 11.5 if "xs" in classes else 12 if "s" in classes else 13
        text = element.text or ""
        width = draw.text_width(text, size)
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        left = {"start": x, "middle": x - width / 2, "end": x - width}[element.get("text-anchor", "start")]
        found.append((text, left, left + width, y - size * 0.75, y + size * 0.2))
    return found


def assert_apart(image: str) -> None:
    root = parse(image)
    width = float(root.get("viewBox", "").split()[2])
    labels = [box for box in boxes(image) if box[3] > 20 or root.find("g") is None]
    for text, left, right, _, _ in labels:
        assert left >= -1, text
        assert right <= width + 1, text
    for (a, l1, r1, t1, b1), (b, l2, r2, t2, b2) in combinations(labels, 2):
        assert not (l1 < r2 and l2 < r1 and t1 < b2 and t2 < b1), (a, b)


@given(FINITE, FINITE, st.integers(2, 9))
def test_ticks_cover_rise_and_are_few(a: float, b: float, most: int) -> None:
    low, high = min(a, b), max(a, b)
    marks = draw.ticks(low, high, most)
    slack = 1e-6 * max(abs(low), abs(high), 1e-3)
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    assert 2 <= len(marks) <= most + 2
    assert all(after > before for before, after in zip(marks, marks[1:], strict=False))


def test_ticks_by_hand() -> None:
    assert draw.ticks(0.03, 0.39, 6) == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert draw.ticks(0.8, 1.0, 6) == [0.8, 0.85, 0.9, 0.95, 1.0]
    assert draw.ticks(2.0, 2.0) == [1.9, 1.95, 2.0, 2.05, 2.1]
    assert [draw.tick_label(v, [0.0, 0.05]) for v in (0.0, 0.05, -0.1)] == ["0.00", "0.05", "\u22120.10"]


@given(st.text(max_size=80), st.floats(20, 300))
def test_shortened_text_fits(text: str, width: float) -> None:
    short = draw.shorten(text, width, 13)
    assert draw.text_width(short, 13) <= max(width, draw.text_width("…", 13)) + 1e-6
    if draw.text_width(text, 13) <= width:
        assert short == text


ROWS = [
    IntervalRow("Balanced accuracy", "", 0.9, 0.85, 0.95, paper=(0.8, 0.05), limits=(("min", 0.7),)),
    IntervalRow(
        "A label that is much too long for the room that a row of a plot has", "by sex", 0.7, None, None
    ),
    IntervalRow("Gap", "by a & <b>", None),
]


@pytest.mark.parametrize("compact", [False, True])
def test_interval_plot_puts_marks_to_scale(compact: bool) -> None:
    image = interval_plot(ROWS, uid="u", title="T", description="D", ceiling=1.0, compact=compact)
    root = parse(image)
    first, second = [c for c in root.findall("circle") if c.get("class") == "dot"]
    # The gate's limit stands at 0.7 as the second dot does, and the paper's mean halfway to 0.9.
    limit = [line for line in root.findall("line") if line.get("class") == "limit"]
    assert limit[0].get("x1") == second.get("cx")
    (whisker,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "whisker"]
    left, right = [float(v) for v in re.findall(r"M(\S+) \S+L", whisker)][::2]
    centre = float(first.get("cx", 0))
    assert left < centre < right
    assert centre - left == pytest.approx(right - centre, abs=0.2)
    band = [r for r in root.findall("rect") if r.get("class") == "band"][0]
    per_unit = (centre - float(second.get("cx", 0))) / 0.2
    assert float(band.get("width", 0)) == pytest.approx(0.1 * per_unit, abs=0.2)
    texts = [t.text for t in root.iter("text")]
    assert "not enough evidence" in texts
    assert "by a & <b>" in texts
    assert_apart(image)


def test_a_row_without_evidence_has_no_mark() -> None:
    root = parse(interval_plot([IntervalRow("Gap", "", None)], uid="u", title="T", description="D"))
    assert [c for c in root.findall("circle") if c.get("class") == "dot"] == []
    assert [p for p in root.findall("path") if p.get("class") == "whisker"] == []


@pytest.mark.parametrize("compact", [False, True])
def test_rate_plot_shades_the_span_between_groups(compact: bool) -> None:
    rows = [RateRow("a", 0.25, 0.2, 0.3), RateRow("b" * 90, 0.75, 0.7, 0.8), RateRow("c", None)]
    image = rate_plot([("Rate", "50.0 apart", rows)], uid="u", title="T", description="D", compact=compact)
    root = parse(image)
    a, b = [float(c.get("cx", 0)) for c in root.findall("circle")]
    spans = [r for r in root.findall("rect") if r.get("class") == "span"]
    for span in spans:
        assert float(span.get("x", 0)) == a
        assert float(span.get("width", 0)) == pytest.approx(b - a, abs=0.11)
    marks = [t for t in root.iter("text") if t.text in {"25%", "75%"}]
    assert [float(t.get("x", 0)) for t in marks] == pytest.approx([a, b], abs=0.11)
    assert "too few rows" in [t.text for t in root.iter("text")]
    assert_apart(image)


def test_distribution_steps_have_the_heights_of_the_shares() -> None:
    image = charts.distribution(
        [0, 0.5, 1], [0.25, 0.75], [0.5, 0.5], 0.75, uid="u", title="T", description="D"
    )
    root = parse(image)
    (outline,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "outline"]
    ground, low, high = _levels(outline)
    assert (ground - high) == pytest.approx(3 * (ground - low), abs=0.3)
    assert_apart(image)


def _levels(path: str) -> tuple[float, float, float]:
    first, second, ground = [float(level) for level in re.findall(r"V([\d.]+)", path)]
    return ground, first, second


@pytest.mark.parametrize("compact", [False, True])
def test_curves_break_at_gaps_and_their_names_stand_apart(compact: bool) -> None:
    series = [
        ("first", [1.0, None, 0.5, 0.5]),
        ("second", [1.0, 0.9, 0.8, 0.5]),
        ("third", [0.2, 0.2, 0.2, 0.5001]),
        ("fourth " * 12, [0.3, 0.2, 0.2, 0.2]),
    ]
    image = charts.line_plot([1, 2, 3, 4], series, uid="u", title="T", description="D", compact=compact)
    paths = [p.get("d", "") for p in parse(image).findall("path") if "curve" in p.get("class", "")]
    assert [p.count("M") for p in paths] == [2, 1, 1, 1]
    assert [p.count("L") for p in paths] == [1, 3, 3, 3]
    assert_apart(image)


@given(st.lists(st.floats(0, 200), min_size=1, max_size=8))
def test_names_at_line_ends_are_pushed_apart_inside_the_plot(wanted: list[float]) -> None:
    placed = axes.spread(wanted, 16.0, 0.0, 200.0)
    assert min(placed) >= 0
    assert max(placed) <= 200
    for (near, a), (far, b) in combinations(sorted(zip(wanted, placed, strict=True)), 2):
        assert b - a >= 16 - 1e-9 or (near == far and a - b >= 16 - 1e-9)


@pytest.mark.parametrize("compact", [False, True])
def test_timeline_lays_steps_end_to_end_and_marks_reused_ones(compact: bool) -> None:
    bars = [Bar("one", 10, False), Bar("two", 30, True), Bar("three", 0.0, False)]
    image = timeline(bars, uid="u", title="T", description="D", compact=compact)
    root = parse(image)
    one, two, three = [r for r in root.findall("rect")]
    assert float(two.get("x", 0)) == pytest.approx(
        float(one.get("x", 0)) + float(one.get("width", 0)), abs=0.11
    )
    assert float(two.get("width", 0)) == pytest.approx(3 * float(one.get("width", 0)), abs=0.3)
    assert two.get("fill") == "url(#u-h)"
    assert one.get("fill") is None
    assert float(three.get("width", 0)) == 3
    assert "30.0 s · reused" in [t.text for t in root.iter("text")]
    assert_apart(image)


def test_timeline_of_no_time() -> None:
    assert parse(timeline([Bar("a", 0.0, True)], uid="u", title="T", description="D")) is not None


def test_text_is_escaped() -> None:
    bad = '<script>alert("1")</script>&'
    for image in (
        interval_plot([IntervalRow(bad, bad, 0.5)], uid="u", title=bad, description=bad),
        rate_plot([(bad, bad, [RateRow(bad, 0.5)])], uid="u", title=bad, description=bad),
        charts.line_plot([1, 2], [(bad, [1.0, 2.0])], uid="u", title=bad, description=bad, axis=bad),
        timeline([Bar(bad, 1.0, True)], uid="u", title=bad, description=bad),
    ):
        root = parse(image)
        assert list(root.iter("script")) == []
        assert root.findtext("title") == bad
        assert root.findtext("desc") == bad
