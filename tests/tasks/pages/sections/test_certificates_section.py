"""Sections on the adversary: sentences say what the numbers say; no small number can be
worked out.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from page_blocks import charts, headings, rows, said, table

from evenhand.fairlib.evaluation.transport_adversary import audit_losses
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.pages.build import render
from evenhand.tasks.pages.page_model import Front, Page, Section
from evenhand.tasks.pages.sections import certificates_section as certificates
from evenhand.tasks.steps.evaluate_step import audit_content, visible_counts

LN2 = math.log(2)
HOSTILE = '<script>alert("1")</script>&'
BY_AGE, PAIRS = "Who is treated as whom, by age", "The people whose loss rises most"

# Probabilities of the true label: 1/2 as people are, 1/4 in the worst case.
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
            "loss_treated_as": 0.2502,
            "revealed_loss": 0.0002,
        },
    ],
}


def metric(value: float | None) -> dict[str, Any]:
    return {
        "value": value,
        "low": None,
        "high": None,
        "status": "ok" if value is not None else "few",
    }


def measured(**values: float | None) -> dict[str, Any]:
    """Content of metrics.json over 40 and 160 people; a double underscore stands for the dot of a
    name.
    """
    cells = [("<25", 0, 22), ("<25", 1, 18), (">=25", 0, 100), (">=25", 1, 60)]
    return {
        "n": 200,
        "settings": {"level": 0.9, "min_cell": 5},
        "metrics": {name.replace("__", "."): metric(value) for name, value in values.items()},
        "counts": {
            "age": [{"group": g, "label": y, "n": n, "predicted_positive": 1} for g, y, n in cells]
        },
    }


METRICS = measured(
    accuracy=0.7, balanced_accuracy=0.65, consistency__sex=0.9, gap_max__age=0.1, auc=0.75
)
METRICS["metrics"]["certificate.drf"] = metric(LN2)


def audit(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(AUDIT), **changes}


def sections(
    found: dict[str, Any] | None = None,
    metrics: dict[str, Any] | None = None,
) -> dict[str, Section]:
    documents = {"audit": found or audit(), "metrics": metrics or METRICS}
    return {section.id: section for section in certificates.build(documents)}


def flow(counts: list[list[int | None]], *groups: str) -> dict[str, Any]:
    return audit(flows={"age": {"groups": list(groups) or ["<25", ">=25"], "counts": counts}})


def by_age(section: Section) -> dict[str, list[str]]:
    return rows(table(section, "Part of each group by age"))


def test_every_part_with_data_is_on_the_page_in_order() -> None:
    """The order is that of reading."""
    found = sections()
    assert list(found) == ["audit"]
    assert headings(found["audit"]) == [BY_AGE, PAIRS]


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({"flows": {}}, [PAIRS]),
        ({"flows": {"age": {"groups": ["all"], "counts": [[200]]}}}, [PAIRS]),
        ({"pairs": []}, [BY_AGE]),
    ],
)
def test_a_part_without_data_is_left_out(found: Any, left: list[str]) -> None:
    assert headings(sections(audit(**found))["audit"]) == left


def test_the_certificate_says_question_answer_movers_and_price() -> None:
    section = sections()["audit"]
    for text in (
        "How much does the mean loss rise",
        "the mean squared fair distance between the two is at most 0.5 (the budget)",
        "rises by 0.693 (90% interval 0.500 to 0.800), from 0.693 to 1.386",
        "a probability of 0.500 has a mean loss of 0.693; at 1.386 the probability is 0.250",
        "50 of 200 people (25.0%) are moved",
        "The budget was spent in full",
        "the price is 0.250 per unit of further budget",
        "with twice the budget, the loss would rise by at most 0.125 more",
    ):
        assert text in said(section)


def test_a_tiny_rise_keeps_its_digits() -> None:
    small = audit(
        loss=0.69100,
        adversarial_loss=0.69124,
        gap={"value": 0.00024, "low": 0.00022, "high": 0.00026},
    )
    text = said(sections(small)["audit"])
    assert "rises by 0.00024 (90% interval 0.00022 to 0.00026), from 0.6910 to 0.6912" in text
    # exp(-0.691) = 0.50107 and exp(-0.69124) = 0.50095
    assert (
        "probability of 0.5011 has a mean loss of 0.6910; at 0.6912 the probability is 0.5010"
        in text
    )


@pytest.mark.parametrize("noise", [0.0, 2e-16, -2e-16])
def test_what_rounding_leaves_of_a_rise_is_no_rise(noise: float) -> None:
    still = audit(
        adversarial_loss=LN2 + noise,
        gap={"value": noise, "low": noise, "high": 0.0},
        multiplier=0.0,
        moved=0,
    )
    section = sections(still)["audit"]
    assert "does not rise (90% interval 0.000 to 0.000): it stays at 0.693" in said(section)
    assert "A larger budget would not raise the loss further." in said(section)
    assert "e-" not in said(section)


def test_without_draws_no_interval_is_made_up() -> None:
    section = sections(audit(gap={"value": LN2, "low": None, "high": None}))["audit"]
    assert "rises by 0.693, from" in said(section)
    assert "interval" not in said(section)


def test_a_budget_that_was_not_spent_has_no_price() -> None:
    section = sections(audit(spent=0.125, multiplier=0.0))["audit"]
    assert "Only 0.125 of the budget of 0.5 was spent. A larger budget would not" in said(section)
    assert "spent in full" not in said(section)


def test_a_budget_of_0_is_not_called_spent() -> None:
    text = said(sections(audit(budget=0.0, spent=0.0))["audit"])
    assert "people may be exchanged only where the fair distance is 0" in text
    assert "spent" not in text


def test_twice_the_budget_raises_the_loss_by_the_price_at_most() -> None:
    rng = np.random.default_rng(0)
    losses, points = rng.exponential(size=(2, 60)), rng.normal(size=(60, 2))
    labels = rng.integers(0, 2, 60)
    once, twice = (audit_losses(losses, points, labels, budget, draws=0) for budget in (0.05, 0.1))
    assert 0 < twice.gap - once.gap <= once.multiplier * once.budget + 1e-12


def test_the_charts_numbers_are_in_a_table() -> None:
    """The chart says what it shows."""
    (chart,) = charts(sections()["audit"])
    assert chart.plot == "group_charts.histogram"
    assert "The fullest range is 1.000 to 1.500, with 40 of 50 people." in chart.description
    assert chart.table is not None
    assert rows(chart.table) == {
        "0.000 to 0.500": ["10"],
        "0.500 to 1.000": ["0"],
        "1.000 to 1.500": ["40"],
    }


def test_too_few_moved_for_a_chart_have_none_and_it_is_said() -> None:
    section = sections(audit(distances=None, moved=3))["audit"]
    assert not charts(section)
    assert "Too few people are moved for a chart" in said(section)
    assert "chart" not in said(sections(audit(distances=None, moved=0))["audit"])


def test_the_map_has_shares_of_the_row_with_counts() -> None:
    section = sections()["audit"]
    columns = table(section, "Part of each group").columns
    assert list(columns) == ["People of", "treated as “<25”", "treated as “>=25”"]
    assert by_age(section) == {
        "“<25”": ["75.0% | 30", "25.0% | 10"],
        "“>=25”": ["12.5% | 20", "87.5% | 140"],
    }
    assert "30 of 200 people (15.0%) are treated as a person of another group" in said(section)
    assert "not shown" not in said(section)


def test_a_map_where_nobody_crosses_says_so() -> None:
    text = said(sections(flow([[40, 0], [0, 160]]))["audit"])
    assert "Nobody is treated as a person of another group by age." in text


def test_a_small_number_hides_its_row() -> None:
    """The sum says only "at least"."""
    section = sections(flow([[None, None], [20, 140]]))["audit"]
    assert by_age(section) == {
        "“<25”": ["not shown", "not shown"],
        "“>=25”": ["12.5% | 20", "87.5% | 140"],
    }
    assert "At least 20 of 200 people (10.0%)" in said(section)
    assert "fewer than 5 people" in said(section)


def test_hidden_numbers_of_another_group_allow_no_claim() -> None:
    """Every number of that group is hidden."""
    text = said(sections(flow([[None, None], [None, None]]))["audit"])
    assert "Nobody" not in text
    assert "cannot be shown" in text


def test_rows_of_hidden_size_have_counts_alone() -> None:
    found = flow([[50, None, None], [0, 70, 7], [8, 6, 40]], "a", "b", "c")
    section = sections(found, metrics={**METRICS, "counts": {}})["audit"]
    assert by_age(section)["“a”"] == ["50", "not shown", "not shown"]
    assert by_age(section)["“b”"] == ["0.0% | 0", "90.9% | 70", "9.1% | 7"]
    assert "At least 21 of 200 people (10.5%) are treated" in said(section)


def splits(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in splits(n - first, parts - 1):
            yield (first, *rest)


@pytest.mark.parametrize(("groups", "min_cell"), [*itertools.product((2, 3), (3, 4, 5)), (4, 5)])
def test_no_hidden_number_follows_from_the_page(groups: int, min_cell: int) -> None:
    """This holds even for readers who know the rule."""
    names = [f"g{i}" for i in range(groups)]
    counts: list[list[int | None]] = [
        [20 if i == j else 0 for j in range(groups)] for i in range(groups)
    ]
    seen = 0
    for size in range(1, 13):
        given = [{"group": name, "label": 0, "n": size if name == "g0" else 20} for name in names]
        metrics = {
            **METRICS,
            "counts": {"age": given},
            "settings": {"level": 0.9, "min_cell": min_cell},
        }
        looks = defaultdict(list)
        for true in splits(size, groups):
            counts[0] = visible_counts(true, min_cell)
            section = sections(flow(counts, *names), metrics=metrics)["audit"]
            # all that is said, sentences included
            looks[repr(section)].append((true, list(counts[0])))
        for alike in looks.values():
            for i in range(groups):
                if any(shown[i] is None and 0 < true[i] < min_cell for true, shown in alike):
                    seen += 1
                    assert len({true[i] for true, _ in alike}) > 1, alike
    assert seen > 20


def test_a_map_of_a_real_audit_adds_up_to_the_people() -> None:
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
        sensitive={"age": group.astype(object)},
        numbers={},
    )
    section = sections(
        audit_content(found, data, 5), metrics={**METRICS, "metrics": {}, "counts": {}}
    )["audit"]
    whole = 0
    for name, row in by_age(section).items():
        shown = [re.fullmatch(r"([\d.]+)% \| (\d+)", cell) for cell in row]
        if all(shown):
            whole += 1
            assert sum(int(cell[2]) for cell in shown if cell) == (group == name.strip("“”")).sum()
            assert sum(float(cell[1]) for cell in shown if cell) == pytest.approx(100, abs=0.2)
    assert whole > 0
    assert f"{(found.distance > 0).sum()} of 300 people" in said(section)
    rise = found.target_loss - found.own_loss
    first, *_ = table(section, "People by the rise").rows
    assert (first[0], first[-1]) == (str(2 * int(np.argmax(rise))), pytest.approx(rise.max()))


def test_pairs_are_named_by_plain_row_numbers_and_nothing_else() -> None:
    section = sections()["audit"]
    assert rows(table(section, "People by the rise")) == {
        "12345": ["7", "0", "0.100", "2.100", "2.000"],
        "3": ["12345", "1.500", "0.2500", "0.2502", "0.0002"],
    }
    text = said(section)
    assert "The losses of these 2 people rise most" in text
    assert "count from 0 in the ingested table" in text
    assert "`pairs.parquet`" in text
    assert "No other data of these people is shown" in text
    assert "A fair distance of 0 means" in text
    apart = said(sections(audit(pairs=AUDIT["pairs"][1:]))["audit"])
    assert "A fair distance of 0 means" not in apart
    assert "This person’s loss rises" in apart


def test_hostile_names_stay_text() -> None:
    found = audit(
        flows={HOSTILE: {"groups": [HOSTILE, "<b>25"], "counts": [[30, 10], [5, 155]]}},
        distances=None,
    )
    page = render(Page(Front("run", "t", [], ["s"]), list(sections(found).values())))
    assert "<script>" not in page
    assert "<b>" not in page
    assert "treated as “&lt;script&gt;" in page
