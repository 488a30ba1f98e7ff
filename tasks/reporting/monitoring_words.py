"""What was found of drift, in sentences: did the people change, in which columns, and does it matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.words import MetricWords

__all__ = ["STATUS", "by_change", "cautions", "drift_metric", "headline", "p_value"]

Json = Mapping[str, Any]

STATUS: dict[str, tuple[str, str, str]] = {
    "passed": ("passed", "\u2713", "No drift beyond the gates"),
    "refused": ("refused", "\u2715", "The rows have drifted"),
    "insufficient_evidence": ("insufficient_evidence", "?", "Not enough rows to tell"),
}
MOST_NAMED = 3
# What drift.json calls the bin of all categories that training never saw.
NEW = "never seen in training"

# Kind of metric: its label, and how what follows the dot is spoken of.
METRICS: dict[str, tuple[str, str]] = {
    "psi_max": ("Largest change of a column (PSI)", ""),
    "psi_mean": ("Mean change of the columns (PSI)", ""),
    "psi": ("Change (PSI) of", "{}"),
    "p_value": ("P-value of the change of", "{}"),
    "unseen_max": ("Most rows with a new category", ""),
    "unseen": ("Rows with a new category in", "{}"),
    "missing_change": ("Change of missing values in", "{}"),
    "outside_contract_max": ("Most rows that break a rule about a column", ""),
    "outside_contract": ("Rows that break the contract in", "{}"),
    "group_share_change": ("Change of a group’s share", "by {}"),
    "label_rate_change": ("Change of the share of positive labels", "by {}"),
    "prediction_rate": ("Share of positive answers", ""),
    "prediction_rate_change": ("Change of the share of positive answers", ""),
}


def drift_metric(name: str) -> MetricWords:
    """Put a metric of drift in words; an unknown one keeps its name."""
    stem, _, rest = name.partition(".")
    if stem not in METRICS:
        return MetricWords(name, "", "", None)
    label, about = METRICS[stem]
    return MetricWords(label, about.format(rest) if rest else "", "", None)


def by_change(columns: Json) -> list[tuple[str, Json]]:
    """Columns in falling order of their index, those without one last."""
    known = [(name, c) for name, c in columns.items() if c["psi"]["value"] is not None]
    lacking = [(name, c) for name, c in columns.items() if c["psi"]["value"] is None]
    return sorted(known, key=lambda item: -item[1]["psi"]["value"]) + lacking


def headline(context: Json) -> list[str]:
    """Answer in sentences; the second one is the answer, the others are what it rests on."""
    return [
        _compared(context),
        _answer(context),
        *_most(context),
        *_new(context),
        *_people(context),
        *_matters(context),
        *[f"{note[0].upper()}{note[1:]}." for note in context["notes"]],
    ]


def _compared(context: Json) -> str:
    drift, model = context["drift"], context["model"]
    called = model["name"] if model["version"] is None else f"version {model['version']} of {model['name']}"
    return (
        f"{formats.plural(drift['rows'], 'new row')} were held against the "
        f"{formats.count(drift['reference_rows'])} rows that {called} learned from."
    )


def _answer(context: Json) -> str:
    results = context["gates"]["results"]
    refused = [result for result in results if result["status"] == "ok" and not result["passed"]]
    unclear = [result for result in results if result["status"] != "ok"]
    default = "default " if context["default_gates"] else ""
    if refused:
        return (
            f"The people have changed: {len(refused)} of {formats.plural(len(results), f'{default}gate')} "
            "refused."
        )
    if unclear:
        return (
            f"There are too few rows to tell: {len(unclear)} of "
            f"{formats.plural(len(results), f'{default}gate')} could not be judged."
        )
    return f"They are like the training rows as far as the {default}gates ask."


def _most(context: Json) -> list[str]:
    """The columns that changed most, by how much, and how much is chance."""
    known = [(name, c) for name, c in by_change(context["drift"]["columns"]) if c["psi"]["value"] is not None]
    if not known:
        return []
    refused = {r["metric"] for r in context["gates"]["results"] if r["status"] == "ok" and not r["passed"]}
    top = [item for item in known if f"psi.{item[0]}" in refused][:MOST_NAMED] or known[:1]
    said = [
        f"“{name}” (stability index {formats.number(c['psi']['value'])}; without drift it would be about "
        f"{formats.number(c['expected_psi'])})"
        for name, c in top
    ]
    lead = "Most changed:" if len(top) > 1 or f"psi.{top[0][0]}" in refused else "The largest change is in"
    return [f"{lead} {formats.join(said)}.", *[moved for name, c in top if (moved := _moved(name, c))]]


def _moved(name: str, column: Json) -> str:
    """The bin whose share changed most, unless no bin's did."""
    # new categories have a sentence of their own
    moves = [(b["now"] - b["then"], b) for b in column["bins"] if b["name"] != NEW]
    if not moves:
        return ""
    change, bin_ = max(moves, key=lambda move: abs(move[0]))
    if abs(change) < 0.05:
        return ""
    return (
        f"In “{name}”, {formats.percent(bin_['now'])} of the rows are now “{bin_['name']}”, where "
        f"{formats.percent(bin_['then'])} were."
    )


def _new(context: Json) -> list[str]:
    columns = context["drift"]["columns"]
    new = [
        (c["unseen"]["value"], name) for name, c in columns.items() if c["unseen"] and c["unseen"]["value"]
    ]
    said = []
    if new:
        named = [
            f"“{name}” ({formats.percent(share)})" for share, name in sorted(new, reverse=True)[:MOST_NAMED]
        ]
        said.append(f"Training never saw some categories of {formats.join(named)}.")
    broken = [name for name, c in columns.items() if c["broken"]]
    if broken:
        which = formats.join([f"“{name}”" for name in broken[:MOST_NAMED]])
        more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
        said.append(f"Some values break the data contract, in {which}{more}.")
    return said


def _people(context: Json) -> list[str]:
    """Groups and labels, where the batch tells them."""
    said = []
    for attribute, found in context["drift"]["groups"].items():
        about = words.attribute(attribute)
        if found["share_change"]["value"] is None:
            continue
        moves = [(abs(row["now"] - row["then"]), row) for row in found["rows"] if row["now"] is not None]
        size, row = max(moves, key=lambda move: move[0])
        if found["share_change"]["low"]:
            said.append(
                f"By {about}: “{row['group']}” is now {formats.percent(row['now'])} of the people, and was "
                f"{formats.percent(row['then'])}."
            )
        else:
            said.append(f"By {about}: no change of the groups’ shares can be told from chance.")
    label = context["drift"]["label"]
    if label["change"]["value"] is not None and label["change"]["low"]:
        said.append(
            f"The positive label is now that of {formats.percent(label['now'])}, and was that of "
            f"{formats.percent(label['then'])}."
        )
    return said


def _matters(context: Json) -> list[str]:
    """What the model makes of it."""
    found = context["drift"]["prediction"]
    if found is None or found["rate"]["value"] is None:
        return []
    now = formats.percent(found["rate"]["value"])
    if found["then"] is None:
        said = f"The model gives the positive answer to {now} of the new rows"
    elif found["change"]["low"]:
        said = (
            f"It matters for the model: it gives the positive answer to {now} of the new rows, and gave it "
            f"to {formats.percent(found['then'])} of the test rows"
        )
    else:
        said = (
            "The model gives the positive answer as often as before, as far as can be told: to "
            f"{now} of the new rows, and to {formats.percent(found['then'])} of the test rows"
        )
    left = found["unanswered"]
    return [f"{said}; {formats.plural(left, 'row')} it could not answer." if left else f"{said}."]


def p_value(value: float | None) -> str:
    """Write a p-value."""
    if value is None:
        return formats.MISSING
    return "below 0.001" if value < 0.001 else formats.number(value)


def cautions() -> Sequence[tuple[str, str]]:
    """List what the page does not say: a lead and the rest."""
    return [
        (
            "Column by column.",
            "Only counts of each column were kept of the training rows, so a change that shows only in "
            "several columns together is not seen here.",
        ),
        (
            "Other people, or the same people answered differently?",
            "A change of the inputs does not say that the model is wrong about them, and no change does not "
            "say that it is right: that takes new rows with their outcome, and an evaluation of the model on "
            "them.",
        ),
        (
            "Many rows find everything.",
            "With many rows the p-value is small for differences that do not matter. The index measures how "
            "large the change is, and it is what the default gates judge.",
        ),
    ]
