"""Sections on the adversary: sentences say what the numbers say; no small number can be worked out."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from html_tree import Node, read
from report_example import example
from test_report_svg import assert_apart, parse

from evenhand.fairlib.evaluation.audit import audit_losses
from evenhand.flows import run_outputs
from evenhand.tasks.dataset import Dataset
from evenhand.tasks.evaluate import audit_content, visible_counts
from evenhand.tasks.reporting import charts, draw
from evenhand.tasks.reporting.adversary import adversary_sections
from evenhand.tasks.reporting.context import parse_context
from evenhand.tasks.reporting.page import render_report

LN2 = math.log(2)
HOSTILE = '<script>alert("1")</script>&'
CERTIFICATE, BY_AGE, WORST, COST = (
    "Treated as comparable others",
    "Treated as whom, by age",
    "The most unfairly treated",
    "What fairness cost",
)

# Probabilities of the truth: 1/2 as people are, 1/4 in the worst case.
AUDIT: dict[str, Any] = {
    "budget": 0.5,
    "loss": LN2,
    "adversarial_loss": 2 * LN2,
    "gap": {"value": LN2, "low": 0.5, "high": 0.8},
    "multiplier": 0.25,
    "spent": 0.5,
    "people": 200,
    "moved": 50,
    "distances": {"edges": [0.0, 0.5, 1.0, 1.5], "counts": [10, 0, 40]},
    "flows": {"age": {"groups": ["<25", ">=25"], "counts": [[30, 10], [20, 140]]}},
    "pairs": [
        {
            "row": 12345,
            "treated_as": 7,
            "distance": 0.0,
            "loss": 0.1,
            "loss_treated_as": 2.1,
            "revealed_loss": 2.0,
        },
        {
            "row": 3,
            "treated_as": 12345,
            "distance": 1.5,
            "loss": 0.25,
            "loss_treated_as": 0.2512,
            "revealed_loss": 0.0012,
        },
    ],
}


def metric(value: float | None) -> dict[str, Any]:
    return {"value": value, "low": None, "high": None, "status": "ok" if value is not None else "few"}


def measured(**values: float | None) -> dict[str, Any]:
    """Content of metrics.json over 40 and 160 people; a double underscore stands for the dot of a name."""
    cells = [("<25", 0, 22), ("<25", 1, 18), (">=25", 0, 100), (">=25", 1, 60)]
    return {
        "n": 200,
        "settings": {"level": 0.9, "min_cell": 5},
        "metrics": {name.replace("__", "."): metric(value) for name, value in values.items()},
        "counts": {
            "age": [{"group": g, "label": y, "n": n, "predicted_positive": 1} for g, y, n in cells],
        },
    }


METRICS = measured(accuracy=0.7, balanced_accuracy=0.65, consistency__sex=0.9, gap_max__age=0.1, auc=0.75)
METRICS["metrics"]["certificate.drf"] = metric(LN2)
WITHOUT = {
    "accuracy": 0.7,
    "balanced_accuracy": 0.7,
    "consistency.sex": 0.95,
    "gap_max.age": 0.2,
    "certificate.drf": 0.9,
}


def audit(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(AUDIT), **changes}


def sections(
    found: dict[str, Any] | None = None,
    without: Mapping[str, float | None] | None = None,
    metrics: dict[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    written = adversary_sections(found or audit(), without, metrics or METRICS)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    return {section["title"]: section for section in written}


def said(section: dict[str, Any]) -> str:
    return re.sub(r"</?(strong|code)>", "", " ".join(section["html_safe_paragraphs"]))


def cells(section: dict[str, Any]) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in section["table"]["rows"]}


def page(written: list[dict[str, Any]]) -> Node:
    return read(render_report({**example(), "sections": written}))


def test_without_a_certificate_nothing_is_said() -> None:
    assert adversary_sections(None, WITHOUT, METRICS) == []


def test_every_part_with_data_has_its_section_in_the_order_of_reading() -> None:
    assert list(sections(without=WITHOUT)) == [CERTIFICATE, BY_AGE, WORST, COST]


@pytest.mark.parametrize(
    ("title", "found", "without"),
    [
        (BY_AGE, {"flows": {}}, WITHOUT),
        (BY_AGE, {"flows": {"age": {"groups": ["all"], "counts": [[200]]}}}, WITHOUT),
        (WORST, {"pairs": []}, WITHOUT),
        (COST, {}, None),
        (COST, {}, {"of_another_kind": 0.5}),
    ],
)
def test_a_part_without_data_is_left_out(title: str, found: Any, without: Any) -> None:
    assert set(sections(without=WITHOUT)) - set(sections(audit(**found), without)) == {title}


def test_sections_fit_the_page_and_their_titles_are_in_the_navigation() -> None:
    root = page(list(sections(without=WITHOUT).values()))
    links = {a.text(): a.attrs["href"] for a in root.all("nav")[0].all("a")}
    for title in (CERTIFICATE, BY_AGE, WORST, COST):
        (section,) = [s for s in root.all("section") if f"#{s.attrs.get('id')}" == links[title]]
        assert section.all("h2")[0].text() == title
        # one line of a phone: 390 pixels less the margins
        assert draw.text_width(title, 15.2) <= 390 - 36


def test_the_certificate_says_question_answer_movers_and_price() -> None:
    certificate = sections()[CERTIFICATE]
    text = said(certificate)
    assert "How much would the average loss rise" in text
    assert "average squared fair distance between the two is at most 0.5 (the budget)" in text
    assert "rises by 0.693 (90% interval 0.500 to 0.800), from 0.693 to 1.386" in text
    assert "the truth a probability of 50.0%; at 1.386 it would be 25.0%" in text
    assert "50 of 200 people (25.0%) are moved" in text
    assert "The budget was spent in full" in text
    assert "0.250 more loss per unit of further budget" in text
    assert "twice the budget would reveal at most 0.125 more" in text
    assert text.count("nats") == 1
    assert cells(certificate) == {
        "Average loss as people are": ["0.693"],
        "Average loss in the worst case": ["1.386"],
        "Rise": ["0.693"],
        "90% interval of the rise": ["0.500 to 0.800"],
        "People moved": ["50 of 200 (25.0%)"],
        "Budget (average squared fair distance)": ["0.5"],
        "Budget spent": ["0.5"],
        "Price: more loss per unit of further budget": ["0.250"],
    }


def test_a_tiny_rise_keeps_its_digits() -> None:
    small = audit(
        loss=0.69100, adversarial_loss=0.69218, gap={"value": 0.00118, "low": 0.00112, "high": 0.00123}
    )
    text = said(sections(small)[CERTIFICATE])
    assert "rises by 0.00118 (90% interval 0.00112 to 0.00123), from 0.6910 to 0.6922" in text
    # exp(-0.691) = 0.50107 and exp(-0.69218) = 0.50048
    assert "probability of 50.11%; at 0.6922 it would be 50.05%" in text


@pytest.mark.parametrize("noise", [0.0, 2e-16, -2e-16])
def test_what_rounding_leaves_of_a_rise_is_no_rise(noise: float) -> None:
    still = audit(
        adversarial_loss=LN2 + noise, gap={"value": noise, "low": noise, "high": 0.0}, multiplier=0.0, moved=0
    )
    text = said(sections(still)[CERTIFICATE])
    assert "does not rise (90% interval 0.000 to 0.000), it stays at 0.693" in text
    assert "e-" not in text
    assert "A larger budget would reveal no more loss." in text


def test_without_draws_no_interval_is_made_up() -> None:
    certificate = sections(audit(gap={"value": LN2, "low": None, "high": None}))[CERTIFICATE]
    assert "rises by 0.693, from" in said(certificate)
    assert cells(certificate)["90% interval of the rise"] == ["no interval"]


def test_a_budget_that_was_not_spent_has_no_price() -> None:
    certificate = sections(audit(spent=0.125, multiplier=0.0))[CERTIFICATE]
    assert "Only 0.125 of the budget of 0.5 was spent" in said(certificate)
    assert "spent in full" not in said(certificate)
    assert cells(certificate)["Budget spent"] == ["0.125"]


def test_a_budget_of_nothing_is_not_called_spent() -> None:
    text = said(sections(audit(budget=0.0, spent=0.0))[CERTIFICATE])
    assert "only be exchanged where the fair distance sees no difference" in text
    assert "spent" not in text


@pytest.mark.parametrize("seed", range(5))
def test_twice_the_budget_reveals_no_more_than_the_price_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses, points = rng.exponential(size=(2, 60)), rng.normal(size=(60, 2))
    labels = rng.integers(0, 2, 60)
    once, twice = (audit_losses(losses, points, labels, budget, draws=0) for budget in (0.05, 0.1))
    assert twice.gap - once.gap <= once.multiplier * once.budget + 1e-12
    assert twice.gap > once.gap


def test_the_picture_speaks_and_every_number_of_it_is_in_a_table() -> None:
    (certificate,) = adversary_sections(audit(flows={}, pairs=[]), None, METRICS)
    root = page([certificate])
    (section,) = [s for s in root.all("section") if s.attrs.get("id") == "extra-1"]
    wide, narrow = section.all("svg")
    for image, form in ((wide, "wide"), (narrow, "narrow")):
        assert form in (image.attrs["class"] or "").split()
        assert image.all("title")[0].text() == "How far people are moved"
        (description,) = image.all("desc")
        assert "50 people by fair distance. The fullest range is 1.00 to 1.50, with 40." in description.text()
    (folded,) = section.all("details")
    rows = [[c.text() for c in row.all("th", "td")] for row in folded.all("tbody")[0].all("tr")]
    assert rows == [["0.00 to 0.50", "10"], ["0.50 to 1.00", "0"], ["1.00 to 1.50", "40"]]


def test_too_few_moved_for_a_picture_have_none_and_it_is_said() -> None:
    certificate = sections(audit(distances=None, moved=3))[CERTIFICATE]
    assert not {"svg", "svg_narrow", "folded"} & set(certificate)
    assert "too few for a picture" in said(certificate)
    assert "picture" not in said(sections(audit(distances=None, moved=0))[CERTIFICATE])


def test_the_map_has_shares_of_the_row_with_counts() -> None:
    by_age = sections()[BY_AGE]
    assert by_age["table"]["columns"] == ["People of group", "treated as “<25”", "treated as “>=25”"]
    assert cells(by_age) == {"“<25”": ["75.0% (30)", "25.0% (10)"], "“>=25”": ["12.5% (20)", "87.5% (140)"]}
    root = page(list(sections().values()))
    assert "30 of 200 people (15.0%) are treated as somebody of another group" in root.text()
    assert "25.0% of “<25” are treated as “>=25”" in root.text()
    assert "not shown" not in said(by_age)


def test_a_map_where_nobody_crosses_says_so() -> None:
    text = said(
        sections(audit(flows={"age": {"groups": ["<25", ">=25"], "counts": [[40, 0], [0, 160]]}}))[BY_AGE]
    )
    assert "Nobody is treated as somebody of another group by age." in text


def test_a_small_number_hides_its_row_and_the_sum_says_only_at_least() -> None:
    flow = {"groups": ["<25", ">=25"], "counts": [[None, None], [20, 140]]}
    by_age = sections(audit(flows={"age": flow}))[BY_AGE]
    assert cells(by_age) == {"“<25”": ["not shown", "not shown"], "“>=25”": ["12.5% (20)", "87.5% (140)"]}
    assert "At least 20 of 200 people (10.0%)" in said(by_age)
    assert "fewer than 5 people" in said(by_age)


def test_nothing_is_claimed_where_every_number_of_another_group_is_hidden() -> None:
    flow = {"groups": ["<25", ">=25"], "counts": [[None, None], [None, None]]}
    text = said(sections(audit(flows={"age": flow}))[BY_AGE])
    assert "Nobody" not in text
    assert "cannot be shown" in text


def test_rows_whose_size_the_page_does_not_show_have_counts_alone() -> None:
    flow = {"groups": ["a", "b", "c"], "counts": [[50, None, None], [0, 70, 7], [8, 6, 40]]}
    by_age = sections(audit(flows={"age": flow}), metrics={**METRICS, "counts": {}})[BY_AGE]
    shown = cells(by_age)
    assert shown["“a”"] == ["50", "not shown", "not shown"]
    assert shown["“b”"] == ["0.0% (0)", "90.9% (70)", "9.1% (7)"]
    assert "At least 21 people are treated" in said(by_age)


def splits(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in splits(n - first, parts - 1):
            yield (first, *rest)


@pytest.mark.parametrize(("groups", "min_cell"), list(itertools.product((2, 3, 4), (3, 4, 5))))
def test_no_hidden_small_number_follows_from_the_page_even_for_those_who_know_the_rule(
    groups: int, min_cell: int
) -> None:
    names = [f"g{i}" for i in range(groups)]
    counts: list[list[int | None]] = [[20 if i == j else 0 for j in range(groups)] for i in range(groups)]
    seen = 0
    for size in range(1, 13):
        given = [{"group": name, "label": 0, "n": size if name == "g0" else 20} for name in names]
        metrics = {**METRICS, "counts": {"age": given}, "settings": {"level": 0.9, "min_cell": min_cell}}
        looks = defaultdict(list)
        for true in splits(size, groups):
            counts[0] = visible_counts(true, min_cell)
            flow = {"groups": names, "counts": counts}
            section = sections(audit(flows={"age": flow}), metrics=metrics)[BY_AGE]
            # all that is said, sentences included
            looks[json.dumps(section, sort_keys=True)].append((true, list(counts[0])))
        for rows in looks.values():
            for i in range(groups):
                if any(suppressed[i] is None and 0 < true[i] < min_cell for true, suppressed in rows):
                    seen += 1
                    assert len({true[i] for true, _ in rows}) > 1, rows
    assert seen > 20


def test_a_map_of_a_real_audit_adds_up_to_the_people(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 300
    group = rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05])
    found = audit_losses(
        rng.exponential(size=(2, n)), rng.normal(size=(n, 2)), rng.integers(0, 2, n), 0.5, draws=0
    )
    data = Dataset(
        X=np.zeros((n, 1), dtype=np.float32),
        y=np.zeros(n, dtype=np.int64),
        rows=np.arange(n) * 2,
        names=["x"],
        groups={},
        sensitive={"kind": group.astype(object)},
        numbers={},
    )
    content = json.loads(json.dumps(audit_content(found, data, 5)))
    certificate, by_kind, worst = adversary_sections(content, None, {"metrics": {}})
    whole = 0
    for name, row in cells(by_kind).items():
        shown = [re.fullmatch(r"([\d.]+)% \((\d+)\)", cell) for cell in row]
        if all(shown):
            whole += 1
            assert sum(int(cell[2]) for cell in shown if cell) == (group == name.strip("“”")).sum()
            assert sum(float(cell[1]) for cell in shown if cell) == pytest.approx(100, abs=0.2)
    assert whole > 0
    assert f"{(found.distance > 0).sum()} of 300 people" in said(certificate)
    rise = found.target_loss - found.own_loss
    assert worst["table"]["rows"][0][0] == str(2 * int(np.argmax(rise)))
    assert worst["table"]["rows"][0][-1] == f"{rise.max():.3f}"


def test_pairs_are_named_by_plain_row_numbers_and_nothing_else() -> None:
    worst = sections()[WORST]
    assert worst["table"]["rows"] == [
        ["12345", "7", "0", "0.100", "2.100", "2.000"],
        ["3", "12345", "1.500", "0.2500", "0.2512", "0.0012"],
    ]
    text = said(worst)
    assert "The 2 people" in text
    assert "count from 0 in the ingested table" in text
    assert "pairs.parquet" in text
    assert "No other data of these people is shown" in text
    assert "At a fair distance of 0" in text
    apart = audit(pairs=AUDIT["pairs"][1:])
    assert "At a fair distance of 0" not in said(sections(apart)[WORST])
    assert "The person whose" in said(sections(apart)[WORST])


def test_the_cost_table_compares_what_both_have() -> None:
    cost = sections(without={**WITHOUT, "gap_rms.age": 0.3})[COST]
    assert cells(cost) == {
        "Accuracy": ["0.700", "0.700", "0", "equal"],
        "Balanced accuracy": ["0.650", "0.700", "\u22120.050", "worse"],
        "Same answer for copies differing in sex": ["0.900", "0.950", "\u22120.050", "worse"],
        "Largest gap in right answers by age": ["0.100", "0.200", "\u22120.100", "better"],
        "Worst loss for similar people": ["0.693", "0.900", "\u22120.207", "better"],
    }
    text = said(cost)
    assert "Balanced accuracy is 65.0% with the adversary and 70.0% without it: a price of 5.0" in text
    assert (
        "Better with the adversary: worst loss for similar people (0.693 instead of 0.900); largest gap in "
        "right answers by age (0.100 instead of 0.200)." in text
    )
    assert (
        "Worse with the adversary: same answer for copies differing in sex (0.900 instead of 0.950)." in text
    )
    assert "Equal" not in text


@pytest.mark.parametrize(
    ("own", "plain", "verdict"),
    [
        (0.65, 0.7, "a price of 5.0 percentage points"),
        (0.7, 0.65, "no price, for it is 5.0 percentage points higher"),
        (0.7, 0.7, "no price that shows"),
        (0.7, 0.7004, "no price that shows"),
    ],
)
@pytest.mark.parametrize("name", ["balanced_accuracy", "accuracy"])
def test_the_price_is_true_whichever_sign_it_has(name: str, own: float, plain: float, verdict: str) -> None:
    assert verdict in said(sections(without={name: plain}, metrics=measured(**{name: own}))[COST])


@pytest.mark.parametrize(
    ("name", "higher", "lower"),
    [("certificate.drf", "Worse", "Better"), ("consistency.sex", "Better", "Worse")],
)
def test_what_was_bought_follows_the_direction_that_is_better(name: str, higher: str, lower: str) -> None:
    metrics = measured(**{name.replace(".", "__"): 0.5})
    for plain, expected in ((0.4, higher), (0.6, lower), (0.5, "Equal"), (0.5 + 1e-16, "Equal")):
        text = said(sections(without={name: plain}, metrics=metrics)[COST])
        assert [word for word in ("Better", "Worse", "Equal") if word in text] == [expected]


def test_a_metric_without_evidence_is_not_compared() -> None:
    metrics = measured(accuracy=0.7, gap_max__age=None, gap_max__sex=0.1)
    cost = sections(without={"accuracy": 0.6, "gap_max.age": 0.2, "gap_max.sex": None}, metrics=metrics)[COST]
    assert cells(cost)["Largest gap in right answers by age"][:3] == [
        "not enough evidence",
        "0.200",
        "cannot be told",
    ]
    assert cells(cost)["Largest gap in right answers by sex"][:3] == [
        "0.100",
        "not enough evidence",
        "cannot be told",
    ]
    assert "largest gap" not in said(cost)


def test_intersections_stand_in_the_table_alone() -> None:
    metrics = measured(accuracy=0.7)
    metrics["metrics"]["gap_max.sex&race"] = metric(0.3)
    cost = sections(without={"accuracy": 0.7, "gap_max.sex&race": 0.4}, metrics=metrics)[COST]
    assert "Largest gap in right answers by sex and race" in cells(cost)
    assert "sex and race" not in said(cost)


def test_tiny_certificates_are_told_apart() -> None:
    cost = sections(without={"certificate.drf": 0.00658}, metrics=measured(certificate__drf=0.00118))[COST]
    assert cells(cost)["Worst loss for similar people"] == ["0.0012", "0.0066", "\u22120.0054", "better"]
    assert "(0.0012 instead of 0.0066)" in said(cost)


def test_hostile_names_stay_text() -> None:
    groups = [HOSTILE, "<b>25"]
    metrics = measured(accuracy=0.7)
    metrics["metrics"][f"gap_max.{HOSTILE.replace('&', '')}"] = metric(0.5)
    without: dict[str, float | None] = dict.fromkeys(metrics["metrics"], 0.4)
    found = audit(flows={HOSTILE: {"groups": groups, "counts": [[30, 10], [5, 155]]}})
    root = page(adversary_sections(found, without, metrics))
    assert not root.all("script")
    assert any(f"of “{HOSTILE}” are treated as “<b>25”" in p.solid() for p in root.all("p"))


def test_a_section_needs_its_wide_picture_beside_the_narrow_one() -> None:
    image = charts.histogram([0, 1], [5], uid="u", title="T", description="D", axis="A", compact=True)
    context = {**example(), "sections": [{"title": "A", "svg_narrow": image}]}
    with pytest.raises(ValueError, match="sections.0: svg_narrow needs svg"):
        parse_context(context)


def test_the_narrow_picture_may_only_draw_too() -> None:
    image = charts.histogram([0, 1], [5], uid="u", title="T", description="D", axis="A")
    hostile = image.replace("<svg ", '<svg onload="alert(1)" ')
    with pytest.raises(ValueError, match="nothing that acts"):
        page([{"title": "A", "svg": image, "svg_narrow": hostile}])


@pytest.mark.parametrize(("first", "scrolls"), [("A metric with a long name by sex", True), ("12345", False)])
def test_a_narrow_page_scrolls_a_table_before_it_squeezes_long_names(first: str, scrolls: bool) -> None:
    grid = {"caption": "C", "columns": ["a", "b", "c", "d"], "rows": [[first, 1, 2, 3]]}
    root = page([{"title": "A", "table": grid}])
    (table,) = [t for t in root.all("table") if t.all("caption")[0].text() == "C"]
    assert ("wide-table" in (table.attrs.get("class") or "")) == scrolls


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    ("edges", "counts"),
    [
        ([0.0, 0.25, 0.5, 1.0], [10, 0, 40]),
        (np.linspace(0, 3.57, 13).tolist(), [1, 355, 120, 38, 14, 67, 23, 18, 10, 5, 7, 4]),
        (np.linspace(0, 0.0123, 13).tolist(), [123456] * 12),
        ([0.0, 7000.0], [1]),
    ],
)
def test_bars_have_the_heights_of_the_counts_and_stand_between_their_edges(
    edges: list[float], counts: list[int], compact: bool
) -> None:
    image = charts.histogram(
        edges, counts, uid="u", title="T", description="D", axis="fair distance " * 5, compact=compact
    )
    root = parse(image)
    bars = [
        [float(r.get(k, 0)) for k in ("x", "y", "width", "height")]
        for r in root.findall("rect")
        if r.get("class") == "bar"
    ]
    drawn = [(left, right, n) for left, right, n in zip(edges, edges[1:], counts, strict=False) if n]
    assert len(bars) == len(drawn)
    (axis,) = [line for line in root.findall("line") if line.get("class") == "axis"]
    ground, most = float(axis.get("y1", 0)), max(counts)
    tallest = max(bar[3] for bar in bars)
    # one pixel of air on each side of a bar
    scale = (bars[-1][0] + bars[-1][2] + 1 - (bars[0][0] - 1)) / (drawn[-1][1] - drawn[0][0])
    for (x, y, width, height), (left, right, n) in zip(bars, drawn, strict=True):
        assert y + height == pytest.approx(ground, abs=0.11)
        assert height == pytest.approx(max(tallest * n / most, 1.5), abs=0.2)
        assert width + 2 == pytest.approx(scale * (right - left), abs=0.2)
        assert x - 1 == pytest.approx(bars[0][0] - 1 + scale * (left - drawn[0][0]), abs=0.2)
    assert_apart(image)


def test_the_axis_counts_whole_people() -> None:
    image = charts.histogram([0, 1, 2], [1, 1], uid="u", title="T", description="D", axis="A")
    texts = [t.text for t in parse(image).iter("text") if t.get("text-anchor") == "end"]
    assert texts == ["0", "1"]


def test_text_of_a_histogram_is_escaped() -> None:
    image = charts.histogram([0, 1], [1], uid="u", title=HOSTILE, description=HOSTILE, axis=HOSTILE)
    root = parse(image)
    assert list(root.iter("script")) == []
    assert root.findtext("title") == HOSTILE


class _Folder:
    """As much of a store as reading takes."""

    def fetch(self, path: Path) -> Path:
        return path


@pytest.mark.parametrize("given", [(), ("audit",), ("audit", "without_adversary")])
def test_a_run_tells_what_its_evaluation_left(given: tuple[str, ...], tmp_path: Path) -> None:
    contents: dict[str, Any] = {"audit": audit(), "without_adversary": WITHOUT}
    outputs = {}
    for name in given:
        outputs[name] = tmp_path / f"{name}.json"
        outputs[name].write_text(json.dumps(contents[name]))
    run: Any = SimpleNamespace(records={"evaluate": SimpleNamespace(outputs=outputs)})
    store: Any = _Folder()
    titles = [section["title"] for section in run_outputs._sections(store, run, METRICS)]
    expected = [CERTIFICATE, BY_AGE, WORST, COST]
    assert titles == expected[: (0, 3, 4)[len(given)]]
