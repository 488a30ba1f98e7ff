"""The front of a drift page: have the people changed, in which columns, and do predictions change."""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Front, Json
from evenhand.tasks.pages.sections.drift_columns import by_change
from evenhand.tasks.pages.texts import called

STATUS: dict[str, tuple[str, str, str]] = {
    "passed": ("passed", "\u2713", "No drift beyond the gates"),
    "refused": ("refused", "\u2715", "The rows have drifted"),
    "insufficient_evidence": ("insufficient_evidence", "?", "Not enough rows to tell"),
}
MOST_NAMED = 3
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
    notes = [f"{note[0].upper()}{note[1:]}." for note in run["notes"]]
    return [
        compared,
        _answer(documents),
        *_most_changed(documents),
        *_new_values(drift),
        *_groups(drift),
        *_predictions(drift),
        *notes,
    ]


def _answer(documents: Documents) -> str:
    results = documents["decision"]["results"]
    refused = [result for result in results if result["status"] == "ok" and not result["passed"]]
    unclear = [result for result in results if result["status"] != "ok"]
    default = "default " if documents["run"]["default_gates"] else ""
    gates = formats.plural(len(results), f"{default}gate")
    if refused:
        return f"The people have changed: {len(refused)} of {gates} refused."
    if unclear:
        return f"There are too few rows to tell: {len(unclear)} of {gates} could not be judged."
    return f"The rows are within the limits of all {default}gates."


def _most_changed(documents: Documents) -> list[str]:
    """The columns that changed most, by how much, and how much of it is chance."""
    columns = documents["drift"]["columns"]
    known = [(name, c) for name, c in by_change(columns) if c["psi"]["value"] is not None]
    if not known:
        return []
    results = documents["decision"]["results"]
    refused = {r["metric"] for r in results if r["status"] == "ok" and not r["passed"]}
    top = [item for item in known if f"psi.{item[0]}" in refused][:MOST_NAMED] or known[:1]
    listed = [
        f"“{name}” (population stability index {formats.number(c['psi']['value'])}; without drift about "
        f"{formats.number(c['expected_psi'])})"
        for name, c in top
    ]
    return [
        f"Most changed: {formats.join(listed)}.",
        *[text for name, c in top if (text := _bin_moved(name, c))],
    ]


def _bin_moved(name: str, column: Json) -> str:
    """The bin whose share changed most, if by 5 percentage points at least."""
    # new categories have a sentence of their own
    moves = [(b["now"] - b["then"], b) for b in column["bins"] if b["name"] != NEW]
    if not moves:
        return ""
    change, moved = max(moves, key=lambda move: abs(move[0]))
    if abs(change) < 0.05:
        return ""
    return (
        f"In “{name}”, {formats.percent(moved['now'])} of the rows are “{moved['name']}”; "
        f"{formats.percent(moved['then'])} of the training rows were."
    )


def _new_values(drift: Json) -> list[str]:
    columns = drift["columns"]
    new = [
        (c["unseen"]["value"], name) for name, c in columns.items() if c["unseen"] and c["unseen"]["value"]
    ]
    said = []
    if new:
        top = sorted(new, reverse=True)[:MOST_NAMED]
        listed = formats.join([f"“{name}” ({formats.percent(share)} of rows)" for share, name in top])
        said.append(f"Some categories of {listed} are not in the training rows.")
    broken = [name for name, c in columns.items() if c["broken"]]
    if broken:
        which = formats.join([f"“{name}”" for name in broken[:MOST_NAMED]])
        more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
        said.append(f"Some values break the data contract, in {which}{more}.")
    return said


def _groups(drift: Json) -> list[str]:
    """Groups and labels, where the new rows have them."""
    said = []
    for attribute, found in drift["groups"].items():
        change = found["share_change"]
        if change["value"] is None:
            continue
        if change["low"]:
            moves = [(abs(row["now"] - row["then"]), row) for row in found["rows"] if row["now"] is not None]
            row = max(moves, key=lambda move: move[0])[1]
            said.append(
                f"By {spoken(attribute)}: “{row['group']}” is {formats.percent(row['now'])} of the new rows "
                f"and {formats.percent(row['then'])} of the training rows."
            )
        else:
            said.append(f"By {spoken(attribute)}: no change of the groups’ shares can be told from chance.")
    label = drift["label"]
    if label["change"]["value"] is not None and label["change"]["low"]:
        said.append(
            f"The share of positive labels is {formats.percent(label['now'])}; it was "
            f"{formats.percent(label['then'])}."
        )
    return said


def _predictions(drift: Json) -> list[str]:
    """Whether the model's selection rate has changed."""
    found = drift["prediction"]
    if found is None or found["rate"]["value"] is None:
        return []
    now = formats.percent(found["rate"]["value"])
    if found["then"] is None:
        said = f"The model predicts {now} of the new rows positive"
    else:
        then = formats.percent(found["then"])
        changed = "has changed" if found["change"]["low"] else "has not changed beyond chance"
        said = f"The model’s selection rate {changed}: {now} of the new rows, {then} of the test rows"
    left = found["unanswered"]
    return [f"{said}; it cannot predict {formats.plural(left, 'row')}." if left else f"{said}."]
