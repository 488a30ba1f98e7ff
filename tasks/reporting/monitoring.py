"""A look at drift as one HTML page: did the people change, in which columns, and does the model notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from evenhand.tasks.reporting import figures, formats, words
from evenhand.tasks.reporting import monitoring_words as said
from evenhand.tasks.reporting.context import Environment, Gates, Step, parse
from evenhand.tasks.reporting.monitoring_plots import shares_plot
from evenhand.tasks.reporting.page import environment, gate_rows, machine_rows

__all__ = ["render_monitoring"]

Json = Mapping[str, Any]
MOST_DRAWN = 6
MOST_BINS = 12
# A table of more gates is folded; those that did not pass are in the front anyway.
MOST_OPEN = 12


def render_monitoring(context: Mapping[str, Any]) -> str:
    """
    Write the report of a look at drift.

    Parameters
    ----------
    context : mapping
        Plain JSON: ``run_id``, ``created`` (ISO time), ``status`` (the gates' verdict), ``model`` (``name``,
        ``version``, ``uri``, ``method``, ``contract``, ``content``), ``data`` (``shown``, ``fingerprint``),
        ``drift`` (content of ``drift.json``, see :mod:`tasks.measure_drift`), ``gates`` (a decision's
        ``to_json``), ``default_gates``, ``notes``, ``seconds`` by step, ``cached``, ``environment`` and
        ``files`` (``name``, ``href``).

    Returns
    -------
    str
        A whole HTML document. The same context gives the same text.
    """
    kind, symbol, status = said.STATUS[context["status"]]
    drift = context["drift"]
    level = f"{100 * drift['settings']['level']:g}% interval"
    steps = [Step(name=n, seconds=s, cached=n in context["cached"]) for n, s in context["seconds"].items()]
    parts: dict[str, Any] = {
        "columns": _columns(drift),
        "shares": _shares(drift),
        "groups": _groups(drift),
        "answers": _answers(drift),
        "gates": _gates(context, level),
        "steps": figures.steps(steps),
    }
    titles = {
        "columns": "Column by column",
        "shares": "What changed most",
        "groups": "The people",
        "answers": "Outcomes and answers",
        "gates": "Gates",
        "steps": "Steps",
    }
    contents = [(name, titles[name]) for name, part in parts.items() if part]
    html = (
        environment()
        .get_template("monitor.html.j2")
        .render(
            c=context,
            kind=kind,
            symbol=symbol,
            status=status,
            headline=said.headline(context),
            contents=[*contents, ("cautions", "What this does not say"), ("made", "How it was made")],
            interval=level,
            most_open=MOST_OPEN,
            cautions=said.cautions(),
            made=_made(context),
            **parts,
        )
    )
    # a category's name may hold bytes that are no text
    return html.encode("utf-8", "replace").decode("utf-8")


def _columns(drift: Json) -> list[dict[str, Any]]:
    """A row a column, those that changed most first."""
    return [
        {
            "name": name,
            "sensitive": column["sensitive"],
            "psi": column["psi"],
            "expected": column["expected_psi"],
            "p": said.p_value(column["p_value"]),
            "bins": column["bins_compared"],
            "unseen": column["unseen"],
            "missing": column["missing"],
            "broken": [(rule["rule"], rule["rows"]) for rule in column["broken"]],
        }
        for name, column in said.by_change(drift["columns"])
    ]


def _shares(drift: Json) -> list[dict[str, Any]]:
    """Plots of the columns that changed most."""
    shown = []
    for number, (name, column) in enumerate(said.by_change(drift["columns"])[:MOST_DRAWN]):
        rows = [(item["name"], item["then"], item["now"]) for item in column["bins"]]
        if not rows:
            continue
        drawn = rows
        if len(rows) > MOST_BINS:
            moved = sorted(rows, key=lambda row: -abs(row[2] - row[1]))[:MOST_BINS]
            drawn = [row for row in rows if row in moved]
        spoken = "; ".join(
            f"{bin_} from {formats.percent(then)} to {formats.percent(now)}" for bin_, then, now in drawn
        )
        about: dict[str, Any] = {"title": f"Shares of {name}, then and now", "description": spoken}
        wide = shares_plot(drawn, uid=f"share-{number}-w", **about)
        narrow = shares_plot(drawn, uid=f"share-{number}-n", compact=True, **about)
        shown.append(
            {
                "name": name,
                "psi": column["psi"]["value"],
                "plot": Markup(wide + narrow),
                "left": len(rows) - len(drawn),
                "rows": rows,
            }
        )
    return shown


def _groups(drift: Json) -> list[dict[str, Any]]:
    return [
        {
            "about": words.attribute(attribute),
            "change": found["share_change"],
            "rates": found["label_rate_change"],
            "labelled": any(row["label_now"] is not None for row in found["rows"]),
            "rows": found["rows"],
        }
        for attribute, found in drift["groups"].items()
    ]


def _answers(drift: Json) -> list[dict[str, Any]]:
    """Shares of positive labels and of positive answers, then and now."""
    label, predicted = drift["label"], drift["prediction"]
    rows = [("Positive labels", "training rows, and new rows that have one", label)]
    if predicted is not None:
        now = {**predicted, "now": predicted["rate"]["value"]}
        rows.append(("Positive answers of the model", "test rows of its training run, and new rows", now))
    return [
        {"name": name, "rows": remark, "then": row["then"], "now": row["now"], "change": row["change"]}
        for name, remark, row in rows
    ]


def _gates(context: Json, level: str) -> list[dict[str, Any]]:
    keys = ("verdict", "passed", "results", "note")
    gates = parse(Gates, {key: context["gates"][key] for key in keys})
    rows = gate_rows(gates, level)
    for row in rows:
        row["metric"] = said.drift_metric(row["name"])
    # those that need a look first
    return sorted(rows, key=lambda row: row["kind"] == "passed")


def _made(context: Json) -> list[dict[str, Any]]:
    model, drift = context["model"], context["drift"]
    settings = drift["settings"]
    groups = [
        (
            "The comparison",
            [
                ("Run", context["run_id"]),
                ("New rows", formats.count(drift["rows"])),
                ("Training rows", formats.count(drift["reference_rows"])),
                ("Columns of the data that were not looked at", formats.count(drift["ignored_columns"])),
                ("Fingerprint of the data (SHA-256)", context["data"]["fingerprint"]),
                ("Level of the intervals", f"{100 * settings['level']:g}%"),
                ("Bootstrap draws", formats.count(settings["draws"])),
                ("People that a group needs", formats.count(settings["min_cell"])),
            ],
        ),
        (
            "The model",
            [
                ("Method", f"{model['method']}: {words.method(model['method'])}"),
                ("Contract", f"{model['contract']['name']}, version {model['contract']['version']}"),
                ("Content (SHA-256)", model["content"]),
            ],
        ),
        ("The machine and the code", machine_rows(Environment.model_validate(context["environment"]))),
    ]
    return [{"caption": caption, "rows": rows} for caption, rows in groups]
