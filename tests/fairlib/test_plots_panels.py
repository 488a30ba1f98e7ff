"""Small multiples: series, bars and decision surfaces show the given numbers, for usual and odd input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import vl_convert

from evenhand.fairlib.plots.panels import (
    SHADES,
    _border,
    bar_panels,
    decision_surfaces,
    rectangles,
    series_panels,
)

HOSTILE = '<script>alert("1")</script>&\'"'


def values(spec: Any) -> list[dict[str, Any]]:
    """Rows of the data of a chart's specification, once each."""
    found: list[dict[str, Any]] = []
    if isinstance(spec, dict):
        own = spec.get("values")
        if isinstance(own, list) and all(isinstance(row, dict) for row in own):
            found += own
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else []
    for part in parts:
        found += [row for row in values(part) if row not in found]
    return found


# series

ROWS = [
    {"panel": "one", "series": "a", "x": 2.0, "y": 0.5, "low": 0.4, "high": 0.6, "label": "end"},
    {"panel": "one", "series": "a", "x": 1.0, "y": 0.25},
    {"panel": HOSTILE, "series": HOSTILE, "x": 1.0, "y": 0.75, "draw": "hollow"},
]


def test_each_panel_has_its_points_in_the_order_of_the_rows() -> None:
    spec = series_panels(ROWS, x_title="x").to_dict()
    assert [panel["title"] for panel in spec["concat"]] == ["one", HOSTILE]
    first = spec["concat"][0]["layer"][1]
    assert [row["x"] for row in values(spec["concat"][0])] == [2.0, 1.0]
    assert [row["place"] for row in values(spec)] == [0, 1, 2]
    assert first["encoding"]["order"]["field"] == "place"


def test_series_differ_in_colour_shape_and_dash() -> None:
    spec = series_panels(ROWS, x_title="x").to_dict()
    _, line, mark, hollow, _ = spec["concat"][0]["layer"]
    for encoding in (line["encoding"]["color"], line["encoding"]["strokeDash"], mark["encoding"]["shape"]):
        assert encoding["scale"]["domain"] == ["a", HOSTILE]
        first, second = encoding["scale"]["range"]
        assert first != second
    assert not hollow["mark"].get("filled", False)


def test_axes_can_be_logarithmic_start_at_0_and_have_titles_of_their_own() -> None:
    (panel, _) = series_panels(ROWS, x_title={"one": "gamma", HOSTILE: "AUC"}, log=True).to_dict()["concat"]
    x, y = (panel["layer"][1]["encoding"][axis] for axis in "xy")
    assert (x["scale"]["type"], y["scale"]["type"], x["title"]) == ("log", "log", "gamma")
    (panel, _) = series_panels(ROWS, x_title="x", zero="y").to_dict()["concat"]
    x, y = (panel["layer"][1]["encoding"][axis] for axis in "xy")
    assert (x["scale"]["zero"], y["scale"]["zero"]) == (False, True)


# bars


def test_a_row_of_panels_has_a_bar_with_its_whisker_for_each_method() -> None:
    rows = [
        {"row": row, "column": column, "series": series, "value": 0.5, "low": 0.4, "high": 0.6}
        for row in ("accuracy", HOSTILE)
        for column in ("German", "Bank")
        for series in ("faias", "logistic")
    ]
    spec = bar_panels(rows, width=980).to_dict()
    assert [line["title"] for line in spec["vconcat"]] == ["accuracy", HOSTILE]
    assert len(values(spec["vconcat"][0])) == 4
    facet = spec["vconcat"][0]["facet"]["column"]
    assert facet["sort"] == ["German", "Bank"]
    bars, whiskers = spec["vconcat"][0]["spec"]["layer"]
    assert bars["encoding"]["color"]["scale"]["domain"] == ["faias", "logistic"]
    assert (whiskers["encoding"]["y"]["field"], whiskers["encoding"]["y2"]["field"]) == ("low", "high")


# decision surfaces


def panel(grid: Any, **others: Any) -> dict[str, Any]:
    points, labels = [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]], [0, 1, 1]
    ends = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    return {"title": "t", "notes": ["n"], "grid": grid, "points": points, "labels": labels, **ends, **others}


def layers(found: dict[str, Any], width: int = 324) -> list[dict[str, Any]]:
    spec = decision_surfaces([found], x_title="x", y_title="y", width=width).to_dict()
    layered: list[dict[str, Any]] = spec["hconcat"][0]["layer"]
    return layered


@pytest.mark.parametrize(("probability", "shade"), [(0.0, 0), (0.49, 2), (0.51, 3), (1.0, 5)])
def test_every_cell_has_the_shade_of_its_probability(probability: float, shade: int) -> None:
    (area, *_) = layers(panel(np.full((3, 4), probability)))
    (row,) = area["data"]["values"]
    scale = area["encoding"]["fill"]["scale"]
    assert scale["range"][scale["domain"].index(row["shade"])] == list(SHADES.values())[shade]
    assert [row[key] for key in ("x", "x2", "y", "y2")] == [0.0, 1.0, 0.0, 1.0]


def test_the_border_is_where_the_prediction_changes() -> None:
    grid = np.full((4, 5), 0.2)
    grid[1:] = 0.9
    _, border, _ = layers(panel(grid))
    assert border["data"]["values"] == [{"x": 0.0, "x2": 1.0, "y": 0.25, "y2": 0.25}]
    assert _border(np.array([[False, True], [False, True]])) == [(1, 1, 0, 2)]
    assert _border(np.zeros((3, 3))) == []


def test_everybody_is_shown_with_the_label() -> None:
    *_, people = layers(panel(np.full((2, 2), 0.2)))
    assert people["data"]["values"] == [
        {"x": 0.0, "y": 0.0, "label": "label 0"},
        {"x": 1.0, "y": 0.0, "label": "label 1"},
        {"x": 0.5, "y": 1.0, "label": "label 1"},
    ]


def test_an_arrow_goes_from_the_person_towards_the_target_and_nobody_who_stays_has_one() -> None:
    _, line, head, _ = layers(panel(np.full((2, 2), 0.2), targets=[1, 1, 0]))
    first, second = line["data"]["values"]
    assert (first["x"], first["y"], first["label"]) == (0.0, 0.0, "label 0")
    assert 0.95 < first["x2"] < 1.0, "the tip ends short of the mark"
    assert (first["y2"], first["angle"]) == (0.0, pytest.approx(90.0))
    assert (second["x"], second["y"]) == (0.5, 1.0)
    assert 0.0 < second["x2"] < 0.05
    assert second["angle"] < -90.0, "down and to the left"
    assert head["data"] == line["data"]


def test_rectangles_cover_the_chosen_cells_once_and_no_others() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.3, 0.7, 1.0):
        chosen = rng.random((9, 13)) < share
        covered = np.zeros(chosen.shape, dtype=int)
        for first, last, bottom, top in rectangles(chosen):
            covered[bottom:top, first:last] += 1
        np.testing.assert_array_equal(covered, chosen.astype(int))
    assert rectangles(np.ones((9, 13), dtype=bool)) == [(0, 13, 0, 9)]


def test_hostile_names_stay_text_in_the_picture() -> None:
    svg = vl_convert.vegalite_to_svg(series_panels(ROWS, x_title=HOSTILE).to_dict())
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg
