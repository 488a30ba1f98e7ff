"""An evaluation of a model, and of a baseline beside it, as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from evenhand.tasks.reporting import evaluation_words, figures, formats, words
from evenhand.tasks.reporting.context import Metric, Step, parse
from evenhand.tasks.reporting.difference_plot import DifferenceRow, difference_plot, signed, signed_interval
from evenhand.tasks.reporting.evaluation_context import EvaluationContext, JudgedModel
from evenhand.tasks.reporting.page import environment, evaluation_rows, gate_rows, machine_rows

__all__ = ["render_evaluation"]


def render_evaluation(context: Mapping[str, Any]) -> str:
    """
    Write the report of an evaluation.

    Parameters
    ----------
    context : mapping
        Plain JSON with the keys of :class:`evenhand.tasks.reporting.evaluation_context.EvaluationContext`.

    Returns
    -------
    str
        A whole HTML document. The same context gives the same text.

    Raises
    ------
    ValueError
        If the context does not fit the model: its first fault in one line.
    """
    checked = parse(EvaluationContext, context)
    symbol, status = evaluation_words.STATUS[checked.status]
    parts: dict[str, Any] = {
        "gates": _gates(checked),
        "metrics": _metrics(checked),
        "differences": _differences(checked),
        "rates": _rates(checked),
        "scores": figures.scores(checked.histograms),
        "steps": figures.steps(
            [Step(name=n, seconds=s, cached=n in checked.cached) for n, s in checked.seconds.items()]
        ),
        "made": _made(checked),
    }
    titles = {
        "gates": "Gates",
        "metrics": "How good, how even",
        "differences": "Beside the baseline",
        "rates": "Group by group",
        "scores": "Scores",
        "steps": "Steps",
        "made": "How it was made",
    }
    return (
        environment()
        .get_template("evaluation.html.j2")
        .render(
            c=checked,
            headline=evaluation_words.headline(checked),
            symbol=symbol,
            status=status,
            contents=[(name, titles[name]) for name, part in parts.items() if part],
            models=[("Model", checked.model)]
            + ([("Baseline", checked.baseline)] if checked.baseline is not None else []),
            **parts,
        )
    )


def _gates(context: EvaluationContext) -> list[dict[str, Any]]:
    return [] if context.gates is None else gate_rows(context.gates, context.interval)


def _metrics(context: EvaluationContext) -> dict[str, Any] | None:
    """Every metric of the model with its interval; the baseline's, and the difference, beside it."""
    evaluation, baseline = context.evaluation, context.baseline_evaluation
    if not evaluation.metrics:
        return None
    differences = context.comparison.differences if context.comparison else {}
    names = [
        *evaluation.metrics,
        *(n for n in (baseline.metrics if baseline else {}) if n not in evaluation.metrics),
    ]
    rows = []
    for name in names:
        found, own = differences.get(name), evaluation.metrics.get(name)
        rows.append(
            {
                "name": name,
                "words": words.metric(name),
                "metric": own,
                "reason": (own.reason or "") if own else "",
                "baseline": baseline.metrics.get(name) if baseline else None,
                "difference": None if found is None else _difference(name, found),
            }
        )
    return {
        "panels": figures.metric_panels(
            evaluation, context.interval, figures.limits_of(context.gates), baseline=baseline
        ),
        "table": rows,
        "glossary": words.glossary(names),
        "hidden": len(evaluation.metrics) - len(figures.plotted(evaluation)),
    }


def _difference(name: str, found: Metric) -> dict[str, Any]:
    kind = evaluation_words.finding(name, found)
    return {
        "value": None if found.value is None else signed(found.value),
        "interval": signed_interval(found.low, found.high),
        "reason": found.reason,
        "follows": evaluation_words.FOLLOWS[kind],
        "kind": {"better": "passed", "worse": "refused"}.get(kind, "neutral"),
        "symbol": {"better": "\u2713", "worse": "\u2715"}.get(kind, ""),
    }


def _differences(context: EvaluationContext) -> list[dict[str, Any]]:
    """The forest plots: a panel a scale, of metrics that are better in the same direction."""
    comparison = context.comparison
    if comparison is None:
        return []
    known = context.evaluation.counts
    names = [n for n in comparison.differences if not words.crossed(n.partition(".")[2], known)]
    panels = []
    for title, key, members in figures.panels_by_scale(names):
        rows = [_row(context, name, comparison.differences[name]) for name in members]
        spoken = "; ".join(
            f"{words.metric_phrase(name)}: {signed(comparison.differences[name].value)}, "
            f"{evaluation_words.FOLLOWS[evaluation_words.finding(name, comparison.differences[name])]}"
            for name in members
        )
        plot = figures.both(
            difference_plot,
            f"differences-{key}",
            rows=rows,
            title=f"{title}: the model less the baseline",
            description=f"{spoken}. The table above has every number.",
            better=words.metric(members[0]).better,
            interval_name=context.interval,
        )
        panels.append({"title": title, "plot": plot})
    return panels


def _row(context: EvaluationContext, name: str, found: Metric) -> DifferenceRow:
    said, kind = words.metric(name), evaluation_words.finding(name, found)
    limit: tuple[Literal["min", "max"], float] | None = None
    for result in context.gates.results if context.gates else []:
        if result.metric == name and result.kind == "no_worse_than_baseline":
            limit = ("min", -result.limit) if said.better == "higher" else ("max", result.limit)
    told = kind in ("better", "worse", "other", "same")
    return DifferenceRow(said.label, said.about, found.value, found.low, found.high, told, limit=limit)


def _rates(context: EvaluationContext) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group by group: the model, then the baseline."""
    judged = [("", "rates", context.evaluation)]
    if context.baseline_evaluation is not None:
        judged = [
            ("The model", "rates", context.evaluation),
            ("The baseline", "baseline-rates", context.baseline_evaluation),
        ]
    parts = [(who, figures.rates(evaluation, uid)) for who, uid, evaluation in judged]
    return [(who, rates) for who, rates in parts if rates]


def _of_model(caption: str, model: JudgedModel) -> tuple[str, list[tuple[str, str]]]:
    return (
        caption,
        [
            ("Model", model.name),
            ("Version", "not registered" if model.version is None else str(model.version)),
            ("Where it is", model.uri),
            ("Method", f"{model.method}: {words.method(model.method)}"),
            ("Contract", f"{model.contract.name}, version {model.contract.version}"),
            ("Content (SHA-256)", model.content),
        ],
    )


def _made(context: EvaluationContext) -> list[dict[str, Any]]:
    data, label = context.data, context.label
    groups = [_of_model("The model", context.model)]
    if context.baseline is not None:
        groups.append(_of_model("The baseline", context.baseline))
    held = evaluation_rows(context.evaluation)
    if context.comparison is not None:
        held.append(("Draws of the paired bootstrap", formats.count(context.comparison.settings.draws)))
    groups += [
        (
            "The data",
            [
                ("Data", data.shown),
                ("Rows", formats.count(data.rows)),
                ("Rows set aside", formats.count(data.rows_set_aside)),
                ("Fingerprint (SHA-256)", data.fingerprint),
                ("Label", label.name),
                ("Positive answer", str(label.positive)),
                ("Negative answer", str(label.negative)),
            ],
        ),
        ("The evaluation", held),
        ("The machine and the code", [("Run", context.run_id), *machine_rows(context.environment)]),
    ]
    return [{"caption": caption, "rows": rows} for caption, rows in groups]
