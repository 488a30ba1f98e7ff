"""Pictures and page of the benchmarks: what they draw and say follows from the results given."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import page, plots, two_clusters
from benchmarks.plots import Axis
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.numerics import logistic_losses
from evenhand.fairlib.transport import TransportPlan, TransportProblem, make_solver

SVG = "{http://www.w3.org/2000/svg}"
METRICS = ("gap_rms.sex", "gap_rms.race", "consistency.spouse", "consistency.gender_race")
PROVENANCE: dict[str, Any] = {
    "python": "3.11",
    "machine": {"cpu": "a processor", "cores": 2, "system": "Linux"},
    "packages": {"numpy": "2"},
    "measured": "2026-01-02T03:04:05+00:00",
}


def point(job: str, over: str, at: float, accuracy: float, *values: float) -> dict[str, Any]:
    metrics = {"balanced_accuracy": accuracy, **dict(zip(METRICS, values, strict=True))}
    return {"job": job, "over": over, "at": at, "splits": 3, "metrics": metrics}


def curve() -> list[dict[str, Any]]:
    return [
        # not in the order of the budget
        point("adult-budro", "perturbation_budget", 0.2, 0.70, 0.10, 0.02, 0.99, 0.98),
        point("adult-budro", "perturbation_budget", 0.0, 0.80, 0.20, 0.04, 0.95, 0.94),
        point("adult-gbdt", "scale_pos_weight", 1.0, 0.75, 0.30, 0.05, 0.90, 0.99),
        point("adult-gbdt", "scale_pos_weight", 3.0, 0.85, 0.40, 0.06, 0.90, 0.90),
    ]


def sizes(exponent: float = 1.5) -> list[dict[str, Any]]:
    return [
        {
            "rows": n,
            "seconds_per_step": 0.25 * (n / 9000) ** exponent,
            "setup_seconds": 1.0,
            "peak_mib": 1000 * n // 9000,
            "mib_before_training": 640,
        }
        for n in (36_000, 9_000, 18_000)
    ]


def budro_results() -> dict[str, Any]:
    exact = {
        "instances": 7,
        "oracle": "an oracle",
        "dual_largest_relative_difference": 1.25e-16,
        "dual_largest_overspending": 0.0,
        "dual_largest_duality_gap": 2e-15,
        "entropic_largest_relative_shortfall": {"0.1": 0.015},
    }
    row = {
        "source": "table 7",
        "ours": {"balanced_accuracy": [0.81, 0.01], "certificate.drf": [0.0123, 0.001]},
        "paper": {"balanced_accuracy": [0.815, 0.005]},
        "train_seconds_median": 1.0,
    }
    speed = {
        "adult": {
            "rows": 36177,
            "steps": 180,
            "repeats": 3,
            "seconds_per_step": 0.5,
            "slowest_step": 1.2,
            "training_seconds": 99.0,
            "plain_pass_seconds": 30.0,
            "plain_step_seconds": 46.6,
            "ratio": 93.2,
        },
        "adult_job": {"seconds_per_step": 0.4, "training_seconds": 50.0},
        "adult_neighbours_256": {
            "seconds_per_step": 0.3,
            "proven_at_step_40": 0.93177,
            "adversarial_loss_at_first_step": 0.71,
            "exact_at_first_step": 0.7125,
        },
        "german": {"rows": 800, "ms_per_step": 2.5},
    }
    found = {
        "exact": exact,
        "rows": {"adult-budro": row},
        "speed": speed,
        "growth": sizes(),
        "curve": curve(),
    }
    return {name: PROVENANCE | {"command": f"measure {name}", "result": part} for name, part in found.items()}


def page_of(budro: dict[str, Any]) -> str:
    tables = PROVENANCE | {"command": "measure tables", "rows": {}}
    speed = PROVENANCE | {
        "command": "measure overheads",
        "german_budro_step": {
            "rows": 800,
            "features": 61,
            "repeats": 5,
            "steps": 90,
            "ms_per_step": 4.8,
            "plain_rendering_ms_per_step": 144.0,
            "ratio": 30.0,
        },
        "overhead": {
            "help_s": 0.2,
            "cached_german_budro_s": 5.0,
            "cold_german_budro_s": 14.0,
            "cold_german_budro_outside_train_and_evaluate_s": 13.0,
            "cold_german_budro_new_store_s": 20.0,
        },
    }
    return page.page(tables, speed, budro)


def sections(text: str) -> int:
    return text[text.index("## BuDRO at full scale") :].count("\n### ")


def parsed(svg: str) -> ElementTree.Element:
    """The picture, after the checks that hold for every one."""
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    named = [child.get("id") for child in root[:2]]
    assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert root.get("aria-labelledby", "").split() == named
    assert all(child.text for child in root[:2])
    width, height = root.get("viewBox", "").split()[2:]
    ground = root[2]
    assert (ground.tag, ground.get("width"), ground.get("height")) == (f"{SVG}rect", width, height)
    assert "nan" not in svg
    for item in root.iter(f"{SVG}text"):
        if item.get("x"):
            assert 0 <= float(item.get("x", "")) <= float(width)
            assert 0 <= float(item.get("y", "")) <= float(height)
    return root


# ----------------------------------------------------------------------------------------------------- axes


def test_a_linear_axis_lays_values_evenly_over_pixels() -> None:
    axis = Axis(2.0, 6.0, 100.0, 0.0)
    assert [axis.at(value) for value in (2.0, 3.0, 6.0)] == [100.0, 75.0, 0.0]


def test_a_logarithmic_axis_gives_equal_ratios_equal_room() -> None:
    axis = Axis(1.0, 10_000.0, 0.0, 400.0, log=True)
    assert [axis.at(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


def test_ticks_are_round_and_inside_whatever_the_range() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        low = rng.normal() * 10.0 ** rng.integers(-3, 4)
        axis = Axis(low, low + 10.0 ** rng.uniform(-3, 4), 0.0, 1.0)
        ticks = axis.ticks(5)
        steps = np.diff(ticks)
        assert 2 <= len(ticks) <= 6
        assert axis.low - 1e-6 * steps[0] <= ticks[0] < ticks[-1] <= axis.high + 1e-6 * steps[0]
        mantissa = steps[0] / 10.0 ** math.floor(math.log10(steps[0]) + 1e-9)
        assert min(abs(mantissa - round_number) for round_number in (1, 2, 5)) < 1e-6
        np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


def test_logarithmic_ticks_are_one_two_and_five_times_powers_of_ten() -> None:
    assert Axis(0.15, 12.0, 0, 1, log=True).log_ticks() == [0.2, 0.5, 1, 2, 5, 10]


def test_an_axis_around_values_keeps_them_inside_and_starts_at_zero_where_zero_is_least() -> None:
    axis = Axis.around([0.0, 4.0], 0, 100)
    assert axis.low == 0.0 < 4.0 < axis.high
    axis = Axis.around([3.0, 3.0], 0, 100)
    assert axis.low < 3.0 < axis.high


def test_words_with_markup_characters_stay_words() -> None:
    root = parsed(plots.picture(9, 9, "a < b & c", 'd > "e"', [plots.text((1, 1), "x < y & z")]))
    assert (root[0].text, root[1].text, root[3].text) == ("a < b & c", 'd > "e"', "x < y & z")


@pytest.mark.parametrize("shape", ["circle", "square", "triangle", "diamond", "cross"])
def test_every_shape_is_drawn_about_its_place(shape: str) -> None:
    element = ElementTree.fromstring(plots.mark(shape, (50.0, 70.0), "#000"))
    if shape == "circle":
        assert (element.get("cx"), element.get("cy")) == ("50", "70")
        return
    numbers = np.array(re.findall(r"-?[\d.]+", element.get("d", "")), dtype=float).reshape(-1, 2)
    assert len(numbers) >= 3
    assert (numbers.min(axis=0) < [50, 70]).all()
    assert (numbers.max(axis=0) > [50, 70]).all()
    assert np.abs(numbers - [50, 70]).max() < 7


# ------------------------------------------------------------------------------------------------ trade-off


def test_a_line_follows_the_swept_parameter() -> None:
    found = plots.series_points(curve(), "adult-budro", "perturbation_budget")
    assert [item["at"] for item in found] == [0.0, 0.2]


def test_the_printed_points_are_the_papers() -> None:
    printed = plots.printed_points()
    assert set(printed) == {"adult-budro", "adult-gbdt", "adult-project", "adult-reweigh", "adult-nn"}
    # table 7 of Vargo et al. 2021
    assert printed["adult-budro"]["balanced_accuracy"] == 0.815
    assert printed["adult-gbdt"]["gap_rms.sex"] == 0.166


def test_the_trade_off_has_a_panel_for_each_column_with_right_more_accurate_and_low_fairer() -> None:
    root = parsed(plots.trade_off(curve(), {}))
    blue = plots.SERIES[0].colour
    filled = [item for item in root.iter(f"{SVG}circle") if item.get("fill") == blue]
    # two budgets in four panels, and one mark in the legend
    assert len(filled) == 4 * 2 + 1
    for panel in range(4):
        none, most = filled[2 * panel : 2 * panel + 2]
        assert float(none.get("cx", "")) > float(most.get("cx", ""))
        assert float(none.get("cy", "")) < float(most.get("cy", ""))


def test_a_printed_point_lies_on_a_measured_one_with_the_same_values() -> None:
    same = curve()[0]["metrics"]
    root = parsed(plots.trade_off(curve(), {"adult-budro": same}))
    hollow = [
        (item.get("cx"), item.get("cy"))
        for item in root.iter(f"{SVG}circle")
        if item.get("fill") == "none" and item.get("stroke") == plots.SERIES[0].colour
    ]
    filled = {
        (item.get("cx"), item.get("cy"))
        for item in root.iter(f"{SVG}circle")
        if item.get("fill") == plots.SERIES[0].colour
    }
    # one in each panel; the line over class weights is not there, so its entry in the legend is hollow
    assert len([place for place in hollow if place in filled]) == 4
    assert len(hollow) == 5


def test_the_legend_names_only_what_is_drawn() -> None:
    svg = plots.trade_off(curve(), {})
    assert "plain boosting" in svg
    assert "reweighing" not in svg
    assert "neural network" not in svg


# --------------------------------------------------------------------------------------------------- growth


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.7])
def test_the_fitted_slope_is_the_exponent_of_a_power(exponent: float) -> None:
    rows = [9_000.0, 18_000.0, 100_000.0]
    assert plots.slope_between(rows, [3.0 * row**exponent for row in rows]) == pytest.approx(exponent)


def test_the_guide_of_slope_one_lies_on_what_grows_in_proportion() -> None:
    root = parsed(plots.growth(sizes(exponent=1.0)))
    lines = [item.get("points", "").split() for item in root.iter(f"{SVG}polyline")]
    # guides of slopes 1 and 2, then the measurement, in each panel
    assert len(lines) == 6
    for guide, steep, measured in (lines[:3], lines[3:]):
        assert guide == [measured[0], measured[-1]]
        assert steep[0] == measured[0]
        end, start = [np.array(item.split(","), dtype=float) for item in (steep[1], steep[0])]
        flat = np.array(guide[1].split(","), dtype=float) - start
        slopes = (end - start)[1] / (end - start)[0], flat[1] / flat[0]
        assert slopes[0] / slopes[1] == pytest.approx(2.0, rel=0.01)


def test_guides_end_inside_the_panel_however_steep() -> None:
    for exponent in (0.1, 2.5):
        root = parsed(plots.growth(sizes(exponent)))
        for item in root.iter(f"{SVG}polyline"):
            heights = [float(pair.split(",")[1]) for pair in item.get("points", "").split()]
            assert 46 <= min(heights) <= max(heights) <= 316


def test_pictures_are_written_for_the_parts_that_are_there(tmp_path: Path) -> None:
    results = budro_results()
    assert plots.write({"exact": results["exact"]}, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert [file.name for file in plots.write({"growth": results["growth"]}, tmp_path)] == [
        "budro-growth.svg"
    ]
    plots.write(results, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"budro-growth.svg", "budro-trade-off.svg"}
    for file in tmp_path.iterdir():
        parsed(file.read_text())


# ----------------------------------------------------------------------------------------------------- page


def test_a_missing_part_is_left_out_and_the_rest_of_the_page_stays() -> None:
    results = budro_results()
    bare, full = page_of({}), page_of(results)
    assert "BuDRO at full scale" not in bare
    assert full.startswith(bare)
    assert sections(full) == len(results)
    for name in results:
        kept = {other: part for other, part in results.items() if other != name}
        text = page_of(kept)
        assert sections(text) == len(results) - 1
        assert f"`measure {name}`" not in text


def test_every_section_ends_with_its_own_provenance() -> None:
    text = page_of(budro_results())
    parts = text[text.index("## BuDRO at full scale") :].split("\n### ")[1:]
    commands = [re.findall(r"`(measure \w+)`\*$", part.strip()) for part in parts]
    assert commands == [[f"measure {name}"] for name in ("exact", "rows", "speed", "growth", "curve")]


def test_the_speed_section_begins_with_the_ratio() -> None:
    text = page_of(budro_results())
    section = text[text.index("### Speed of a step") :].split("\n\n")[1]
    assert section.startswith("**93.2 times as fast**")


def test_rows_stand_beside_the_papers() -> None:
    text = page_of(budro_results())
    assert "| balanced_accuracy | 0.810 ± 0.010 | 0.815 ± 0.005 | worse by 1.0 sd |" in text
    assert "| certificate.drf | 0.012 ± 0.001 |  |  |" in text


def test_tables_have_as_many_cells_in_every_row_as_in_their_head() -> None:
    lines = page_of(budro_results()).splitlines()
    width = 0
    rows = 0
    for line in lines:
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        assert width in (0, cells), line
        rows += width > 0
        width = cells
    assert rows > 20


def test_pictures_on_the_page_are_those_that_are_written(tmp_path: Path) -> None:
    results = budro_results()
    shown = re.findall(r"!\[.+\]\((.+)\)", page_of(results))
    assert sorted(shown) == sorted(file.name for file in plots.write(results, tmp_path))


def test_shares_are_rounded_down_so_that_nothing_short_of_all_is_all() -> None:
    assert page._percent(0.99999) == "99.9%"
    assert page._percent(1.0) == "100%"
    assert page._percent(0.283) == "28.3%"


def test_a_value_at_an_accuracy_is_interpolated_and_never_extrapolated() -> None:
    line = [(0.70, 0.1), (0.80, 0.3)]
    assert page.at_accuracy(line, 0.75) == pytest.approx(0.2)
    assert page.at_accuracy(line, 0.80) == pytest.approx(0.3)
    assert page.at_accuracy(line, 0.81) is None
    assert page.at_accuracy(line, 0.69) is None
    assert page.at_accuracy([(0.7, 0.1)], 0.7) is None
    assert page.at_accuracy([], 0.7) is None


def test_where_a_line_turns_back_the_larger_value_counts() -> None:
    turning = [(0.70, 0.1), (0.80, 0.2), (0.70, 0.6)]
    assert page.at_accuracy(turning, 0.75) == pytest.approx(0.4)
    assert page.at_accuracy([(0.7, 0.1), (0.7, 0.5)], 0.7) == 0.5


def test_comparators_are_met_at_their_accuracy_only_inside_the_range_of_the_line() -> None:
    rows, lower, compared = page.equal_accuracy(curve())
    # at .75 BuDRO is halfway: .15, .03, 1 - .97, 1 - .96; the comparator at .85 is out of reach
    cells = "0.300 / 0.150 | 0.050 / 0.030 | 0.100 / 0.030 | 0.010 / 0.040"
    assert rows == [f"| plain boosting | 1 | 0.750 | budgets | {cells} |"]
    assert (lower, compared) == (3, 4)


def test_without_a_common_range_the_page_shows_the_picture_alone() -> None:
    results = budro_results()
    results["curve"]["result"] = curve()[:2]
    text = page_of(results)
    assert "budro-trade-off.svg" in text
    assert "At equal balanced accuracy" not in text


# --------------------------------------------------------------------------------------------- two clusters


@pytest.fixture(scope="module")
def example() -> two_clusters.Example:
    return two_clusters.example()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_follow_the_two_diagonals_of_the_rectangle_before_the_shift(seed: int) -> None:
    X, y, majority = two_clusters.people(seed)
    assert (len(X), int(majority.sum())) == (150, 125)
    X = X + np.where(majority, 2.0, -2.0)[:, None] * [1.0, 0.0]
    (left, bottom), (right, top) = X.min(axis=0), X.max(axis=0)
    slope = (top - bottom) / (right - left)
    rising = bottom + slope * (X[:, 0] - left)
    falling = top - slope * (X[:, 0] - left)
    np.testing.assert_array_equal(y[majority], (X[:, 1] > rising)[majority])
    np.testing.assert_array_equal(y[~majority], (X[:, 1] > falling)[~majority])


def test_people_are_drawn_from_the_seed_alone() -> None:
    first, again, other = (two_clusters.people(seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_arrows_are_the_transport_that_the_last_step_answered(example: two_clusters.Example) -> None:
    history = example.fair.history_
    assert example.plan.value == pytest.approx(history["adversarial_loss"][-1], rel=1e-9)
    assert example.plan.spent == pytest.approx(history["spent"][-1], rel=1e-6)
    assert example.plan.spent <= two_clusters.BUDGET * (1 + 1e-9)


def test_the_transport_shown_is_optimal(example: two_clusters.Example) -> None:
    metric = SensitiveSubspace(indicators=[0]).fit(example.X)
    margin = example.fair.booster_[: two_clusters.STEPS].inplace_predict(
        example.X.astype(np.float32), predict_type="margin"
    )
    problem = TransportProblem(metric.project(example.X), example.y, two_clusters.BUDGET)
    best = make_solver("lp", problem).solve(logistic_losses(margin))
    assert example.plan.value == pytest.approx(best.value, rel=1e-7)


def test_the_picture_shows_what_it_is_for(example: two_clusters.Example) -> None:
    low, high = example.X[:, 0].min(), example.X[:, 0].max()
    plain = two_clusters.changing(example.plain.predict, example.X, low, high)
    fair = two_clusters.changing(example.fair.predict, example.X, low, high)
    assert fair < 0.35 < 0.9 < plain
    # and not because everybody gets one answer
    assert 0.25 < example.fair.predict(example.X).mean() < 0.75


def test_the_share_of_answers_that_change_is_counted_over_people() -> None:
    X = np.array([[0.0, 0.5], [0.0, 1.5], [0.0, 2.5], [0.0, 9.0]])
    assert two_clusters.changing(lambda p: p[:, 1] > 1, X, 0.0, 2.0) == 0.0
    assert two_clusters.changing(lambda p: p[:, 0] > 1, X, 0.0, 2.0) == 1.0
    # x2 > 1 + x1 with x1 from 0 to 2: only x2 between 1 and 3 depends on x1
    assert two_clusters.changing(lambda p: p[:, 1] > 1 + p[:, 0], X, 0.0, 2.0) == 0.5


def test_rectangles_cover_the_chosen_cells_once_and_no_others() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.3, 0.7, 1.0):
        chosen = rng.random((9, 13)) < share
        covered = np.zeros(chosen.shape, dtype=int)
        for first, last, bottom, top in two_clusters.rectangles(chosen):
            covered[bottom:top, first:last] += 1
        np.testing.assert_array_equal(covered, chosen.astype(int))
    assert two_clusters.rectangles(np.ones((9, 13), dtype=bool)) == [(0, 13, 0, 9)]


def test_runs_of_edges_are_whole() -> None:
    chosen = np.array([[1, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)
    assert two_clusters.edge_runs(chosen) == [(0, 0, 2), (0, 3, 1)]


def test_the_line_where_the_answer_changes_is_where_it_changes() -> None:
    columns, rows = two_clusters.COLUMNS, two_clusters.ROWS
    x, y = Axis(0, 1, 0, 10 * columns), Axis(0, 1, 10 * rows, 0)
    grid = np.full((rows, columns), 0.2)
    grid[5:] = 0.9
    assert f'd="M0 {10 * (rows - 5)}H{10 * columns}"' in two_clusters.boundary(grid, x, y)
    grid = np.full((rows, columns), 0.2)
    grid[:, 7:] = 0.9
    assert f'd="M70 {10 * rows}V0"' in two_clusters.boundary(grid, x, y)
    assert 'd=""' in two_clusters.boundary(np.full((rows, columns), 0.2), x, y)


def test_every_cell_has_the_shade_of_its_probability() -> None:
    columns, rows = two_clusters.COLUMNS, two_clusters.ROWS
    x, y = Axis(0, 1, 0, 10 * columns), Axis(0, 1, 10 * rows, 0)
    shades = [colour for _, colour in two_clusters.SHADES]
    for probability, colour in ((0.0, shades[0]), (0.49, shades[2]), (0.51, shades[3]), (1.0, shades[-1])):
        (path,) = two_clusters.shading(np.full((rows, columns), probability), x, y)
        assert f'fill="{colour}"' in path
        assert f'd="M0 0H{10 * columns}V{10 * rows}H0z"' in path


def test_an_arrow_goes_from_the_person_to_the_one_they_are_treated_as(example: two_clusters.Example) -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    y = np.array([0, 1, 1])
    plan = TransportPlan(np.zeros((2, 3)), np.array([1, 1, 0]), 0.0, 0.0, 0.0, 0.0)
    found = two_clusters.Example(X, y, y > 0, example.plain, example.fair, plan)
    drawn = "".join(two_clusters.moves(found, Axis(0, 1, 0, 100), Axis(0, 1, 100, 0)))
    arrows = re.findall(r'<path d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"/>', drawn)
    numbers = np.array(arrows, dtype=float)
    # person 1 stays; tips end short of the mark
    np.testing.assert_allclose(numbers[:, :2], [[0, 100], [50, 0]])
    np.testing.assert_allclose(numbers[:, 2:], [[100, 100], [0, 100]], atol=4.1)
    assert (numbers[:, 2:] != [[100, 100], [0, 100]]).any(axis=1).all()


def test_the_picture_is_small_well_formed_and_shows_everybody_in_every_panel(
    example: two_clusters.Example,
) -> None:
    svg = two_clusters.draw(example)
    root = parsed(svg)
    assert len(svg.encode()) < 150_000
    discs = [item for item in root.iter(f"{SVG}circle") if item.get("fill") == two_clusters.HIGH]
    assert len(discs) == 3 * int(example.y.sum()) + 1
    ids = re.findall(r'\bid="(\w+)"', svg)
    assert len(ids) == len(set(ids))
