"""Files of gates, and the one decision that all callers share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.data_contracts.arrow import known_groups
from evenhand.data_contracts.column import Column
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import parse_gates
from evenhand.tasks.errors import InputError
from evenhand.tasks.gate import check_evaluation_gates, digest_of_gates, drift_metrics, judge, read_gates

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
def test_a_file_without_gates_is_one_error_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "gates.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_gates(path)
    assert "\n" not in str(caught.value)


def test_the_digest_is_of_the_limits_and_not_of_their_order() -> None:
    one = {"auc": {"min": 0.7, "bound": "point"}, "accuracy": {"min": 0.6}}
    two = {"accuracy": {"min": 0.6}, "auc": {"bound": "point", "min": 0.7}}
    assert digest_of_gates(one) == digest_of_gates(two)
    assert digest_of_gates(one) != digest_of_gates({**one, "accuracy": {"min": 0.61}})


def test_a_metric_that_was_not_measured_is_an_input_error() -> None:
    evaluation = Evaluation({"auc": MetricValue(0.8)}, {}, 10).to_json()
    assert judge(evaluation, GATES, None).verdict == "passed"
    with pytest.raises(InputError, match="did you mean 'auc'"):
        judge(evaluation, {"aux": {"min": 0.7}}, None)
    with pytest.raises(InputError, match="needs a baseline"):
        judge(evaluation, {"auc": {"no_worse_than_baseline": 0.1}}, None)


def test_groups_that_the_contract_names() -> None:
    assert known_groups(Column("age", "integer", True, "", role="sensitive", bins=(40,))) == {"<40", ">=40"}
    assert known_groups(Column("sex", "string", True, "", role="sensitive", allowed=("F", "M"))) == {"F", "M"}
    assert known_groups(Column("old", "boolean", True, "", role="sensitive")) == set()
    yes = Column("old", "boolean", True, "", role="sensitive", allowed=(False, True))
    assert known_groups(yes) == {"false", "true"}


@pytest.mark.parametrize(
    ("metric", "intersections", "words"),
    [
        ("gap_max.sex", False, None),
        ("gap_max.sex&race", True, None),
        ("gap_max.sex&race", False, "names no metric"),
        ("consistency.sex&race", True, "names no metric"),
        ("gap_max.race", True, "names no metric"),
        ("auc.sex", True, "names no metric"),
        ("consistency.spouse", False, None),
        ("features_asked", False, "names no metric"),
        ("certificate.drf", False, "cannot be judged here"),
    ],
)
def test_gates_that_an_evaluation_can_judge(metric: str, intersections: bool, words: str | None) -> None:
    contract = SimpleNamespace(sensitive=[SimpleNamespace(name="sex")])
    model: Any = SimpleNamespace(contract=contract, asks_features=False)
    settings = {"counterfactuals": {"spouse": {}}, "intersections": intersections}
    gates = parse_gates({metric: {"max": 0.1}})
    if words is None:
        check_evaluation_gates(gates, model, settings)
        return
    with pytest.raises(InputError, match=words):
        check_evaluation_gates(gates, model, settings)


def test_drift_of_unseen_values_is_measured_for_categories_only() -> None:
    columns = {"income": {"kind": "number"}, "city": {"kind": "category"}}
    reference = {"columns": columns, "groups": {"sex": {}}}
    names = drift_metrics(reference, predicts=True)
    assert [name for name in names if name.startswith("psi.")] == ["psi.income", "psi.city"]
    assert [name for name in names if name.startswith("unseen.")] == ["unseen.city"]
    assert [name for name in names if name.endswith(".sex")]
    assert [name for name in names if name.startswith("prediction")]
    assert not [name for name in drift_metrics(reference, predicts=False) if name.startswith("prediction")]
