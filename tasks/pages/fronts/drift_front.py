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
    "insufficient_evidence": ("insufficient_evidence", "?", "Not enough rows to decide"),
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
# How the page was made is folded.
FOLDS = True


def front(documents: Documents) -> Front:
    """Build the front; the second sentence of the headline is the answer."""
    run = documents["run"]
    model = run["judged"]
    model_cell = Cell(texts.called(model), code=model["uri"])
    facts = [("Model", model_cell), ("New rows", Cell(run["data"]["shown"]))]
    subject = f"{model['name']}, monitored"
    meta = [f"Run {run['id']}"]
    badge = STATUS[run["status"]]
    return Front("drift report", subject, meta, headline(documents), run["created"], badge, facts)


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
        answer = f"There are too few rows to decide: {unclear} of {gates} could not be judged."
    notes = [formats.sentence(f"{note}.") for note in run["notes"]]
    return [
        compared,
        answer,
        *_most_changed(drift["columns"], refused),
        *_new_values(drift["columns"]),
        *_groups(drift),
        *_predictions(drift["prediction"], run.get("positive", "")),
        *notes,
    ]


def _most_changed(columns: Json, refused: Sequence[str]) -> list[str]:
    """The columns that changed most, by how much, and how much of it is chance."""
    ranked = [
        (name, column) for name, column in by_change(columns) if column["psi"]["value"] is not None
    ]
    if not ranked:
        return []
    top = [item for item in ranked if f"psi.{item[0]}" in refused][:MOST_NAMED]
    listed = []
    moved = []
    for name, column in top or ranked[:1]:
        index = formats.number(column["psi"]["value"])
        chance = formats.number(column["expected_psi"])
        listed.append(
            f"“{name}” (population stability index {index}; without drift about {chance})"
        )
        # new categories have a sentence of their own
        bins = [part for part in column["bins"] if part["name"] != NEW]
        if not bins:
            continue
        widest = max(bins, key=lambda part: abs(part["now"] - part["then"]))
        if abs(widest["now"] - widest["then"]) >= NOTABLE:
            moved.append(
                f"In “{name}”, {formats.percent(widest['now'])} of the rows are "
                f"“{widest['name']}”; {formats.percent(widest['then'])} of the training rows were."
            )
    return [f"Most changed: {formats.join(listed)}.", *moved]


def _new_values(columns: Json) -> list[str]:
    shares = []
    broken = []
    for name, column in columns.items():
        if column["unseen"] and column["unseen"]["value"]:
            shares.append((column["unseen"]["value"], name))
        if column["broken"]:
            broken.append(f"“{name}”")
    largest = sorted(shares, reverse=True)[:MOST_NAMED]
    sentences = []
    if largest:
        listed = [f"“{name}” ({formats.percent(share)} of rows)" for share, name in largest]
        sentences.append(f"Some categories of {formats.join(listed)} are not in the training rows.")
    if broken:
        sentences.append(
            f"Some values break the data contract, in {formats.shortlist(broken, MOST_NAMED)}."
        )
    return sentences


def _groups(drift: Json) -> list[str]:
    """Groups and labels, where the new rows have them."""
    sentences = []
    for attribute, groups in drift["groups"].items():
        change = groups["share_change"]
        by = f"By {spoken(attribute)}"
        if change["low"]:
            rows = [row for row in groups["rows"] if row["now"] is not None]
            row = max(rows, key=lambda row: abs(row["now"] - row["then"]))
            sentences.append(
                f"{by}: “{row['group']}” is {formats.percent(row['now'])} of the new rows and "
                f"{formats.percent(row['then'])} of the training rows."
            )
        elif change["value"] is not None:
            sentences.append(f"{by}: no significant change of the groups’ shares.")
    label = drift["label"]
    if label["change"]["low"] and "classes" in label:
        sentences.append(f"Of the labels {_moved_most(label)}.")
    elif label["change"]["low"]:
        sentences.append(
            f"The share of positive labels is {formats.percent(label['now'])}; it was "
            f"{formats.percent(label['then'])}."
        )
    return sentences


def _moved_most(shares: Json) -> str:
    """The label whose share has changed most."""
    row = max(shares["classes"], key=lambda row: abs(row["now"] - row["then"]))
    now = formats.percent(row["now"])
    then = formats.percent(row["then"])
    return f"“{row['name']}” has changed most: {now} of the new rows, {then} then"


def _predictions(prediction: Json | None, positive: str) -> list[str]:
    """Whether the share predicted positive, or the shares that get each label, have changed."""
    if prediction is None or (prediction["rate"] or prediction["change"])["value"] is None:
        return []
    model = "it"
    if prediction["rate"] is None:
        model = "the model"
        sentence = "No significant change of the shares that are predicted as each label"
        if prediction["change"]["low"]:
            sentence = f"Of the predictions {_moved_most(prediction)}"
    else:
        sentence = _positive_predictions(prediction, positive)
    unanswered = prediction["unanswered"]
    if unanswered:
        sentence += f"; {model} cannot predict {formats.plural(unanswered, 'row')}"
    return [f"{sentence}."]


def _positive_predictions(prediction: Json, positive: str) -> str:
    """Say which share is predicted positive, and whether it has changed."""
    what = f"“{positive}”" if positive else "positive"
    now = formats.percent(prediction["rate"]["value"])
    if prediction["then"] is None:
        return f"The model predicts {what} for {now} of the new rows"
    changed = "has not changed beyond chance"
    if prediction["change"]["low"]:
        changed = "has changed"
    then = formats.percent(prediction["then"])
    return f"The share predicted {what} {changed}: {now} of the new rows, {then} of the test rows"


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
    answers = [*_answers(drift), *_exchanged(drift), *_adapted(drift)]
    yield Section("answers", "Labels and predictions", answers)
    yield Section("cautions", "What this does not say", CAUTIONS)


def by_change(columns: Json) -> list[tuple[str, Json]]:
    """Columns by decreasing index, those without one last."""

    def order(item: tuple[str, Json]) -> tuple[bool, float]:
        index = item[1]["psi"]["value"]
        return index is None, -(index or 0.0)

    return sorted(columns.items(), key=order)


def _row(name: str, column: Json) -> list[Any]:
    measured: list[Any] = [texts.estimate_cell(column["psi"], span=3)]
    if column["psi"]["value"] is not None:
        bins = formats.plural(column["bins_compared"], "bin")
        measured = [
            texts.estimate_cell(column["psi"]),
            Cell(formats.number(column["expected_psi"]), (bins,)),
            formats.p_value(column["p_value"]),
        ]
    unseen = texts.lack("a number")
    if column["unseen"] is not None:
        unseen = texts.estimate_cell(column["unseen"], formats.percent)
    missing: Any = texts.lack("too few rows")
    if column["missing"]["now"] is not None:
        then = formats.percent(column["missing"]["then"])
        now = formats.percent(column["missing"]["now"])
        missing = f"{then} \u2192 {now}"
    broken = tuple(
        f"{rule['rule']}: {formats.plural(rule['rows'], 'row')}" for rule in column["broken"]
    )
    return [
        Cell(name, ("sensitive",) if column["sensitive"] else ()),
        *measured,
        unseen,
        missing,
        Cell("some" if broken else "none", broken),
    ]


def _charts(drift: Json) -> list[Block]:
    blocks: list[Block] = []
    for name, column in by_change(drift["columns"])[:MOST_DRAWN]:
        bins = column["bins"]
        if not bins:
            continue
        drawn = texts.largest(bins, MOST_BINS, lambda part: abs(part["now"] - part["then"]))
        described = []
        bars = []
        for part in drawn:
            then = formats.percent(part["then"])
            now = formats.percent(part["now"])
            described.append(f"{part['name']} from {then} to {now}")
            bars.append({"group": part["name"], "before": part["then"], "after": part["now"]})
        rows = []
        for part in bins:
            rows.append([part["name"], formats.percent(part["then"]), formats.percent(part["now"])])
        table = Table(f"Shares of {name}", ["Bin", "Training rows", "New rows"], rows, folded=True)
        chart = Chart(
            "group_charts.group_shares",
            {"rows": bars, "before": "training rows", "after": "new rows"},
            f"Shares of {name}, then and now",
            "; ".join(described),
            texts.left_out(drawn, bins, "The bins that moved most"),
            table,
        )
        psi = formats.number(column["psi"]["value"])
        blocks += [Heading(f"{name} (PSI {psi})"), chart]
    return blocks


def _attribute(about: str, groups: Json) -> list[Block]:
    labelled = any(row["label_now"] is not None for row in groups["rows"])
    head = ["Group", "Training rows", "New rows"]
    if labelled:
        head += ["Positive labels then", "Positive labels now"]
    rows: list[list[Any]] = []
    for row in groups["rows"]:
        now = _share(row["now"])
        if row["few"]:
            now = texts.lack("too few people")
        cells = [row["group"], _share(row["then"]), now]
        if labelled:
            cells += [_share(row["label_then"]), _share(row["label_now"])]
        rows.append(cells)
    text = f"Largest change of a group’s share by {about}: {_change(groups['share_change'])}."
    if labelled:
        rate = _change(groups["label_rate_change"])
        text += f" Largest change of a group’s share of positive labels: {rate}."
    return [text, Table(f"Groups by {about}", head, rows)]


def _change(estimate: Json) -> str:
    cell = texts.estimate_cell(estimate, formats.percent)
    if not cell.below:
        return cell.text
    return f"{cell.text} ({'; '.join(cell.below)})"


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
    for name, shares in answers.items():
        yield f"Largest change of the share of a {name}: {_change(shares['change'])}."
        moved = sorted(shares["classes"], key=lambda row: -abs((row["now"] or 0.0) - row["then"]))
        rows: list[list[Any]] = [
            [row["name"], _share(row["then"]), _share(row["now"])] for row in moved
        ]
        yield Table(f"Shares of the {name}s", ["Label", "Then", "Now"], rows)


def _exchanged(drift: Json) -> Iterator[Block]:
    """How answers move when one term of a sentence replaces another, then and now."""
    for name, content in drift["tokens"].items():
        sentences = formats.plural(content["sentences"], "sentence")
        yield Heading(f"Counterfactual tokens of {spoken(name)}")
        yield (
            f"{sentences} of {content['column']} with a term were answered again with every other "
            "term of the list; then these were test rows of the training run."
        )
        rows = [_moments(row) for row in content["metrics"]]
        caption = f"Moves of the answers, with {texts.interval_name(drift['settings'])}s"
        yield Table(caption, ["Metric", "Then", "Now", "Change"], rows)


def _moments(row: Json) -> list[Any]:
    """Row of a metric then and now."""
    return [title(row["name"]), *[texts.estimate_cell(row[key]) for key in MOMENTS]]


def _adapted(drift: Json) -> Iterator[Block]:
    """Equal decisions on the copies that the model's learned metric makes, then and now."""
    if "adapted" not in drift:
        return
    yield Heading("Adapted copies")
    yield (
        "Each person was predicted again as a counterpart in every other group, as the learned "
        "fair metric of the model adapts the columns; then these were test rows of the training "
        "run."
    )
    caption = f"Equal decisions, with {texts.interval_name(drift['settings'])}s"
    rows = [_moments(drift["adapted"])]
    yield Table(caption, ["Metric", "Then", "Now", "Change"], rows)
