"""An evaluation as JUnit XML, which CI systems read."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

SUITE = "evenhand evaluate"
# Characters that XML 1.0 cannot represent.
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NO_GATES = {"message": "no gates were given: nothing was decided"}


def junit_of_decision(
    results: Sequence[Mapping[str, Any]],
    *,
    model: str,
    created: str,
    seconds: float,
    properties: Mapping[str, str],
) -> str:
    """
    Write one test case per limit of a gate; `results` are those of a decision's ``to_json``.

    A refused limit is a failure. A limit without evidence is an error, which readers count as not passed.
    Without gates there is one skipped case. `model` is the class name of the cases, `created` the time (ISO
    8601), `seconds` the duration of the evaluation.
    """
    cases = []
    for result in results:
        case = _case(model, f"{result['metric']} {result['kind']} {result['limit']:g} ({result['bound']})")
        if result["status"] != "ok":
            _add_fault(case, "error", "insufficient_evidence", str(result["text"]))
        elif not result["passed"]:
            _add_fault(case, "failure", "gate_refused", str(result["text"]))
        cases.append(case)
    if not cases:
        cases.append(_case(model, "gates"))
        ElementTree.SubElement(cases[0], "skipped", NO_GATES)
    return _document(cases, created, seconds, properties)


def junit_of_failure(error: str, *, model: str, created: str, properties: Mapping[str, str]) -> str:
    """Write one test case with an error, so that a CI system that reads only this file fails."""
    case = _case(model, "evaluation")
    _add_fault(case, "error", "not_evaluated", error)
    return _document([case], created, 0.0, properties)


def _case(model: str, name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", {"classname": _clean(model), "name": _clean(name), "time": "0"})


def _add_fault(case: ElementTree.Element, kind: str, reason: str, text: str) -> None:
    # Some readers show the message, others the text.
    ElementTree.SubElement(case, kind, {"message": _clean(text), "type": reason}).text = _clean(text)


def _document(
    cases: Sequence[ElementTree.Element], created: str, seconds: float, properties: Mapping[str, str]
) -> str:
    """Write a suite in the order and with the attributes that the schemas of Ant and Jenkins require."""
    counts = {
        plural: str(sum(case.find(kind) is not None for case in cases))
        for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    attributes = {
        "id": "0",
        "package": "evenhand",
        "name": SUITE,
        "timestamp": created[:19],  # Ant's schema has no time zone
        "hostname": _clean(platform.node()) or "localhost",
        "tests": str(len(cases)),
        **counts,
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(listed, "property", {"name": _clean(name), "value": _clean(value)})
    suite.extend(cases)
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{text}\n"


def _clean(text: str) -> str:
    """Replace the characters that XML cannot represent; a column's name may have some."""
    return FORBIDDEN.sub("\ufffd", text)
