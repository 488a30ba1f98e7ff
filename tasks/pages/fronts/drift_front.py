"""The page of drift: have the people changed, in which columns, and do predictions change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken, title
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Front,
    Heading,
    Json,
    Section,
    Table,
)

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
MOST_DRAWN = 6
MOST_BINS = 12
MOMENTS = ("then", "now", "change")
NEEDS = ("drift",)
CAUTIONS = (
    "**Each column is compared alone.** Only counts of each column are kept of the training "
    "rows, so a change that shows only in several columns together is not seen.",
    "**Drift of the inputs is not an error of the model.** A change of the inputs does not say "
    "that the model is wrong about the new rows, and no change does not say that it is right: "
    "that takes new rows with labels, and `evenhand evaluate`.",
    "**Many rows make every difference significant.** The p-value is then small for differences "
    "that do not "
    "matter. The index measures how large a change is; the default gates judge the index.",
)


def front(documents: Documents) -> Front:
    """Build the front; the second sentence of the headline is the answer."""
    run = documents["run"]
    model = run["judged"]
    shown = Cell(texts.called(model), code=model["uri"])
    facts = [("Model", shown), ("New rows", Cell(run["data"]["shown"]))]
    named = f"{model['name']}, monitored"
    meta = [f"Run {run['id']}"]
    badge = STATUS[run["status"]]
    return Front("drift report", named, meta, headline(documents), run["created"], badge, facts)


def headline(documents: Documents) -> list[str]:
    """Write the headline: what was compared, the answer, and what it rests on."""
    run = documents["run"]
    drift = documents["drift"]
    compared = (
        f"{formats.plural(drift['rows'], 'new row')} were compared with the "
        f"{formats.count(drift['reference_rows'])} training rows of {texts.called(run['judged'])}."
    )
    results = documents["decision"]["results"]
    refused = [result["metric"] for result in results if texts.gate_kind(result) == "refused"]
    unclear = sum(texts.gate_kind(result) == "insufficient_evidence" for result in results)
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
    listed = []
    moved = []
    for name, column in top:
        index = formats.number(column["psi"]["value"])
        chance = formats.number(column["expected_psi"])
        listed.append(
            f"“{name}” (population stability index {index}; without drift about {chance})"
        )
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
    unseen = [
        (column["unseen"]["value"], name) for name, column in columns.items() if column["unseen"]
    ]
    new = sorted((found for found in unseen if found[0]), reverse=True)[:MOST_NAMED]
    broken = [f"“{name}”" for name, column in columns.items() if column["broken"]]
    said = []
    if new:
        listed = formats.join(
            [f"“{name}” ({formats.percent(share)} of rows)" for share, name in new]
        )
        said.append(f"Some categories of {listed} are not in the training rows.")
    if broken:
        said.append(
            f"Some values break the data contract, in {formats.shortlist(broken, MOST_NAMED)}."
        )
    return said


def _groups(drift: Json) -> list[str]:
    """Groups and labels, where the new rows have them."""
    said = []
    for attribute, found in drift["groups"].items():
        change = found["share_change"]
        by = f"By {spoken(attribute)}"
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
    if label["change"]["low"] and "classes" in label:
        said.append(f"Of the labels {_moved_most(label)}.")
    elif label["change"]["low"]:
        said.append(
            f"The share of positive labels is {formats.percent(label['now'])}; it was "
            f"{formats.percent(label['then'])}."
        )
    return said


def _moved_most(found: Json) -> str:
    """The label whose share has changed most."""
    row = max(found["classes"], key=lambda row: abs(row["now"] - row["then"]))
    now = formats.percent(row["now"])
    then = formats.percent(row["then"])
    return f"“{row['name']}” has changed most: {now} of the new rows, {then} then"


def _predictions(found: Json | None) -> list[str]:
    """Whether the share predicted positive, or the shares that get each label, have changed."""
    if found is None or (found["rate"] or found["change"])["value"] is None:
        return []
    if found["rate"] is None:
        changed = "No change of the shares that are predicted as each label can be told from chance"
        said = f"Of the predictions {_moved_most(found)}" if found["change"]["low"] else changed
        left = found["unanswered"]
        return [
            f"{said}; the model cannot predict {formats.plural(left, 'row')}."
            if left
            else f"{said}."
        ]
    now = formats.percent(found["rate"]["value"])
    said = f"The model predicts {now} of the new rows positive"
    if found["then"] is not None:
        changed = "has changed" if found["change"]["low"] else "has not changed beyond chance"
        then = formats.percent(found["then"])
        said = (
            f"The share predicted positive {changed}: {now} of the new rows, {then} of the test "
            "rows"
        )
    left = found["unanswered"]
    return [f"{said}; it cannot predict {formats.plural(left, 'row')}." if left else f"{said}."]


def build(documents: Documents) -> Iterator[Section]:
    """Every column, what changed most, the groups, labels and predictions, and what these do not
    say.
    """
    drift = documents["drift"]
    lead = (
        "The population stability index (PSI) adds up how far the shares of a column’s bins have "
        "moved; by a common rule of thumb 0.1 is a small change and 0.2 a large one. “Without "
        "drift” is what chance alone gives at these numbers of rows. The p-value is that of a "
        "chi-square test, corrected for the number of columns (Holm)."
    )
    head = [
        "Column",
        "PSI",
        "Without drift",
        "P-value",
        "New categories",
        "Missing values",
        "Rules broken",
    ]
    caption = (
        f"Every column with its {texts.interval_name(drift['settings'])}, those that changed most "
        "first"
    )
    rows = [_row(name, column) for name, column in by_change(drift["columns"])]
    yield Section("columns", "Column by column", [lead, Table(caption, head, rows)])
    yield Section("shares", "What changed most", _charts(drift))
    if drift["groups"]:
        least = drift["settings"]["min_cell"]
        within = "" if "classes" in drift["label"] else ", and of positive labels within each"
        blocks: list[Block] = [
            f"Shares of the sensitive groups{within}. Groups with few training rows are together "
            f"“other”; a group of fewer than {least} new rows counts as {least - 1}, the most it "
            "can be."
        ]
        for attribute, group in drift["groups"].items():
            blocks += _attribute(spoken(attribute), group)
        yield Section("groups", "The people", blocks)
    yield Section("answers", "Labels and predictions", [*_answers(drift), *_exchanged(drift)])
    yield Section("cautions", "What this does not say", CAUTIONS)


def by_change(columns: Json) -> list[tuple[str, Json]]:
    """Columns by decreasing index, those without one last."""
    found = {name: column["psi"]["value"] for name, column in columns.items()}
    return sorted(
        columns.items(), key=lambda item: (found[item[0]] is None, -(found[item[0]] or 0.0))
    )


def _row(name: str, column: Json) -> list[Any]:
    unseen = column["unseen"]
    missing = column["missing"]
    broken = tuple(
        f"{rule['rule']}: {formats.plural(rule['rows'], 'row')}" for rule in column["broken"]
    )
    measured: list[Any] = [texts.estimate_cell(column["psi"], span=3)]
    if column["psi"]["value"] is not None:
        bins = formats.plural(column["bins_compared"], "bin")
        expected = Cell(formats.number(column["expected_psi"]), (bins,))
        measured = [
            texts.estimate_cell(column["psi"]),
            expected,
            formats.p_value(column["p_value"]),
        ]
    then_and_now = f"{formats.percent(missing['then'])} \u2192 {formats.percent(missing['now'])}"
    return [
        Cell(name, ("sensitive",) if column["sensitive"] else ()),
        *measured,
        texts.lack("a number") if unseen is None else texts.estimate_cell(unseen, formats.percent),
        texts.lack("too few rows") if missing["now"] is None else then_and_now,
        Cell("some" if broken else "none", broken),
    ]


def _charts(drift: Json) -> list[Block]:
    blocks: list[Block] = []
    changed = by_change(drift["columns"])[:MOST_DRAWN]
    for name, column in ((name, column) for name, column in changed if column["bins"]):
        bins = column["bins"]
        drawn = texts.largest(bins, MOST_BINS, lambda b: abs(b["now"] - b["then"]))
        said = "; ".join(
            f"{b['name']} from {formats.percent(b['then'])} to {formats.percent(b['now'])}"
            for b in drawn
        )
        rows = [{"group": b["name"], "before": b["then"], "after": b["now"]} for b in drawn]
        data = {"rows": rows, "before": "training rows", "after": "new rows"}
        caption = texts.left_out(drawn, bins, "The bins that moved most")
        shares = [[b["name"], formats.percent(b["then"]), formats.percent(b["now"])] for b in bins]
        table = Table(
            f"Shares of {name}", ["Bin", "Training rows", "New rows"], shares, folded=True
        )
        psi = formats.number(column["psi"]["value"])
        title = f"Shares of {name}, then and now"
        chart = Chart("group_charts.group_shares", data, title, said, caption, table)
        blocks += [Heading(f"{name} (PSI {psi})"), chart]
    return blocks


def _attribute(about: str, found: Json) -> list[Block]:
    labelled = any(row["label_now"] is not None for row in found["rows"])
    head = ["Group", "Training rows", "New rows"]
    head += ["Positive labels then", "Positive labels now"] if labelled else []
    rows: list[list[Any]] = []
    for row in found["rows"]:
        now = texts.lack("too few people") if row["few"] else _share(row["now"])
        labels = [_share(row[key]) for key in ("label_then", "label_now")] if labelled else []
        rows.append([row["group"], _share(row["then"]), now, *labels])
    share, rate = (_change(found[f"{of}_change"]) for of in ("share", "label_rate"))
    said = f"Largest change of a group’s share by {about}: {share}."
    if labelled:
        said += f" Largest change of a group’s share of positive labels: {rate}."
    return [said, Table(f"Groups by {about}", head, rows)]


def _change(found: Json) -> str:
    cell = texts.estimate_cell(found, formats.percent)
    return cell.text + (f" ({'; '.join(cell.below)})" if cell.below else "")


def _share(value: float | None) -> Cell:
    return texts.known(value, formats.percent, "too few")


def _answers(drift: Json) -> list[Block]:
    label = drift["label"]
    predicted = drift["prediction"]
    if "classes" in label:
        return [*_classes({"label": label, "prediction": predicted})]
    rows = [("Positive labels", "training rows, and new rows that have one", label)]
    if predicted is not None:
        now = {**predicted, "now": predicted["rate"]["value"]}
        rows.append(("Positive predictions", "test rows of the training run, and new rows", now))
    table = []
    for name, remark, row in rows:
        change = texts.estimate_cell(row["change"], formats.percent)
        table.append([Cell(name, (remark,)), _share(row["then"]), _share(row["now"]), change])
    caption = "Shares of positive labels and of positive predictions"
    return [Table(caption, ["Share of", "Then", "Now", "Change"], table)]


def _classes(answers: Mapping[str, Json]) -> Iterator[Block]:
    """Shares of more than two labels, and of the predictions of each, those that changed most
    first.
    """
    for name, found in answers.items():
        yield f"Largest change of the share of a {name}: {_change(found['change'])}."
        moved = sorted(found["classes"], key=lambda row: -abs((row["now"] or 0.0) - row["then"]))
        rows: list[list[Any]] = [
            [row["name"], _share(row["then"]), _share(row["now"])] for row in moved
        ]
        yield Table(f"Shares of the {name}s", ["Label", "Then", "Now"], rows)


def _exchanged(drift: Json) -> Iterator[Block]:
    """How answers move when one term of a sentence replaces another, then and now."""
    for name, found in drift["tokens"].items():
        sentences = formats.plural(found["sentences"], "sentence")
        yield Heading(f"Exchanged terms of {spoken(name)}")
        yield (
            f"{sentences} of {found['column']} with a term were answered again with every other "
            "term of the list; then these were test rows of the training run."
        )
        rows: list[list[Any]] = []
        for row in found["metrics"]:
            rows.append([title(row["name"]), *(texts.estimate_cell(row[key]) for key in MOMENTS)])
        caption = f"Moves of the answers, with {texts.interval_name(drift['settings'])}s"
        yield Table(caption, ["Metric", "Then", "Now", "Change"], rows)
