"""An evaluation as JUnit XML, the one report that every CI system reads."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

__all__ = ["junit_of_decision", "junit_of_failure"]

SUITE = "evenhand evaluate"
# what XML 1.0 cannot hold in any spelling
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_of_decision(
    results: Sequence[Mapping[str, Any]],
    *,
    model: str,
    created: str,
    seconds: float,
    properties: Mapping[str, str],
) -> str:
    """
    Write one test case per limit of a gate.

    A limit that is not kept is a failure. One without evidence is an error: the check could not be made,
    which every reader counts as not passed. Without gates there is one skipped case, for nothing was decided.

    Parameters
    ----------
    results : sequence of mapping
        ``results`` of a decision's ``to_json``.
    model : str
        The cases' class name.
    created : str
        ISO 8601.
    seconds : float
        Of the whole evaluation.
    properties : mapping of str to str
    """
    cases = []
    for result in results:
        case = _case(model, f"{result['metric']} {result['kind']} {result['limit']:g} ({result['bound']})")
        if result["status"] != "ok":
            _fault(case, "error", "insufficient_evidence", str(result["text"]))
        elif not result["passed"]:
            _fault(case, "failure", "gate_refused", str(result["text"]))
        cases.append(case)
    if not cases:
        case = _case(model, "gates")
        ElementTree.SubElement(case, "skipped", {"message": "no gates were given: nothing was decided"})
        cases.append(case)
    return _document(cases, created, seconds, properties)


def junit_of_failure(error: str, *, model: str, created: str, properties: Mapping[str, str]) -> str:
    """Write one test case with an error: a CI system that reads nothing else must not be green."""
    case = _case(model, "evaluation")
    _fault(case, "error", "not_evaluated", error)
    return _document([case], created, 0.0, properties)


def _case(model: str, name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", {"classname": _clean(model), "name": _clean(name), "time": "0"})


def _fault(case: ElementTree.Element, kind: str, reason: str, text: str) -> None:
    cleaned = _clean(text)
    # some readers show the message, some the text
    ElementTree.SubElement(case, kind, {"message": cleaned, "type": reason}).text = cleaned


def _document(
    cases: Sequence[ElementTree.Element], created: str, seconds: float, properties: Mapping[str, str]
) -> str:
    """Lay a suite out in the order and with the attributes that the schemas of Ant and Jenkins ask for."""
    count = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error")}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "id": "0",
            "package": "evenhand",
            "name": SUITE,
            # Ant's schema knows no time zone
            "timestamp": created[:19],
            "hostname": _clean(platform.node()) or "localhost",
            "tests": str(len(cases)),
            "failures": str(count["failure"]),
            "errors": str(count["error"]),
            "skipped": str(sum(case.find("skipped") is not None for case in cases)),
            "time": f"{seconds:.3f}",
        },
    )
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(listed, "property", {"name": _clean(name), "value": _clean(value)})
    suite.extend(cases)
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ("<?xml version='1.0' encoding='UTF-8'?>\n", "\n")
    )


def _clean(text: str) -> str:
    """Without what XML cannot hold: a column's name may have any character."""
    return FORBIDDEN.sub("\ufffd", text)
