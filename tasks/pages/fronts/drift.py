"""The front of a drift page: have the people changed, in which columns, and do predictions change."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Front, Json
from evenhand.tasks.pages.sections.drift_columns import by_change
from evenhand.tasks.pages.texts import called, gate_kind

STATUS: dict[str, tuple[str, str, str]] = {
    "passed": ("passed", "\u2713", "No drift beyond the gates"),
    "refused": ("refused", "\u2715", "The rows have drifted"),
    "insufficient_evidence": ("insufficient_evidence", "?", "Not enough rows to tell"),
}
MOST_NAMED = 3
# Smallest change of a share that the headline names.
NOTABLE = 0.05
# Name in drift.json of the bin of all categories that the training rows do not have.
NEW = "never seen in training"


def front(documents: Documents) -> Front:
    """Build the front; the second sentence of the headline is the answer."""
    run = documents["run"]
    model = run["judged"]
    return Front(
        "drift report",
        f"{model['name']}, monitored",
        [f"Run {run['id']}"],
        headline(documents),
        run["created"],
        badge=STATUS[run["status"]],
        facts=[("Model", Cell(called(model), code=model["uri"])), ("New rows", Cell(run["data"]["shown"]))],
    )


def headline(documents: Documents) -> list[str]:
    """Write the headline: what was compared, the answer, and what it rests on."""
    run, drift = documents["run"], documents["drift"]
    compared = (
        f"{formats.plural(drift['rows'], 'new row')} were compared with the "
        f"{formats.count(drift['reference_rows'])} training rows of {called(run['judged'])}."
    )
    results = documents["decision"]["results"]
    refused = [result["metric"] for result in results if gate_kind(result) == "refused"]
    unclear = sum(gate_kind(result) == "insufficient_evidence" for result in results)
    default = "default " if run["default_gates"] else ""
    gates = formats.plural(len(results), f"{default}gate")
    answer = f"The rows are within the limits of all {default}gates."
    if refused:
        answer = f"The people have changed: {len(refused)} of {gates} refused."
    elif unclear:
        answer = f"There are too few rows to tell: {unclear} of {gates} could not be judged."
    found = [*_most_changed(drift["columns"], refused), *_new_values(drift["columns"])]
    notes = [formats.sentence(f"{note}.") for note in run["notes"]]
    return [compared, answer, *found, *_groups(drift), *_predictions(drift["prediction"]), *notes]


def _most_changed(columns: Json, refused: Sequence[str]) -> list[str]:
    """The columns that changed most, by how much, and how much of it is chance."""
    known = [(name, c) for name, c in by_change(columns) if c["psi"]["value"] is not None]
    if not known:
        return []
    top = [item for item in known if f"psi.{item[0]}" in refused][:MOST_NAMED] or known[:1]
    listed = [
        f"“{name}” (population stability index {formats.number(c['psi']['value'])}; without drift about "
        f"{formats.number(c['expected_psi'])})"
        for name, c in top
    ]
    moved = []
    for name, column in top:
        # new categories have a sentence of their own
        bins = [b for b in column["bins"] if b["name"] != NEW]
        b = max(bins, key=lambda b: abs(b["now"] - b["then"]), default={"now": 0.0, "then": 0.0})
        if abs(b["now"] - b["then"]) >= NOTABLE:
            moved.append(
                f"In “{name}”, {formats.percent(b['now'])} of the rows are “{b['name']}”; "
                f"{formats.percent(b['then'])} of the training rows were."
            )
    return [f"Most changed: {formats.join(listed)}.", *moved]


def _new_values(columns: Json) -> list[str]:
    unseen = {name: column["unseen"]["value"] for name, column in columns.items() if column["unseen"]}
    new = sorted(((share, name) for name, share in unseen.items() if share), reverse=True)[:MOST_NAMED]
    broken = [f"“{name}”" for name, column in columns.items() if column["broken"]]
    said = []
    if new:
        listed = formats.join([f"“{name}” ({formats.percent(share)} of rows)" for share, name in new])
        said.append(f"Some categories of {listed} are not in the training rows.")
    if broken:
        said.append(f"Some values break the data contract, in {formats.shortlist(broken, MOST_NAMED)}.")
    return said


def _groups(drift: Json) -> list[str]:
    """Groups and labels, where the new rows have them."""
    said = []
    for attribute, found in drift["groups"].items():
        change, by = found["share_change"], f"By {spoken(attribute)}"
        if change["low"]:
            known = [row for row in found["rows"] if row["now"] is not None]
            row = max(known, key=lambda row: abs(row["now"] - row["then"]))
            said.append(
                f"{by}: “{row['group']}” is {formats.percent(row['now'])} of the new rows and "
                f"{formats.percent(row['then'])} of the training rows."
            )
        elif change["value"] is not None:
            said.append(f"{by}: no change of the groups’ shares can be told from chance.")
    label = drift["label"]
    if label["change"]["value"] is not None and label["change"]["low"]:
        said.append(
            f"The share of positive labels is {formats.percent(label['now'])}; it was "
            f"{formats.percent(label['then'])}."
        )
    return said


def _predictions(found: Json | None) -> list[str]:
    """Whether the model's selection rate has changed."""
    if found is None or found["rate"]["value"] is None:
        return []
    now = formats.percent(found["rate"]["value"])
    said = f"The model predicts {now} of the new rows positive"
    if found["then"] is not None:
        changed = "has changed" if found["change"]["low"] else "has not changed beyond chance"
        then = formats.percent(found["then"])
        said = f"The model’s selection rate {changed}: {now} of the new rows, {then} of the test rows"
    left = found["unanswered"]
    return [f"{said}; it cannot predict {formats.plural(left, 'row')}." if left else f"{said}."]
