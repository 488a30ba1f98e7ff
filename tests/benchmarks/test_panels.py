"""Small multiples: series and bars show the given numbers, for usual and odd input."""

from __future__ import annotations

import vl_convert

from benchmarks.page_generators.panels import bar_panels, series_panels
from tests.fairlib.plots.test_intervals import HOSTILE, values

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
    for encoding in (
        line["encoding"]["color"],
        line["encoding"]["strokeDash"],
        mark["encoding"]["shape"],
    ):
        assert encoding["scale"]["domain"] == ["a", HOSTILE]
        first, second = encoding["scale"]["range"]
        assert first != second
    assert not hollow["mark"].get("filled", False)


def test_axes_can_be_logarithmic_or_start_at_0_and_have_titles() -> None:
    (panel, _) = series_panels(ROWS, x_title={"one": "gamma", HOSTILE: "AUC"}, log=True).to_dict()[
        "concat"
    ]
    x, y = (panel["layer"][1]["encoding"][axis] for axis in "xy")
    assert (x["scale"]["type"], y["scale"]["type"], x["title"]) == ("log", "log", "gamma")
    (panel, _) = series_panels(ROWS, x_title="x", zero="y").to_dict()["concat"]
    x, y = (panel["layer"][1]["encoding"][axis] for axis in "xy")
    assert (x["scale"]["zero"], y["scale"]["zero"]) == (False, True)


# bars


def test_a_row_of_panels_has_a_bar_and_whisker_per_method() -> None:
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
    assert (whiskers["encoding"]["y"]["field"], whiskers["encoding"]["y2"]["field"]) == (
        "low",
        "high",
    )


def test_hostile_names_stay_text_in_the_picture() -> None:
    svg = vl_convert.vegalite_to_svg(series_panels(ROWS, x_title=HOSTILE).to_dict())
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg
