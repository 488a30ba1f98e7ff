"""Files of gates, and the one decision that all callers share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.data_contracts.arrow import known_groups
from evenhand.data_contracts.column import Column
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import decide, parse_gates
from evenhand.fairlib.evaluation.paired import Comparison
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.limits import (
    check_evaluation_gates,
    check_groups,
    judge,
    read_gates,
    read_limits,
)

GATES = {"auc": {"min": 0.7}}


@pytest.mark.parametrize("text", ["auc: {min: 0.7}", "gates:\n  auc:\n    min: 0.7\nname: a job"])
def test_a_mapping_or_the_gates_of_a_job(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gates.yaml"
    path.write_text(text)
    assert read_gates(path) == GATES


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"gates: []", "holds no gates"),
        (b"gates:", "holds no gates"),
        (b"{}", "holds no gates"),
        (b"auc: [", "not valid YAML"),
        (b"auc: 2020-99-99", "not valid YAML"),
    ],
)
def test_a_file_without_gates_is_one_error_line(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "gates.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_gates(path)
    assert "\n" not in str(caught.value)


def test_a_metric_that_was_not_measured_is_an_input_error() -> None:
    evaluation = Evaluation({"auc": MetricValue(0.8)}, {}, 10).to_json()
    assert judge(evaluation, GATES, None).verdict == "passed"
    with pytest.raises(InputError, match="did you mean 'auc'"):
        judge(evaluation, {"aux": {"min": 0.7}}, None)
    with pytest.raises(InputError, match="needs a baseline"):
        judge(evaluation, {"auc": {"no_worse_than_baseline": 0.1}}, None)


def test_groups_that_the_contract_names() -> None:
    assert known_groups(Column("age", "integer", True, "", role="sensitive", bins=(40,))) == {
        "<40",
        ">=40",
    }
    assert known_groups(
        Column("sex", "string", True, "", role="sensitive", allowed=("F", "M"))
    ) == {"F", "M"}
    assert known_groups(Column("old", "boolean", True, "", role="sensitive")) == set()
    yes = Column("old", "boolean", True, "", role="sensitive", allowed=(False, True))
    assert known_groups(yes) == {"false", "true"}


@pytest.mark.parametrize(
    ("metric", "intersections", "words"),
    [
        ("gap_max.sex", False, None),
        ("recall.y", False, None),
        ("recall.w", False, "names no metric"),
        ("gap_max.sex&race", True, None),
        ("gap_max.sex&race", False, "names no metric"),
        ("consistency.sex&race", True, "names no metric"),
        ("gap_max.race", True, "names no metric"),
        ("auc.sex", True, "names no metric"),
        ("consistency.spouse", False, None),
        ("features_asked", False, "names no metric"),
        ("membership_auc", False, "names no metric"),
        ("certificate.drf", False, "cannot be judged here"),
        ("consistency.counterpart", False, "reads no adapted columns"),
        ("adapted_consistency", False, "reads no adapted columns"),
    ],
)
def test_gates_that_an_evaluation_can_judge(
    metric: str, intersections: bool, words: str | None
) -> None:
    label = SimpleNamespace(classes=("x", "y", "z") if metric.startswith("recall") else ())
    contract = SimpleNamespace(sensitive=[SimpleNamespace(name="sex")], label=label)
    model: Any = SimpleNamespace(contract=contract, asks_features=False, adapts_columns=False)
    settings: dict[str, Any] = {"counterfactuals": {"spouse": {}}, "adapted": ["counterpart"]}
    settings["intersections"] = intersections
    gates = parse_gates({metric: {"max": 0.1}})
    if words is None:
        check_evaluation_gates(gates, model, settings)
        return
    with pytest.raises(InputError, match=words):
        check_evaluation_gates(gates, model, settings)


def test_gates_beside_controls_are_only_for_runs() -> None:
    gates = {"accuracy": {"better_than_blind": 0.0}}
    for baseline in (False, True):
        with pytest.raises(InputError, match="better_than_blind, and only the run that trains"):
            read_limits(gates, baseline=baseline)
    with pytest.raises(InputError, match="needs controls, which only a run has"):
        judge(Evaluation({"accuracy": MetricValue(0.8)}, {}, 10).to_json(), gates)


@pytest.mark.parametrize(
    ("metric", "limit", "difference", "value", "passed"),
    [
        ("accuracy", {"better_than_blind": 0.02}, (0.03, 0.01, 0.05), 0.03, True),
        (
            "accuracy",
            {"better_than_blind": 0.02, "bound": "interval"},
            (0.03, 0.01, 0.05),
            0.01,
            False,
        ),
        # less is better: the gain is the fall, and its unfavourable end the larger difference
        ("log_loss", {"better_than_blind": 0.02}, (-0.03, -0.05, -0.01), 0.03, True),
        (
            "log_loss",
            {"better_than_blind": 0.02, "bound": "interval"},
            (-0.03, -0.05, -0.01),
            0.01,
            False,
        ),
        ("log_loss", {"better_than_blind": -0.05}, (0.03, 0.01, 0.05), -0.03, True),
        # rounding is no shortfall
        ("accuracy", {"better_than_blind": 0.1}, (0.8 - 0.7, None, None), 0.1, True),
        (
            "accuracy",
            {"better_than_blind": 0.0, "bound": "interval"},
            (0.1, None, None),
            None,
            False,
        ),
    ],
)
def test_a_gate_beside_a_control_by_hand(
    metric: str,
    limit: dict[str, Any],
    difference: tuple[Any, ...],
    value: float | None,
    passed: bool,
) -> None:
    evaluation = Evaluation({metric: MetricValue(0.8)}, {}, 10)
    controls = {"blind": Comparison({metric: MetricValue(*difference)}, 10)}
    decision = decide(evaluation, parse_gates({metric: limit}), controls=controls)
    (result,) = decision.results
    assert result.value == (None if value is None else pytest.approx(value))
    assert decision.passed is passed
    assert decision.verdict == (
        "passed" if passed else "insufficient_evidence" if value is None else "refused"
    )
    if not passed and value is not None:
        assert result.shortfall == pytest.approx(limit["better_than_blind"] - value)


def test_a_gate_beside_a_baseline_needs_one() -> None:
    gates = {"auc": {"no_worse_than_baseline": 0.01}}
    with pytest.raises(InputError, match="give --baseline, or take it out"):
        read_limits(gates, baseline=False)
    chosen, limits = read_limits(gates, baseline=True)
    assert chosen == gates
    assert [limit.metric for limit in limits] == ["auc"]
    assert read_limits(None, baseline=False) == (None, ())


def test_named_groups_are_those_of_the_gates_attribute() -> None:
    age = Column("age", "integer", True, "", role="sensitive", bins=(40,))
    sex = Column("sex", "string", True, "", role="sensitive", allowed=("F", "M"))
    contract: Any = SimpleNamespace(sensitive=[age, sex])
    (fine,) = parse_gates({"gap_max.sex": {"max": 0.1, "groups": ["F", "M"]}})
    check_groups(fine, contract)
    (wrong,) = parse_gates({"gap_max.sex": {"max": 0.1, "groups": ["F", "m"]}})
    with pytest.raises(InputError, match="names the group 'm', which the contract does not list"):
        check_groups(wrong, contract)
    # a contract that lists no groups allows any
    (free,) = parse_gates({"gap_max.race": {"max": 0.1, "groups": ["x"]}})
    check_groups(free, contract)


def test_a_model_with_adapted_columns_has_gates_on_its_copies() -> None:
    label = SimpleNamespace(classes=())
    contract = SimpleNamespace(sensitive=[SimpleNamespace(name="sex")], label=label)
    model: Any = SimpleNamespace(contract=contract, asks_features=False, adapts_columns=True)
    settings = {"counterfactuals": {}, "adapted": ["counterpart"], "intersections": False}
    gates = parse_gates({"consistency.counterpart": {"min": 0.9}})
    check_evaluation_gates(gates, model, settings)
    check_evaluation_gates(parse_gates({"adapted_consistency": {"min": 0.9}}), model, settings)
