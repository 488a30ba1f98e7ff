"""An evaluation as Markdown: the summary that a CI system shows with its run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SYMBOLS = {"passed": "✅", "refused": "❌", "insufficient_evidence": "⚠️", "no_gates": "⚪"}
TEXTS = {
    "passed": "passed all gates",
    "refused": "was refused by the gates",
    "insufficient_evidence": "lacks evidence for a gate",
    "no_gates": "was measured; no gates were given, so nothing was decided",
}
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def markdown_of_evaluation(run: Mapping[str, Any], documents: Mapping[str, Any], report: str) -> str:
    """
    Write the verdict, the gates, the metrics beside those of the baseline, the notes and the run's id.

    `run` has ``status``, ``judged``, ``baseline``, ``data``, ``notes`` and ``id``; `documents` has
    ``metrics`` and, if they exist, ``baseline``, ``comparison`` and ``decision``; `report` is the address of
    the page.
    """
    status = run["status"]
    model, baseline = run["judged"], run["baseline"]
    against = f", beside {_named(baseline)}" if baseline else ""
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
    rows = [
        (
            "✅" if result["passed"] else "❌" if result["status"] == "ok" else "⚠️",
            _text(result["metric"]),
            f"{result['kind'].replace('_', ' ')} {result['limit']:g}",
            "interval" if result["bound"] == "interval" else "point",
            _text(result["text"]),
        )
        for result in results
    ]
    return _table(("", "gate", "limit", "bound", "found"), rows)


def _metrics(documents: Mapping[str, Any]) -> list[str]:
    own = documents["metrics"]
    level = f"{100 * own['settings']['level']:g}%"
    headings = ["metric", "model", f"{level} interval"]
    other, compared = documents.get("baseline"), documents.get("comparison")
    if other is not None:
        headings += ["baseline", "difference", f"{level} interval"]
    rows = []
    for name, metric in own["metrics"].items():
        row = [_text(name), *_estimate(metric)]
        if other is not None:
            difference = (compared or {"differences": {}})["differences"].get(name, {})
            row += [_estimate(other["metrics"].get(name, {}))[0], *_estimate(difference, signed=True)]
        rows.append(row)
    return _table(headings, rows)


def _estimate(metric: Mapping[str, Any], *, signed: bool = False) -> tuple[str, str]:
    """A number and its interval; bold if it is a difference whose interval excludes zero."""
    if not metric:
        return "", ""
    if metric["value"] is None:
        return "insufficient evidence", ""
    form = "+.3f" if signed else ".3f"
    shown, low, high = f"{metric['value']:{form}}", metric["low"], metric["high"]
    if low is None or high is None:
        return shown, ""
    differs = signed and (low > 0 or high < 0)
    return f"**{shown}**" if differs else shown, f"{low:{form}} to {high:{form}}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def _named(model: Mapping[str, Any]) -> str:
    name = _text(model["name"])
    return f"{name} version {model['version']}" if model["version"] is not None else name


def _text(text: str) -> str:
    """One line without markup, because a column may have any name."""
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> str:
    """Monospaced text, such as a path."""
    return f"`{' '.join(str(text).split()).replace('`', chr(39))}`"
