"""Files of gates, and the one decision that all callers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.data_contracts.arrow import known_groups
from evenhand.data_contracts.column import Column
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.tasks.errors import InputError
from evenhand.tasks.gate import digest_of_gates, judge, read_gates

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
