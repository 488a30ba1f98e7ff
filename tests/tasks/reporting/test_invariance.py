"""The section on the certificate of invariance: it claims what was found, and no more than that."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from html_tree import read
from hypothesis import given
from hypothesis import strategies as st
from report_example import example
from test_report_svg import assert_apart, parse
from torch import nn

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation.certificates import certify
from evenhand.flows import run_outputs
from evenhand.tasks.evaluate import certificate_content
from evenhand.tasks.reporting import draw
from evenhand.tasks.reporting.budget_plot import Point, budget_plot, log_marks
from evenhand.tasks.reporting.invariance import TITLE, invariance_sections
from evenhand.tasks.reporting.page import render_report

# the least mean squared difference of two logits that changes the odds by a factor of 2 is (ln 2)^2 / 4
VALUE = 0.25 * (math.log(2) ** 2 / 4)
CERTIFICATE: dict[str, Any] = {
    "people": 200,
    "budget": 0.01,
    "value": VALUE,
    "multiplier": 1.5,
    "curve": {
        "budgets": [0.0, 0.001, 0.01, 0.1],
        "values": [0.0125, 0.02, VALUE, 0.09],
        "low": [0.0, 0.01, 0.025, 0.08],
        "high": [0.02, 0.03, 0.0352, 0.1],
    },
    "shares": [
        {"odds": 1.25, "share": 1.0},
        {"odds": 1.5, "share": 0.7306},
        {"odds": 2.0, "share": 0.25},
        {"odds": 4.0, "share": 0.0625},
    ],
}
METRICS: dict[str, Any] = {"n": 200, "settings": {"level": 0.9}, "metrics": {}}
DOTS = [Point(0.001, 0.02, 0.01, 0.03), Point(0.01, 0.05, 0.04, 0.06), Point(0.1, 0.5, 0.4, 0.6)]
PLOT: dict[str, Any] = {"uid": "u", "title": "T", "description": "D", "interval_name": "90% interval"}


def section(metrics: Any = None, **changes: Any) -> dict[str, Any]:
    given = {**copy.deepcopy(CERTIFICATE), **changes}
    (written,) = invariance_sections(given, metrics or METRICS)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    return written


def said(written: dict[str, Any]) -> str:
    return re.sub(r"</?strong>", "", " ".join(written["html_safe_paragraphs"]))


def cells(written: dict[str, Any]) -> dict[str, str]:
    return {row[0]: row[1] for row in written["table"]["rows"]}


def curve(**changes: Any) -> dict[str, Any]:
    return {**CERTIFICATE["curve"], **changes}


def test_without_a_certificate_nothing_is_said() -> None:
    assert invariance_sections(None, METRICS) == []


def test_the_section_says_question_answer_share_and_price() -> None:
    text = said(section())
    assert "Each of the 200 people in the test rows may be exchanged for a comparable one" in text
    assert "average squared fair distance between the two is at most 0.01 (the budget)" in text
    assert "On average they move by 0.030 (90% interval 0.025 to 0.035)" in text
    assert (
        "at most 25.0% of these people can have their odds of the positive answer changed by a factor" in text
    )
    # odds of 2 to 1 are two thirds, of 1 to 2 one third
    assert "a factor of 2 takes a probability of 50% to 67% or to 33%" in text
    assert "where the fair distance sees no difference; that alone gives 0.013" in text
    assert "the price is 1.500 per unit" in text
    # 1.5 times 0.01
    assert "twice the budget would buy at most 0.015 more" in text


def test_the_section_says_what_it_does_not_prove() -> None:
    text = said(section())
    for part in (
        "if the search for exchanges missed nothing, at most",
        "each person’s own squared distance, not the average alone, is at most the budget",
        "Markov’s bound",
        "a search can miss",
        "a lower bound",
        "A share of people that rests on it is no guarantee",
        "each feature within the range of the training rows",
        "each protected direction, along which the fair distance sees no difference, within its own",
        "only a move along such a direction may take a feature further",
        "not about what another training would give",
        "nothing about the individual",
    ):
        assert part in text


def test_every_number_of_the_certificate_is_in_a_table() -> None:
    written = section()
    assert cells(written) == {
        "People looked at": "200",
        "Budget (average squared fair distance)": "0.01",
        "Outputs move by (mean squared change of the logits)": "0.030",
        "90% interval": "0.025 to 0.035",
        "Price: movement per unit of further budget": "1.500",
        "People whose odds can change by a factor of 1.25 or more": "no bound",
        "People whose odds can change by a factor of 1.5 or more": "at most 73.1%",
        "People whose odds can change by a factor of 2 or more": "at most 25.0%",
        "People whose odds can change by a factor of 4 or more": "at most 6.3%",
    }
    assert written["folded"]["columns"] == ["Budget", "Outputs move by", "90% interval"]
    assert written["folded"]["rows"] == [
        ["0", "0.013", "0.000 to 0.020"],
        ["0.001", "0.020", "0.010 to 0.030"],
        ["0.01 (this job)", "0.030", "0.025 to 0.035"],
        ["0.1", "0.090", "0.080 to 0.100"],
    ]


@pytest.mark.parametrize(
    ("share", "shown"), [(0.25, "25.0%"), (0.25001, "25.1%"), (1e-7, "0.1%"), (0.3, "30.0%"), (0.0, "0.0%")]
)
def test_a_bound_is_rounded_up_so_that_it_stays_one(share: float, shown: str) -> None:
    assert f"at most {shown} of these people" in said(section(shares=[{"odds": 2.0, "share": share}]))


def test_where_two_bounds_nothing_the_next_factor_speaks() -> None:
    text = said(section(shares=[{"odds": 2.0, "share": 1.0}, {"odds": 4.0, "share": 0.5}]))
    assert "at most 50.0% of these people" in text
    # odds of 4 to 1 and 1 to 4
    assert "a factor of 4 takes a probability of 50% to 80% or to 20%" in text


def test_a_bound_of_everybody_is_not_sold_as_a_bound() -> None:
    text = said(section(shares=[{"odds": 2.0, "share": 1.0}, {"odds": 4.0, "share": 1.0}]))
    assert "at most 100" not in text
    assert "bounds no share of people" in text
    assert "by a factor of 4 or more" in text


def test_with_more_than_two_classes_there_are_no_odds() -> None:
    written = section(shares=[])
    assert "odds" not in said(written) + json.dumps(written["table"])
    assert "share" not in said(written) + written["table"]["caption"]
    assert "if the search missed nothing" in section()["table"]["caption"]


def test_people_drawn_from_more_are_called_so() -> None:
    text = said(section(metrics={**METRICS, "n": 9045}, people=5000))
    assert "Each of 5,000 people, drawn at random from the 9,045 in the test rows," in text
    assert "drawn" not in said(section())


def test_without_draws_there_is_one_budget_no_interval_and_no_picture() -> None:
    written = section(curve={"budgets": [0.01], "values": [VALUE], "low": None, "high": None})
    assert "On average they move by 0.030. This" in said(written)
    assert cells(written)["90% interval"] == "no interval"
    assert not {"svg", "svg_narrow", "folded"} & set(written)


def test_a_curve_without_intervals_is_drawn_without_a_band() -> None:
    written = section(curve=curve(low=None, high=None))
    assert 'class="span"' not in written["svg"]
    assert "90% interval" not in written["svg"]
    assert written["folded"]["rows"][1] == ["0.001", "0.020", "no interval"]


@pytest.mark.parametrize("noise", [0.0, 2e-14])
def test_a_network_that_nothing_moves_is_said_to_stand_still(noise: float) -> None:
    nothing = [noise] * 4
    written = section(
        value=noise,
        multiplier=0.0,
        curve=curve(values=nothing, low=nothing, high=nothing),
        shares=[{"odds": 2.0, "share": noise}],
    )
    text = said(written)
    assert "the outputs do not move (90% interval" in text
    assert "that moves nothing" in text
    assert "A larger budget would buy nothing." in text
    assert "a search can miss" in text
    # a logarithmic axis has no place for it
    assert "svg" not in written
    assert len(written["folded"]["rows"]) == 4


def test_a_budget_of_nothing_has_its_own_words_and_no_mark_in_the_picture() -> None:
    written = section(budget=0.0, value=0.0125, multiplier=8.0)
    text = said(written)
    assert "The budget is 0: people may only be exchanged where the fair distance sees no difference" in text
    assert "by at most 8.000 more per unit" in text
    assert "twice" not in text
    assert written["folded"]["rows"][0][0] == "0 (this job)"
    assert "this job" not in written["svg"]


def test_the_picture_leaves_a_budget_of_nothing_to_the_table() -> None:
    written = section()
    for image in (written["svg"], written["svg_narrow"]):
        root = parse(image)
        assert len([c for c in root.findall("circle") if c.get("class") == "dot"]) == 2
        assert "From 0.020 at a budget of 0.001 to 0.090 at 0.1" in (root.findtext("desc") or "")
    assert written["folded"]["rows"][0][0] == "0"


def test_the_section_fits_the_page_and_is_in_the_navigation() -> None:
    root = read(render_report({**example(), "sections": [section()]}))
    links = {a.text(): a.attrs["href"] for a in root.all("nav")[0].all("a")}
    assert links[TITLE] == "#extra-1"
    assert draw.text_width(TITLE, 15.2) <= 390 - 36
    (part,) = [s for s in root.all("section") if s.attrs.get("id") == "extra-1"]
    assert [("wide" in (i.attrs["class"] or ""), bool(i.all("desc"))) for i in part.all("svg")] == [
        (True, True),
        (False, True),
    ]


# ------------------------------------------------------------------------------------------------- the plot


@pytest.mark.parametrize("compact", [False, True])
def test_equal_ratios_have_equal_room_on_both_axes(compact: bool) -> None:
    root = parse(budget_plot(DOTS, own=0.01, compact=compact, **PLOT))
    (line,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "curve c0"]
    places = np.array(re.findall(r"[ML](\S+) (\S+?)(?=L|$)", line), dtype=float)
    across, up = np.diff(places, axis=0).T
    # budgets rise tenfold and tenfold, values by 2.5 and by 10
    assert across[0] == pytest.approx(across[1], abs=0.21)
    assert up[0] / up[1] == pytest.approx(math.log(2.5) / math.log(10), abs=0.01)
    assert (up < 0).all()


def vertices(root: ElementTree.Element) -> Any:
    (band,) = [p.get("d", "") for p in root.findall("path") if p.get("class") == "span"]
    return np.array(re.findall(r"[ML]([\d.]+) ([\d.]+)", band), dtype=float)


def test_the_band_goes_along_the_upper_ends_and_back_along_the_lower_ones() -> None:
    root = parse(budget_plot(DOTS, own=0.01, **PLOT))
    upper, lower = vertices(root)[:3], vertices(root)[:2:-1]
    np.testing.assert_array_equal(upper[:, 0], lower[:, 0])
    assert (upper[:, 1] < lower[:, 1]).all()
    # intervals of 3, 1.5 and 1.5 times
    heights = lower[:, 1] - upper[:, 1]
    np.testing.assert_allclose(heights[0] / heights[1:], math.log(3) / math.log(1.5), atol=0.03)


def test_an_interval_that_reaches_nothing_is_cut_inside_the_picture() -> None:
    points = [Point(0.001, 0.02, 0.0, 0.03), *DOTS[1:]]
    root = parse(budget_plot(points, own=0.01, **PLOT))
    ground = max(float(line.get("y1", 0)) for line in root.findall("line"))
    assert vertices(root)[:, 1].max() <= ground


def test_only_the_jobs_own_budget_is_marked_by_a_diamond() -> None:
    root = parse(budget_plot(DOTS, own=0.01, **PLOT))
    key, mark = [p.get("d", "") for p in root.findall("path") if p.get("class") == "paper"]
    (rule,) = [item for item in root.findall("line") if item.get("class") == "reference"]
    assert mark.startswith(f"M{rule.get('x1')} ")
    assert key != mark
    assert len(root.findall("circle")) == 2
    bare = parse(budget_plot(DOTS, own=0.02, **PLOT))
    assert [p for p in bare.findall("path") if p.get("class") == "paper"] == []
    assert len(bare.findall("circle")) == 3


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    "points",
    [
        DOTS,
        [Point(1e-9, 1e-8, 0.0, 1e-7), Point(1e3, 1e4, 1e4, 1e5)],
        [Point(0.01, 0.5, 0.49, 0.51), Point(0.0101, 0.5, 0.5, 0.5)],
        [Point(1e-6, 0.0612), Point(1e-5, 0.0613)],
    ],
)
def test_labels_stand_apart_whatever_the_range(points: list[Point], compact: bool) -> None:
    assert_apart(budget_plot(points, own=points[0].budget, compact=compact, **PLOT))


@given(st.floats(-12, 9), st.floats(0, 15), st.integers(2, 9))
def test_marks_cover_rise_and_are_few(power: float, decades: float, most: int) -> None:
    low, high = 10.0**power, 10.0 ** (power + decades)
    marks = log_marks(low, high, most)
    assert marks[0] <= low * (1 + 1e-6)
    assert marks[-1] >= high * (1 - 1e-6)
    assert 2 <= len(marks) <= most
    assert all(after > before for before, after in zip(marks, marks[1:], strict=False))
    for mark in marks:
        assert f"{mark:.6e}"[:8] in ("1.000000", "2.000000", "5.000000")


def test_marks_by_hand() -> None:
    assert log_marks(0.03, 0.6, 7) == [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert log_marks(1e-4, 1.0, 8) == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    assert log_marks(1e-4, 1.0, 3) == [1e-4, 1e-2, 1.0]
    assert log_marks(0.5, 0.5, 5) == [0.5, 1.0]
    assert log_marks(0.5, 5.0, 2) == [0.1, 10.0]
    # three times 0.1 is a little more than 0.3, a tenth of 0.01 may be a little less than 0.001
    assert log_marks(0.001 * (1 - 1e-15), 10 * (1 + 1e-15), 5) == [0.001, 0.01, 0.1, 1.0, 10.0]


# ------------------------------------------------------------------------------------------------ real runs


def test_what_a_real_certificate_says_holds_for_every_exchange_within_the_budget(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 2)).astype(np.float32)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    weights = np.array([[0.3, 0.1], [-0.4, 0.2]], dtype=np.float32)
    layer = nn.Linear(2, 2)
    layer.weight.data = torch.from_numpy(weights)
    found = certify(nn.Sequential(layer), X, metric, [0.01, 0.0, 0.1], draws=0)
    content = json.loads(json.dumps(certificate_content(found)))
    (written,) = invariance_sections(content, {"n": 40})
    # of a linear model the worst exchange is at an end of both ranges: x1 anywhere, x2 by 0.1 at most
    low, high = metric.feature_bounds_.low, metric.feature_bounds_.high
    ends = [
        np.stack([np.full(40, end), np.clip(X[:, 1] + move, low[1], high[1])], axis=1) - X
        for end in (low[0], high[0])
        for move in (-0.1, 0.1)
    ]
    logits = np.stack([move @ weights.T for move in ends])
    change = np.abs(logits[..., 1] - logits[..., 0]).max(axis=0)
    for item in content["shares"]:
        row = cells(written)[f"People whose odds can change by a factor of {item['odds']:g} or more"]
        shown = re.fullmatch(r"at most ([\d.]+)%", row)
        if shown is None:
            assert row == "no bound"
            continue
        assert float(shown[1]) >= 100 * (change >= math.log(item["odds"])).mean()
    assert "at most" in cells(written)["People whose odds can change by a factor of 4 or more"]
    gained = content["curve"]["values"][2] - content["value"]
    assert 0 < gained <= content["multiplier"] * 0.09 + 1e-9


class _Folder:
    """As much of a store as reading takes."""

    def fetch(self, path: Path) -> Path:
        return path


def run_with(folder: Path, step: str, **contents: Any) -> Any:
    outputs = {}
    for name, content in contents.items():
        outputs[name] = folder / f"{name}.json"
        outputs[name].write_text(json.dumps(content))
    records = {step: SimpleNamespace(outputs=outputs)}
    return SimpleNamespace(records=records, output=lambda _, name: outputs[name])


def test_a_run_with_a_certificate_has_the_section(tmp_path: Path) -> None:
    store: Any = _Folder()
    run = run_with(tmp_path, "evaluate", certificate=CERTIFICATE)
    assert [part["title"] for part in run_outputs._sections(store, run, METRICS)] == [TITLE]


def test_the_history_of_a_network_is_drawn_over_its_own_steps(tmp_path: Path) -> None:
    history = {
        "step": [50.0, 100.0, 120.0],
        "loss": [3.0, 2.0, 1.5],
        "classification_loss": [0.9, 0.8, 0.7],
        "multiplier": [1.0, 2.0, 3.0],
    }
    store: Any = _Folder()
    drawn = run_outputs._training(store, run_with(tmp_path, "train", history=history))
    assert drawn is not None
    assert drawn["steps"] == [50, 100, 120]
    assert drawn["series"] == {"classification_loss": [0.9, 0.8, 0.7], "loss": [3.0, 2.0, 1.5]}


def test_the_history_of_boosting_has_an_entry_a_step(tmp_path: Path) -> None:
    history = {"loss": [3.0, 2.0], "adversarial_loss": [4.0, 3.5], "spent": [0.1, 0.1]}
    store: Any = _Folder()
    drawn = run_outputs._training(store, run_with(tmp_path, "train", history=history))
    assert drawn == {"steps": [1, 2], "series": {"adversarial_loss": [4.0, 3.5], "loss": [3.0, 2.0]}}


def test_thinned_curves_say_how_many_steps_there_were() -> None:
    steps = [50 * (k + 1) for k in range(200)]
    training = {"steps": steps, "series": {"loss": [1 / step for step in steps]}}
    assert "60 of 10,000 steps" in read(render_report({**example(), "training": training})).text()
