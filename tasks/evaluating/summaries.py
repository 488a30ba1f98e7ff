"""An evaluation for CI systems: JUnit XML for their test reports, and Markdown for their
summaries.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from evenhand.fairlib.escaping import markdown_code as _code
from evenhand.fairlib.escaping import markdown_text as _text
from evenhand.fairlib.escaping import plain_text as printable

SUITE = "evenhand evaluate"
NO_GATES = {"message": "no gates were given: nothing was decided"}
SYMBOLS = {"passed": "✅", "refused": "❌", "insufficient_evidence": "⚠️", "no_gates": "⚪"}
TEXTS = {
    "passed": "passed all gates",
    "refused": "was refused by the gates",
    "insufficient_evidence": "lacks evidence for a gate",
    "no_gates": "was measured; no gates were given, so nothing was decided",
}


def junit_of_decision(
    results: Sequence[Mapping[str, Any]],
    *,
    model: str,
    created: str,
    seconds: float,
    properties: Mapping[str, str],
) -> str:
    """Write one test case per limit of a gate; `results` are those of a decision's ``to_json``.

    A refused limit is a failure. A limit without evidence is an error, which readers count as not
    passed. Without gates there is one skipped case. `model` is the class name of the cases,
    `created` the time (ISO 8601), `seconds` the duration of the evaluation.
    """
    cases = []
    for result in results:
        case = _case(
            model, f"{result['metric']} {result['kind']} {result['limit']:g} ({result['bound']})"
        )
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


def joined_junit(texts: Sequence[str]) -> str:
    """Put the suites of several JUnit documents into one."""
    roots = [ElementTree.fromstring(text) for text in texts]
    joined = roots[0]
    for root in roots[1:]:
        for suite in root:
            suite.set("id", str(len(joined)))  # Ant's schema numbers the suites
            joined.append(suite)
    ElementTree.indent(joined)
    content = ElementTree.tostring(joined, encoding="unicode")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{content}\n"


def _case(model: str, name: str) -> ElementTree.Element:
    return ElementTree.Element(
        "testcase", {"classname": printable(model), "name": printable(name), "time": "0"}
    )


def _add_fault(case: ElementTree.Element, kind: str, reason: str, text: str) -> None:
    # Some readers show the message, others the text.
    ElementTree.SubElement(
        case, kind, {"message": printable(text), "type": reason}
    ).text = printable(text)


def _document(
    cases: Sequence[ElementTree.Element],
    created: str,
    seconds: float,
    properties: Mapping[str, str],
) -> str:
    """Write a suite in the order and with the attributes that the schemas of Ant and Jenkins
    require.
    """
    counts = {
        plural: str(sum(case.find(kind) is not None for case in cases))
        for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    attributes = {
        "id": "0",
        "package": "evenhand",
        "name": SUITE,
        "timestamp": created[:19],  # Ant's schema has no time zone
        "hostname": printable(platform.node()) or "localhost",
        "tests": str(len(cases)),
        **counts,
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(
            listed, "property", {"name": printable(name), "value": printable(value)}
        )
    suite.extend(cases)
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{text}\n"


def markdown_of_evaluation(
    run: Mapping[str, Any], documents: Mapping[str, Any], report: str
) -> str:
    """Write the verdict, the gates, the metrics next to those of the baseline, the notes and the
    run's id.

    `run` has ``status``, ``judged``, ``baseline``, ``data``, ``notes`` and ``id``; `documents` has
    ``metrics`` and, if they exist, ``baseline``, ``comparison`` and ``decision``; `report` is the
    address of the page.
    """
    status = run["status"]
    model = run["judged"]
    baseline = run["baseline"]
    against = f", compared with {_named(baseline)}" if baseline else ""
    lines = [
        f"## {SYMBOLS[status]} {_named(model)} {TEXTS[status]}",
        "",
        f"On {run['data']['rows']:,} rows of {_code(run['data']['shown'])}{against}.",
        "",
    ]
    if documents.get("decision") and documents["decision"]["results"]:
        lines += _gates(documents["decision"]["results"])
    lines += _metrics(documents)
    if run["notes"]:
        lines += [f"- ⚠️ {_text(note)}" for note in run["notes"]] + [""]
    lines += [f"Run {_code(run['id'])}, report {_code(report)}", ""]
    return "\n".join(lines)


def markdown_of_failure(error: str, model: str) -> str:
    """Write one line: the model, and the reason why it was not evaluated."""
    return f"🛑 **{_text(model)} was not evaluated**: {_text(error)}\n"


def _gates(results: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for result in results:
        bound = "point"
        if result["bound"] == "interval":
            bound = "interval"
        row = (
            _mark(result),
            _text(result["metric"]),
            f"{result['kind'].replace('_', ' ')} {result['limit']:g}",
            bound,
            _text(result["text"]),
        )
        rows.append(row)
    return _table(("", "gate", "limit", "bound", "found"), rows)


def _mark(result: Mapping[str, Any]) -> str:
    """Sign of a gate's verdict; a gate without evidence has a warning."""
    if result["passed"]:
        return "✅"
    if result["status"] == "ok":
        return "❌"
    return "⚠️"


def _metrics(documents: Mapping[str, Any]) -> list[str]:
    evaluation = documents["metrics"]
    level = f"{100 * evaluation['settings']['level']:g}%"
    headings = ["metric", "model", f"{level} interval"]
    baseline = documents.get("baseline")
    differences = (documents.get("comparison") or {"differences": {}})["differences"]
    if baseline is not None:
        headings += ["baseline", "difference", f"{level} interval"]
    rows = []
    for name, metric in evaluation["metrics"].items():
        row = [_text(name), *_estimate(metric)]
        if baseline is not None:
            baseline_value, _ = _estimate(baseline["metrics"].get(name, {}))
            row.append(baseline_value)
            row += _estimate(differences.get(name, {}), signed=True)
        rows.append(row)
    return _table(headings, rows)


def _estimate(metric: Mapping[str, Any], *, signed: bool = False) -> tuple[str, str]:
    """A number and its interval; bold if it is a difference whose interval excludes zero."""
    if not metric:
        return "", ""
    if metric["value"] is None:
        return "insufficient evidence", ""
    form = ".3f"
    if signed:
        form = "+.3f"
    value = f"{metric['value']:{form}}"
    low = metric["low"]
    high = metric["high"]
    if low is None or high is None:
        return value, ""
    if signed and (low > 0 or high < 0):
        value = f"**{value}**"
    return value, f"{low:{form}} to {high:{form}}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def _named(model: Mapping[str, Any]) -> str:
    name = _text(model["name"])
    if model["version"] is None:
        return name
    return f"{name} version {model['version']}"
