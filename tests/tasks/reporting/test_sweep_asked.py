"""What is asked, in the report of a sweep: curves against gamma, the front, shares feature by feature."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from asked_example import acquisition_example
from html_tree import Node, read
from hypothesis import given
from hypothesis import strategies as st
from test_report_svg import assert_apart, boxes, parse

from evenhand.flows.grid import PointResult, make_grid
from evenhand.flows.tradeoffs import tradeoffs
from evenhand.tasks.reporting.sweep import render_sweep
from evenhand.tasks.reporting.sweep_asked import asked_part
from evenhand.tasks.reporting.sweep_asked_plots import curve_plot, share_map
from evenhand.tasks.reporting.sweep_plots import Estimate, Mark, tradeoff_plot

HOSTILE = '<script>alert("1")</script>&'
GAP = "demographic_parity_difference.group"
GAMMAS = "method.gamma=0.9,0.1,0.5"


def outcome(gamma: float, seed: int, *, gap: bool = True) -> PointResult:
    """Ranking, gap and what is asked rise with gamma; the second seed has a little more of each."""
    acquisition = acquisition_example()
    acquisition["gamma"] = gamma
    for group in acquisition["groups"]:
        group["share"] = round(group["share"] * gamma, 6) + seed / 50
    acquisition["asked"] |= {"mean": 4 * gamma + seed, "low": 4 * gamma - 0.25, "high": 4 * gamma + 0.25}
    acquisition["full_information"] = {"auc": 0.7 + seed / 50, GAP: 0.3 if gap else None}
    found = {
        "auc": 0.6 + gamma / 10 + seed / 100,
        "balanced_accuracy": 0.55 + gamma / 10,
        GAP: 0.2 * gamma + seed / 100,
        "features_asked": 4 * gamma + seed,
    }
    metrics: dict[str, dict[str, float | None]] = {
        name: {"value": value, "low": value - 0.02, "high": value + 0.02} for name, value in found.items()
    }
    if not gap:
        metrics[GAP] = {"value": None, "low": None, "high": None}
    return PointResult("done", "passed", metrics, {"train": 1.0}, [], acquisition=acquisition)


def example(*over: str, seeds: int = 1, gap: bool = True) -> dict[str, Any]:
    grid = make_grid("loans-dadi", over or [GAMMAS], seeds=seeds)
    results = [outcome(point.resolved.arguments["gamma"], point.seed, gap=gap) for point in grid.points]
    return {"run_id": "sweep-1", "seconds": 12.5} | tradeoffs(grid, results)


def page(document: dict[str, Any]) -> Node:
    return read(render_sweep(document, created="2026-05-03", made=[], files=[]))


def section(root: Node) -> Node:
    (found,) = [node for node in root.all("section") if node.attrs.get("id") == "asked"]
    return found


def titles(root: Node) -> list[str]:
    return [plot.all("title")[0].text() for plot in section(root).all("svg")]


AGAINST = [
    "Ranking (AUC) against gamma",
    "Gap in positive answers by group against gamma",
    "Features asked against gamma",
]
FRONT = "Ranking (AUC) against Gap in positive answers by group"
MAP = "Share of people asked, by feature and value"
BY_CRITERION = ("method.gamma=0.1,0.9", "method.criterion=demographic_parity,equal_opportunity")


@pytest.mark.parametrize("over", [(), BY_CRITERION, ("method.memory_size=4,8",), ("method.gamma=0.5",)])
def test_ids_are_unique_and_every_plot_speaks(over: tuple[str, ...]) -> None:
    root = page(example(*over))
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    assert {"asked"} <= {(node.attrs.get("href") or "")[1:] for node in root.all("a")} & set(ids)
    assert not re.search(r"\b(nan|None|inf)\b", root.text())
    for plot in section(root).all("svg"):
        assert plot.all("desc")[0].text()
    for table in section(root).all("table"):
        assert len({len(row.all("th", "td")) for row in table.all("tr")}) == 1


def test_other_sweeps_have_no_such_section() -> None:
    grid = make_grid("loans-gbdt", ["method.eta=0.1,0.2"])
    metrics: dict[str, dict[str, float | None]] = {"auc": {"value": 0.5, "low": None, "high": None}}
    document = tradeoffs(grid, [PointResult("done", "passed", metrics) for _ in grid.points])
    assert asked_part(document) is None
    root = page(document | {"run_id": "r", "seconds": 1.0})
    assert "asked" not in {node.attrs.get("id") for node in root.walk()}


@pytest.mark.parametrize(
    ("over", "curves"),
    [((), True), (BY_CRITERION, True), (("method.memory_size=4,8",), False), (("method.gamma=0.5",), False)],
)
def test_curves_are_drawn_where_gamma_is_swept(over: tuple[str, ...], curves: bool) -> None:
    root = page(example(*over))
    assert titles(root) == [*(AGAINST if curves else []), FRONT, MAP, MAP]
    assert ("Gamma weighs" in section(root).text()) == curves


def test_every_number_stands_in_the_table_with_all_features_last() -> None:
    part = asked_part(example())
    assert part is not None
    rows = {row["name"]: row for row in part["front"]}
    assert list(rows) == ["0.9", "0.1", "0.5", "All features"]
    # one seed: the intervals are the run's own
    assert rows["0.5"]["cells"] == [
        ("0.650", "0.630 to 0.670"),
        ("0.100", "0.080 to 0.120"),
        ("2.000", "1.750 to 2.250"),
    ]
    assert rows["All features"]["cells"] == [("0.700", ""), ("0.300", ""), ("6.000", "")]
    assert part["rows"][0] == {"name": "X1", "cells": ["89.1%", "9.9%", "49.5%"]}
    assert part["heads"] == ["0.9", "0.1", "0.5"]
    text = section(page(example())).text()
    for number in ("0.630 to 0.670", "1.750 to 2.250", "49.5%"):
        assert number in text


def test_seeds_give_means_and_students_interval_by_hand() -> None:
    part = asked_part(example(seeds=2))
    assert part is not None
    rows = {row["name"]: row["cells"] for row in part["front"]}
    # two numbers one apart: the mean plus and minus 12.706 times a half
    assert rows["0.5"][2] == ("2.500", "\u22123.853 to 8.853")
    assert rows["0.5"][0][0] == "0.655"
    assert rows["All features"][0][0] == "0.710", "the mean over the runs"
    assert part["rows"][0]["cells"] == ["90.1%", "10.9%", "50.5%"], "0.01 more than of one"


def test_the_front_is_that_of_ranking_and_gap_by_hand() -> None:
    document = example()
    # 0.5 now ranks worse than 0.1, with a larger gap
    document["values"][2]["metrics"]["auc"]["mean"] = 0.6
    part = asked_part(document)
    assert part is not None
    assert [row["front"] for row in part["front"]] == ["yes", "yes", "no", "to compare with"]
    (description,) = [
        plot.all("desc")[0].text() for plot in section(page(document)).all("svg") if FRONT in plot.text()
    ]
    assert "on the Pareto front: 0.9 and 0.1." in description


def test_words_name_the_ends_and_what_is_always_or_never_asked() -> None:
    part = asked_part(example("method.gamma=0.6,0.9"))
    assert part is not None
    assert part["said"] == [
        "Fewest features are asked at method.gamma 0.6 (2.400 a person on average), "
        "most at method.gamma 0.9 (3.600).",
        "Asked of at least half of people at every value: X1, X2 and X9.",
        "Asked of at most 5% at every value: X5 and X6.",
    ]


def test_each_setting_of_another_key_has_a_curve() -> None:
    root = section(page(example(*BY_CRITERION)))
    for plot in root.all("svg")[:3]:
        curves = [p for p in plot.all("path") if (p.attrs.get("class") or "").startswith("curve")]
        assert [p.attrs["class"] for p in curves] == ["curve c0", "curve c1"]
        assert {"criterion=demographic_parity", "criterion=equal_opportunity"} <= {
            text.text() for text in plot.all("text")
        }
    assert "1: gamma=0.1, criterion=demographic_parity" in root.text(), "numbered as in the picture"


def test_points_that_failed_or_ask_nothing_are_left_out() -> None:
    document = example(seeds=2)
    for point in document["points"]:
        if point["value"] == 0:
            del point["acquisition"]
    part = asked_part(document)
    assert part is not None
    assert [row["name"] for row in part["front"]] == ["0.1", "0.5", "All features"]
    document["points"][2]["acquisition"] = None
    part = asked_part(document)
    assert part is not None
    assert part["front"][0]["cells"][2] == ("1.400", "0.150 to 0.650"), "the seed that is left"


def test_without_evidence_of_the_gap_there_is_no_front() -> None:
    root = page(example(gap=False))
    assert titles(root) == [AGAINST[0], AGAINST[2], MAP, MAP]
    assert "Pareto" not in section(root).text()
    assert "not available" in section(root).text()


def test_a_feature_that_may_not_be_asked_is_not_in_the_map() -> None:
    document = example()
    for point in document["points"]:
        point["acquisition"]["groups"][0]["allowed"] = False
    part = asked_part(document)
    assert part is not None
    assert "X1" not in [row["name"] for row in part["rows"]]
    assert part["front"][-1]["cells"][2][0] == "5.000"


def test_hostile_names_stay_text() -> None:
    document = copy.deepcopy(example())
    for point in document["points"]:
        point["acquisition"]["groups"][0]["name"] = HOSTILE
    for value in document["values"]:
        value["label"] = value["mark"] = value["name"] = HOSTILE + value["label"]
    root = page(document)
    assert not root.all("script")
    assert HOSTILE in section(root).text()


def test_the_square_stands_where_its_numbers_say() -> None:
    marks = [Mark("a", Estimate(0.1), Estimate(0.6)), Mark("b", Estimate(0.2), Estimate(0.7))]
    square = Mark("all", Estimate(0.4), Estimate(0.9))
    image = tradeoff_plot(marks, uid="u", title="t", description="d", x_axis="x", y_axis="y", square=square)
    root = parse(image)
    (a, b) = sorted((float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.findall("circle"))
    (found,) = [r for r in root.findall("rect") if r.get("class") == "square"]
    x, y = float(found.get("x", 0)) + 5, float(found.get("y", 0)) + 5
    assert x - a[0] == pytest.approx(3 * (b[0] - a[0]), abs=0.4)
    assert a[1] - y == pytest.approx(3 * (a[1] - b[1]), abs=0.4)
    assert "all" in {text for text, *_ in boxes(image)}


UNIT = st.integers(0, 100).map(lambda k: k / 100)
POINTS = st.lists(
    st.tuples(
        UNIT, st.builds(lambda v, h: Estimate(v, v - h, v + h), UNIT, UNIT) | st.builds(Estimate, UNIT)
    ),
    min_size=1,
    max_size=18,
)


@given(st.lists(st.tuples(st.text("abc=_", min_size=1, max_size=60), POINTS), min_size=1, max_size=7), UNIT)
def test_curves_stay_inside_with_a_dot_a_point(curves: Any, level: float) -> None:
    image = curve_plot(curves, uid="u", title="t", description="d", axis="gamma", level=level)
    assert_apart(image)
    root = parse(image)
    assert len(root.findall("circle")) == sum(len(points) for _, points in curves)
    width, height = map(float, root.get("viewBox", "").split()[2:])
    numbers = [float(c.get(name, 0)) for c in root.findall("circle") for name in ("cx", "cy")]
    assert min(numbers) >= 0
    assert max(numbers[::2]) <= width
    assert max(numbers[1::2]) <= height


def test_places_on_a_curve_are_to_scale() -> None:
    points = [(0.1, Estimate(1.0)), (0.2, Estimate(2.0)), (0.5, Estimate(5.0, 4.0, 6.0))]
    root = parse(curve_plot([("", points)], uid="u", title="t", description="d", axis="gamma", level=3.0))
    first, second, third = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.findall("circle")]
    assert third[0] - first[0] == pytest.approx(4 * (second[0] - first[0]), abs=0.4)
    assert first[1] - third[1] == pytest.approx(4 * (first[1] - second[1]), abs=0.4)
    (line,) = [item for item in root.findall("line") if item.get("class") == "reference"]
    assert float(line.get("y1", 0)) == pytest.approx((first[1] + third[1]) / 2, abs=0.2)
    (span,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "whisker thin"]
    ends = [float(text) for text in re.findall(r"[\d.]+", span)]
    assert ends[1] - ends[3] == pytest.approx(2 * (first[1] - second[1]), abs=0.3)
    assert not root.findall("g"), "a single curve needs no legend"


@pytest.mark.parametrize("compact", [False, True])
def test_cells_are_the_darker_the_more_are_asked(compact: bool) -> None:
    shares = [[1.0, 0.5, None], [0.0, 0.25, 0.004]]
    image = share_map(
        ["0.1", "0.5", "0.9"],
        ["X1", "a name that is much too long for its room"],
        shares,
        axis="gamma",
        uid="u",
        title="t",
        description="d",
        compact=compact,
    )
    assert_apart(image)
    cells = [float(r.get("fill-opacity", "nan")) for r in parse(image).findall("rect")]
    assert cells == pytest.approx([0.6, 0.3, 0.0, 0.15, 0.002], abs=0.0006)
    assert {"100", "50", "–", "0", "25"} <= {text for text, *_ in boxes(image)}


@pytest.mark.parametrize("compact", [False, True])
def test_the_map_of_many_values_stays_within_the_page(compact: bool) -> None:
    names = [f"{i / 20:g}" for i in range(24)]
    image = share_map(
        names, ["f"], [[0.5] * 24], axis="g", uid="u", title="t", description="d", compact=compact
    )
    assert_apart(image)
    cells = parse(image).findall("rect")
    assert len(cells) == 24
    assert max(float(c.get("x", 0)) + float(c.get("width", 0)) for c in cells) <= (340 if compact else 720)
