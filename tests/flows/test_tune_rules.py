"""Which rules of decisions a search tries, by its job, its objectives and its limits."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.flows.tune_plan import TunePlan, make_plan, notes_of_plan
from evenhand.flows.tune_rules import decision_of
from evenhand.tasks.errors import InputError
from tests.flows.people import Bench


def tried_rules(reading: Bench, **tune: Any) -> list[tuple[str, str | None]]:
    """Names and calibrations of the rules that a search with these settings tries."""
    reading.job["tune"] |= tune
    plan = make_plan(str(reading.write()), force=True)
    return [(rule.decision, rule.calibration) for rule in plan.rules]


def test_calibrations_are_tried_where_they_matter(reading: Bench) -> None:
    reading.job["calibration"] = "sigmoid"
    job_rules = [("job", None), ("job", "none"), ("job", "isotonic")]
    assert tried_rules(reading, maximize=["balanced_accuracy"]) == [("job", None)]
    assert tried_rules(reading, maximize=[], minimize=["log_loss"]) == job_rules
    reading.job["decision"] = {"threshold": 0.4}
    assert tried_rules(reading, maximize=["auc"], minimize=[]) == job_rules
    space = {"calibration": ["isotonic", "sigmoid"], "decision": ["job", "observed"]}
    reading.job["decision"] = {"threshold": "balanced"}
    assert tried_rules(reading, maximize=["accuracy"], space=space) == [
        ("job", None),
        ("observed", None),
        ("job", "isotonic"),
        ("observed", "isotonic"),
    ]
    assert ("max_accuracy", None) in tried_rules(reading, space={})
    for wrong in (["platt"], []):
        with pytest.raises(InputError, match=r"space\.calibration (names 'platt'|is empty)"):
            tried_rules(reading, space={"calibration": wrong})


@pytest.mark.parametrize("decision", [{}, {"threshold": "balanced"}])
def test_a_job_without_a_decision_has_the_balanced_threshold(
    reading: Bench, decision: dict[str, Any]
) -> None:
    """So the one of fewest errors is tried for accuracy, as for a job that says so."""
    reading.job["decision"] = decision
    names = [name for name, _ in tried_rules(reading, where=["accuracy >= 0.6"])]
    assert {"job", "max_accuracy"} <= set(names)
    space = {"decision": ["job", "observed"]}
    names = [name for name, _ in tried_rules(reading, maximize=["auc"], where=[], space=space)]
    assert names == ["job", "observed"]


@pytest.mark.parametrize(
    ("limit", "criterion"),
    [
        ("impact_ratio.sex >= 0.8", "demographic_parity by sex"),
        ("balanced_accuracy_difference.sex <= 0.1", "equalized_odds by sex"),
    ],
)
def test_other_metrics_of_groups_have_thresholds_too(
    reading: Bench, limit: str, criterion: str
) -> None:
    names = [name for name, _ in tried_rules(reading, maximize=["auc"], where=[limit])]
    assert criterion in names


@pytest.mark.parametrize(
    ("aim", "threshold"),
    [("balanced_accuracy", "balanced"), ("accuracy", "max_accuracy"), ("auc", "observed")],
)
def test_thresholds_by_group_serve_what_is_searched(
    reading: Bench, aim: str, threshold: str
) -> None:
    """Not the share of positives that the job of `init` keeps."""
    reading.job["decision"] = {"threshold": "observed"}
    reading.job["tune"] = {"maximize": [aim], "where": ["gap_max.sex <= 0.1"]}
    plan = make_plan(str(reading.write()), force=True)
    rule = decision_of(plan.resolved, plan.aim, "equalized_odds by sex", 0.05)
    assert rule.threshold == threshold


def test_thresholds_by_group_are_tried_for_a_job_that_has_some(reading: Bench) -> None:
    """A tuned champion is such a job: others than its own may be less discriminatory."""
    reading.job["decision"] = {"equal": {"attribute": "sex", "criterion": "equalized_odds"}}
    limits = {"maximize": ["balanced_accuracy"], "where": ["gap_max.sex <= 0.1"]}
    names = dict.fromkeys(name for name, _ in tried_rules(reading, **limits))
    assert list(names) == ["job", "balanced", "equalized_odds by sex"]
    assert notes_of_plan(make_plan(str(reading.write()), force=True)) == []


@pytest.mark.parametrize("decision", [{"rate": 0.3}, {"threshold": 0.4}])
def test_a_job_without_thresholds_by_group_says_so(
    reading: Bench, decision: dict[str, float]
) -> None:
    reading.job["decision"] = decision
    limits = {"maximize": ["auc"], "where": ["gap_max.sex <= 0.1"]}
    assert "equalized_odds by sex" not in dict(tried_rules(reading, **limits))
    (note,) = notes_of_plan(make_plan(str(reading.write()), force=True))
    assert "leave it out to try them for gap_max.sex" in note


def test_a_limit_on_an_intersection_is_measured(reading: Bench) -> None:
    reading.job["tune"] = {"maximize": ["auc"], "where": ["gap_max.age&sex <= 0.3"]}
    plan = make_plan(str(reading.write()), force=True)
    assert plan.resolved.job.evaluate.intersections
    assert notes_of_plan(plan) == []
    assert tolerances_of(plan)["equalized_odds by age&sex"] == [0.06, 0.12, 0.165, 0.21, 0.255, 0.3]
    reading.job["tune"]["where"] = ["calibration_gap.age&sex <= 0.3"]
    plan = make_plan(str(reading.write()), force=True)
    assert notes_of_plan(plan) == ["no thresholds by group are tried for calibration_gap.age&sex"]


def tolerances_of(plan: TunePlan) -> dict[str, list[float | None]]:
    """Tolerances of each rule of decisions that is tried."""
    found: dict[str, list[float | None]] = {}
    for rule in plan.rules:
        found.setdefault(rule.decision, []).append(rule.tolerance)
    return found


@pytest.mark.parametrize(
    ("limits", "crossed"),
    [
        (["gap_max.sex <= 0.2", "gap_max.age <= 0.1"], {"equalized_odds by age&sex": 0.1}),
        (
            ["impact_ratio.sex >= 0.8", "impact_ratio.age >= 0.8"],
            {"demographic_parity by age&sex": 0.15},
        ),
        # different criteria, and one attribute
        (["gap_max.sex <= 0.2", "impact_ratio.age >= 0.8"], {}),
        (["gap_max.sex <= 0.2", "average_odds_difference.sex <= 0.1"], {}),
        # limits that every model keeps
        (["impact_ratio.sex >= 0", "impact_ratio.age >= 0"], {}),
    ],
)
def test_limits_on_two_attributes_are_kept_by_crossed_groups(
    reading: Bench, limits: list[str], crossed: dict[str, float]
) -> None:
    """The smallest limit decides the tolerances, and the rules come after those of one attribute."""
    reading.job["tune"] = {"maximize": ["auc"], "where": limits}
    tolerances = tolerances_of(make_plan(str(reading.write()), force=True))
    found = {name: max(values) for name, values in tolerances.items() if "&" in name}
    assert found == crossed
    assert list(tolerances)[len(tolerances) - len(found) :] == list(found)


def test_what_stands_for_the_champion_has_no_shares(reading: Bench) -> None:
    """Its gap is known once it was judged: until then it is at most 1."""
    reading.job["tune"] = {"alternative_to": reading.job["name"], "no_worse": ["gap_max.sex by 0"]}
    reading.job["tune"]["minimize"] = ["gap_max.sex"]
    plan = make_plan(str(reading.write()), force=True)
    tolerances = [rule.tolerance for rule in plan.rules if rule.tolerance is not None]
    assert tolerances == [0.0, 0.02, 0.05, 0.075, 0.1, 0.15]


def test_costs_of_the_job_stay_with_thresholds_by_group(reading: Bench) -> None:
    """A threshold of another kind would forget what an error costs."""
    reading.job["decision"] = {"costs": {"false_positive": 2.0, "false_negative": 1.0}}
    reading.job["tune"] = {"maximize": ["balanced_accuracy"], "where": ["gap_max.sex <= 0.1"]}
    plan = make_plan(str(reading.write()), force=True)
    assert "balanced" not in tolerances_of(plan)
    rule = decision_of(plan.resolved, plan.aim, "equalized_odds by sex", 0.05)
    assert rule.costs == plan.resolved.job.decision.costs
    assert rule.equal is not None
    assert (rule.equal.attribute, rule.equal.tolerance) == ("sex", 0.05)
