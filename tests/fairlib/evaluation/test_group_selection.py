"""Metrics compare the groups with enough people; the others, and missing values, are named with
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.evaluation.evaluate import Evaluation, evaluate
from evenhand.fairlib.evaluation.gates import Gate, decide, parse_gates
from evenhand.fairlib.evaluation.group_selection import left_out_notes, left_out_text
from evenhand.fairlib.evaluation.outcomes import Outcomes, group_rates
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.evaluation.predictions import audit_predictions

GAPS = ("gap_max", "impact_ratio", "calibration_gap")
TWO = {(g, y, p): 20 + 3 * (g == "F") for g in "FM" for y in (0, 1) for p in (0, 1)}
FEW = {("X", 0, 0): 2, ("X", 1, 1): 1}
MISSING = {("missing", 0, 1): 6, ("missing", 1, 1): 6}
Build = Callable[..., Outcomes]


@pytest.mark.parametrize("more", [FEW, MISSING, FEW | MISSING])
def test_a_small_group_and_missing_values_void_no_attribute(from_cells: Build, more: Any) -> None:
    alone = evaluate(from_cells(TWO), draws=50)
    found = evaluate(from_cells(TWO | more), draws=50)
    for name, metric in found.metrics.items():
        if name.endswith(".sex"):
            assert metric == alone.metrics[name], name
    left_out = {group["group"]: group for group in found.groups["gap_max.sex"]["left_out"]}
    assert found.groups["gap_max.sex"]["measured"] == ["F", "M"]
    if more is not MISSING:
        assert left_out["X"] == {"group": "X", "n": 3, "fewest": 1, "reason": "too_few"}
    if more is not FEW:
        assert left_out["missing"] == {
            "group": "missing",
            "n": 12,
            "fewest": 6,
            "reason": "missing",
        }
    # they are still counted
    assert {row["group"] for row in found.counts["sex"]} == {"F", "M", *left_out}
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_one_group_beside_missing_values_is_not_compared(from_cells: Build) -> None:
    one = {cell: n for cell, n in TWO.items() if cell[0] == "F"}
    found = evaluate(from_cells(one | MISSING), draws=50).metrics
    for name in GAPS:
        assert found[f"{name}.sex"].value is None
        assert found[f"{name}.sex"].reason == (
            "sex: only 1 group, nothing to compare it with; left out: missing (12 rows)"
        )
    with_few = evaluate(from_cells(one | FEW), draws=50).metrics["impact_ratio.sex"].reason
    assert with_few.endswith("the smallest has 3; left out: X (3 rows)")


def test_an_intersection_with_a_missing_part_is_no_group(random_outcomes: Build) -> None:
    outcomes = random_outcomes(600, 1)
    sex = outcomes.sensitive["sex"].copy()
    sex[:60] = "missing"
    outcomes = replace(outcomes, sensitive={**outcomes.sensitive, "sex": sex})
    found = evaluate(outcomes, draws=0, intersections=True)
    measured = found.groups["demographic_parity_difference.sex&race"]["measured"]
    assert len(measured) == 6
    assert not any("missing" in group for group in measured)


def test_a_paired_difference_compares_the_same_groups(from_cells: Build) -> None:
    few = from_cells(TWO | FEW | MISSING)
    alone = from_cells(TWO)
    others = [replace(side, y_pred=np.roll(side.y_pred, 1)[: side.n]) for side in (few, alone)]
    differences = compare(few, replace(few, y_pred=1 - few.y_pred), draws=50).differences
    expected = compare(alone, replace(alone, y_pred=1 - alone.y_pred), draws=50).differences
    assert differences["gap_max.sex"].value == expected["gap_max.sex"].value
    assert differences["impact_ratio.sex"].value == expected["impact_ratio.sex"].value
    assert others[0].n == few.n


def test_missing_values_are_not_the_most_selected_group() -> None:
    cells = [
        {"group": group, "label": 1, "n": 100, "predicted_positive": hits}
        for group, hits in (("F", 30), ("M", 60), ("missing", 90))
    ]
    women, men, missing = group_rates(cells, 5)
    assert women.impact.value == pytest.approx(0.5)
    assert men.impact.value == 1.0
    assert (missing.selected.value, missing.impact.value) == (0.9, None)


def test_an_audit_compares_no_missing_values() -> None:
    sex = np.array(["F"] * 40 + ["M"] * 40 + [None] * 9 + ["X"] * 3, dtype=object)
    decided = np.array([0, 1] * 40 + [1] * 12)
    found = audit_predictions(decided, {"sex": sex}, draws=50).evaluation
    assert found.metrics["impact_ratio.sex"].value == 1.0
    assert [group["group"] for group in found.groups["impact_ratio.sex"]["left_out"]] == [
        "X",
        "missing",
    ]
    assert left_out_notes(found.to_json()) == [
        "by sex, no comparison of groups includes X (3 rows), missing (9 rows)"
    ]


def test_nobody_selected_is_no_evidence(
    from_cells: Build,
) -> None:
    """One group without a selection is not certain."""
    cells = {("F", 0, 0): 10, ("F", 1, 0): 10, ("M", 0, 0): 20, ("M", 1, 1): 20}
    found = evaluate(from_cells(cells), draws=50).metrics
    ratio = found["impact_ratio.sex"]
    assert (ratio.value, ratio.low) == (0.0, 0.0)
    assert ratio.high > 0.168 / 0.5  # type: ignore[operator]
    nobody = evaluate(from_cells({(g, y, 0): 20 for g in "FM" for y in (0, 1)}), draws=50).metrics
    assert nobody["impact_ratio.sex"].status == "insufficient_evidence"


def test_no_interval_of_a_perfect_model_has_width_0(from_cells: Build) -> None:
    perfect = from_cells({(g, y, y): 20 for g in "FM" for y in (0, 1)})
    perfect = replace(
        perfect, score=perfect.y_pred.astype(float), consistent={"x": np.ones(80, bool)}
    )
    for found in (
        evaluate(perfect, draws=50).metrics,
        compare(perfect, perfect, draws=50).differences,
    ):
        for name, metric in found.items():
            if metric.status == "ok":
                assert metric.high - metric.low > 1e-3, name  # type: ignore[operator]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "insufficient_evidence"),
        (FEW, "insufficient_evidence"),
        ({(("X", y, 1)): 9 for y in (0, 1)}, "passed"),
    ],
)
def test_a_gate_can_demand_that_a_group_is_measured(
    from_cells: Build, more: Any, verdict: str
) -> None:
    evaluation = evaluate(from_cells(TWO | more), draws=0)
    (gate,) = parse_gates({"gap_max.sex": {"max": 1.0, "groups": ["F", "M", "X"]}})
    decision = decide(evaluation, [gate])
    assert decision.verdict == verdict
    if verdict != "passed":
        counted = "3 rows, 1 of one label" if more else "0 rows"
        assert decision.results[0].text.endswith(
            f"insufficient evidence (not measured: X ({counted}))"
        )
    # a limit that is missed stays refused
    assert decide(evaluation, [replace(gate, min=1.1, max=None)]).verdict == "refused"
    assert decide(evaluation, [Gate("gap_max.sex", max=1.0, groups=("F", "M"))]).passed


@pytest.mark.parametrize(
    ("metric", "groups", "message"),
    [
        ("gap_max.sex", "F", "expected a list"),
        ("gap_max.sex", ["F", "F"], "each once"),
        ("gap_max.sex", [""], "each once"),
        ("accuracy", ["F"], "needs a metric that compares groups"),
    ],
)
def test_wrong_groups_of_a_gate_are_refused(metric: str, groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_gates({metric: {"max": 0.1, "groups": groups}})


def test_groups_that_yaml_reads_as_numbers_are_names() -> None:
    (gate,) = parse_gates({"gap_max.old": {"max": 0.1, "groups": [True, 0]}})
    assert gate.groups == ("true", "0")


def test_of_many_groups_that_are_left_out_the_first_are_named() -> None:
    groups = [
        {"group": name, "n": 9, "fewest": 2, "reason": "too_few"} for name in ("a", "b", "c", "d")
    ]
    named = "a (9 rows, 2 of one label), b (9 rows, 2 of one label)"
    assert left_out_text(groups, most=2) == f"{named} and 2 more"
    assert left_out_text(groups[:2], most=2) == named
