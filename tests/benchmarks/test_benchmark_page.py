"""Pictures and page of the benchmarks: what they draw and say follows from the results given."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.common import picture
from benchmarks.page_generators import benchmark_pages
from benchmarks.page_generators.panels import series_panels
from benchmarks.reproductions import two_clusters
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.numerics import logistic_losses
from evenhand.fairlib.plots.palette import LIGHT
from tests.oracles.linear_program import largest_loss

SVG = "{http://www.w3.org/2000/svg}"
PROVENANCE: dict[str, Any] = {
    "python": "3.11",
    "machine": {"cpu": "a processor", "cores": 2, "system": "Linux"},
    "packages": {"numpy": "2"},
    "measured": "2026-01-02T03:04:05+00:00",
}


def budro_results() -> dict[str, Any]:
    exact = {
        "instances": 7,
        "oracle": "an oracle",
        "largest_relative_difference": 1.25e-16,
        "largest_overspending": 0.0,
        "largest_duality_gap": 2e-15,
    }
    ratios: dict[str, Any] = {
        "steps": 60,
        "over_plain_xgboost": 19.5,
        "stored_costs_over_budro": 6.6,
    }
    ratios |= {"stored_costs_bytes": 5.2e9, "mean_over_plain_xgboost": 21.0}
    case = {"rows": 36177, "over_plain_xgboost": 30.5, "mean_over_plain_xgboost": 40.5}
    smooth = dict.fromkeys(("adult", "two_features"), case)
    measured = {
        "balanced_accuracy": 0.81,
        "consistency.spouse": 0.98,
        "consistency.gender_race": 0.96,
    }
    measured |= {f"gap_{kind}.{name}": 0.1 for kind in ("max", "rms") for name in ("sex", "race")}
    found = {
        "exact": exact,
        "differences": {"ours": [measured, measured], "f0 with unit weights": [measured]},
        "ratios": ratios,
        "smooth": smooth,
    }
    return {
        name: PROVENANCE | {"command": f"measure {name}", "result": part}
        for name, part in found.items()
    }


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
    return benchmark_pages.page(tables, speed, budro)


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
    assert not any(item.get("role") for item in root[2:])
    assert "NaN" not in svg
    return root


def test_words_with_markup_characters_stay_words() -> None:
    rows = [{"panel": "x < y & z", "series": "s", "x": 1.0, "y": 2.0}]
    root = parsed(picture(series_panels(rows, x_title="x"), "a < b & c", 'd > "e"'))
    assert (root[0].text, root[1].text) == ("a < b & c", 'd > "e"')
    assert "x < y & z" in [item.text for item in root.iter(f"{SVG}text")]


# -----------------------------------------------------------------------------------------------------
# page


def test_runs_with_a_learned_metric_are_shown_by_size() -> None:
    run = {"cpu_seconds": 50.29, "steps": {"fair_metric": 2.6, "controls": 2.4, "train": 26.4}}
    run["steps"]["evaluate"] = 9.08
    results = {
        "metric": {"20000": {"cpu_seconds": 2.5}},
        "budro": {"45000": run | {"cpu_seconds": 98.49}, "20000": run},
    }
    text = benchmark_pages._mitigated(results)
    assert text.splitlines()[-2:] == [
        "| `budro` | 20,000 | 50.3 | 2.6 | 2.4 | 26.4 | 9.1 | 2.5 |",
        "| `budro` | 45,000 | 98.5 | 2.6 | 2.4 | 26.4 | 9.1 |  |",
    ]


def test_commands_with_nothing_new_are_shown_with_their_work() -> None:
    result = {
        "target": {"predict": 2.0, "if_changed_to_cached_run": 0.6},
        "first_cpu_s": {"predict": 11.73},
        "nothing_new_cpu_s": {"cached run": 2.2, "predict": 1.515},
        "all_cpu_s": {"cached run": [2.2], "predict": [1.5, 1.53]},
        "if_changed_to_cached_run": 0.381,
    }
    text = benchmark_pages._nothing_new(result)
    assert "takes 0.38\nof a cached run; at most 0.6 were asked" in text
    assert text.splitlines()[-2:] == [
        "| `cached run` |  | 2.20 | 2.20 |  |",
        "| `predict` | 11.73 | 1.51 | 1.50, 1.53 | 2 |",
    ]


def test_a_missing_part_is_left_out_and_the_rest_stays() -> None:
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
    results = budro_results()
    text = page_of(results)
    parts = text[text.index("## BuDRO at full scale") :].split("\n### ")[1:]
    commands = [re.findall(r"`(measure \w+)`\*$", part.strip()) for part in parts]
    assert commands == [[f"measure {name}"] for name in results]


def test_ratios_say_what_is_over_what() -> None:
    text = page_of(budro_results())
    section = text[text.index("### A step compared with others") :]
    assert (
        "| a step of BuDRO over a step of plain XGBoost on the same doubled rows | 19.5 |"
        in section
    )
    assert "| the same of the means, from the second step on | 21.0 |" in section
    assert section.count("| 36,177 | 30.5 | 40.5 |") == 2
    assert "| Algorithm 2 with all costs stored over a step of BuDRO | 6.6 |" in section
    assert "All costs take 5.2 GB." in section


def test_a_difference_has_a_row_for_every_split() -> None:
    text = page_of(budro_results())
    section = text[text.index("### One difference from the printed setting") :]
    assert "| ours | 1 | 0.810 | 0.980 | 0.960 | 0.100 | 0.100 | 0.100 | 0.100 |" in section
    assert section.count("| f0 with unit weights |") == 1


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


# --------------------------------------------------------------------------------------------- two
# clusters


@pytest.fixture(scope="module")
def example() -> two_clusters.Example:
    return two_clusters.example()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_follow_the_diagonals_before_the_shift(seed: int) -> None:
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


@pytest.mark.long
def test_arrows_are_the_transport_of_the_last_step(
    example: two_clusters.Example,
) -> None:
    history = example.fair.history_
    assert example.plan.value == pytest.approx(history["adversarial_loss"][-1], rel=1e-9)
    assert example.plan.spent == pytest.approx(history["spent"][-1], rel=1e-6)
    assert example.plan.spent <= two_clusters.BUDGET * (1 + 1e-9)


@pytest.mark.long
def test_the_transport_shown_is_optimal(example: two_clusters.Example) -> None:
    metric = SensitiveSubspace(indicators=[0]).fit(example.X)
    margin = example.fair.booster_[: two_clusters.STEPS].inplace_predict(
        example.X.astype(np.float32), predict_type="margin"
    )
    costs = metric.pairwise(example.X, squared=True)
    best = largest_loss(costs, logistic_losses(margin)[example.y].T, two_clusters.BUDGET)
    assert example.plan.value == pytest.approx(best, rel=1e-7)


@pytest.mark.long
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


@pytest.mark.long
def test_the_picture_shows_every_person_in_every_panel(
    example: two_clusters.Example,
) -> None:
    """The picture is small and well formed."""
    svg = two_clusters.draw(example)
    root = parsed(svg)
    assert len(svg.encode()) < 200_000
    people = [
        item for item in root.iter(f"{SVG}path") if item.get("fill") in (LIGHT["c0"], LIGHT["c1"])
    ]
    # the marks of the people and of the legend; arrows have heads too
    moved = int((example.plan.target != np.arange(len(example.y))).sum())
    assert 3 * len(example.y) <= len(people) - 2 <= 3 * len(example.y) + moved
    ids = re.findall(r'\bid="(\w+)"', svg)
    assert len(ids) == len(set(ids))
