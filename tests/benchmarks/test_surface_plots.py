"""Decision surfaces show the given probabilities, people and arrows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.page_generators.surface_plots import SHADES, _border, decision_surfaces, rectangles


def panel(grid: Any, **others: Any) -> dict[str, Any]:
    points, labels = [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]], [0, 1, 1]
    ends = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    return {
        "title": "t",
        "notes": ["n"],
        "grid": grid,
        "points": points,
        "labels": labels,
        **ends,
        **others,
    }


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


def test_an_arrow_points_from_a_person_to_the_target() -> None:
    """Nobody who stays has an arrow."""
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
