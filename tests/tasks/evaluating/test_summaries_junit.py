"""JUnit XML: what CI systems read out of it, and nothing that XML cannot hold."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import decide, parse_gates
from evenhand.tasks.evaluating.summaries import junit_of_decision, junit_of_failure

CREATED = "2026-11-22T05:00:00+00:00"
# order and attributes of https://github.com/windyroad/JUnit-Schema, which is stricter than Jenkins'
# schema
SUITE_ATTRIBUTES = {
    "id",
    "package",
    "name",
    "timestamp",
    "hostname",
    "tests",
    "failures",
    "errors",
    "time",
}
METRICS = {
    "auc": MetricValue(0.81, 0.78, 0.84),
    "gap_max.sex": MetricValue(0.3, 0.2, 0.4),
    "gap_max.age": MetricValue.insufficient("age: too few <rows> & people"),
}


def document(gates: dict[str, Any]) -> ElementTree.Element:
    decision = decide(Evaluation(METRICS, {}, 100), parse_gates(gates)).to_json()
    text = junit_of_decision(
        decision["results"],
        model="models:/m/1",
        created=CREATED,
        seconds=1.5,
        properties={"run_id": "r-1"},
    )
    return suite(text)


def suite(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text.encode())
    assert (root.tag, [child.tag for child in root], root.attrib) == (
        "testsuites",
        ["testsuite"],
        {},
    )
    found = root[0]
    assert set(found.attrib) == SUITE_ATTRIBUTES | {"skipped"}
    assert found.get("timestamp") == "2026-11-22T05:00:00"
    cases = found.findall("testcase")
    assert [child.tag for child in found] == [
        "properties",
        *["testcase"] * len(cases),
        "system-out",
        "system-err",
    ]
    for case in cases:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert len(case) <= 1
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert found.get(key) == str(len(found.findall(f"testcase/{tag}")))
    assert found.get("tests") == str(len(cases))
    return found


def test_every_limit_is_a_case_and_only_a_kept_one_is_green() -> None:
    found = document(
        {
            "auc": {"min": 0.8, "max": 0.9},
            "gap_max.sex": {"max": 0.25, "bound": "interval"},
            "gap_max.age": {"max": 0.2},
        }
    )
    cases = found.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "auc min 0.8 (point)",
        "auc max 0.9 (point)",
        "gap_max.sex max 0.25 (interval)",
        "gap_max.age max 0.2 (point)",
    ]
    assert [[child.tag for child in case] for case in cases] == [[], [], ["failure"], ["error"]]
    failure = cases[2][0]
    assert failure.get("type") == "gate_refused"
    for part in ("0.400", "0.250", "0.15 too high"):
        assert part in str(failure.text)
    assert failure.get("message") == failure.text
    assert "too few <rows> & people" in str(cases[3][0].text)
    assert found.find("properties/property").attrib == {"name": "run_id", "value": "r-1"}  # type: ignore[union-attr]


def test_without_gates_nothing_is_green() -> None:
    (case,) = document({}).findall("testcase")
    assert [child.tag for child in case] == ["skipped"]


@pytest.mark.parametrize(
    "text", ["a\x00b", "a\x1bb", "a\ufffeb", "a\ud800b", 'a<]]>&"b', "a\U0001f600b"]
)
def test_any_message_gives_valid_xml(text: str) -> None:
    found = suite(junit_of_failure(text, model=text, created=CREATED, properties={"data": text}))
    error = found.find("testcase/error")
    assert error is not None
    assert str(error.text)[0] + str(error.text)[-1] == "ab"
    assert error.get("message") == error.text
    if text[1] in "<\U0001f600":
        assert error.text == text
