"""The page of a prediction run: rows, decisions, probabilities and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.fronts.filter_front import file_blocks, files_by
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Front, Section, Table
from evenhand.tasks.pages.value_names import label_name

NEEDS = ("summary", "settings")
# How the page was made is folded.
FOLDS = True


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    failed = files_by(documents["summary"], "failed")
    badge = ("passed", "\u2713", "Predicted")
    if failed:
        badge = ("failed", "\u2715", f"{formats.plural(len(failed), 'file')} failed")
    facts = [("Model", Cell(texts.called(run["judged"]), code=run["judged"]["uri"]))]
    facts += [(name.capitalize(), Cell("", code=run[name])) for name in ("input", "output")]
    title = f"{run['judged']['name']}: predictions"
    meta = [f"Run {run['id']}"]
    return Front(
        "prediction report", title, meta, _headline(documents), run["created"], badge, facts
    )


def _headline(documents: Documents) -> list[str]:
    run = documents["run"]
    summary = documents["summary"]
    rows = summary["rows_out"]
    label = run["label"]
    tested = run["tested"]
    if not rows:
        return ["The output has no row."]
    if "classes" in label:
        return [
            f"The output has {formats.plural(rows, 'row')} with predictions of {label['name']}."
        ]
    positive = label_name(run["value_names"], label["name"], label["positive"])
    outcome = outcome_in_words(label["name"], positive)
    share = formats.percent(summary["expected_out"] / rows)
    then = formats.percent(tested["predicted_positive"] / tested["n"]) if tested else "not known"
    return [
        f"The output has {formats.plural(rows, 'row')} with predictions; {share} of them are "
        f"“{outcome}” (test rows of the training: {then}). A large difference is a reason to "
        "measure drift with the command evenhand monitor."
    ]


def build(documents: Documents) -> Iterator[Section]:
    """Rows, probabilities, files."""
    run = documents["run"]
    summary = documents["summary"]
    outside = summary.get("outside", 0)
    set_aside = 0
    if documents["settings"].get("outside") == "set_aside":
        set_aside = outside
    name_counts = [
        ("Predicted", summary["rows_out"]),
        ("Set aside: they break the data contract", summary["quarantined"] - set_aside),
        ("Set aside: outside the bounds that were observed", set_aside),
        ("Left out: a sensitive model input is missing", summary["dropped"]),
        ("Predicted outside the bounds that were observed", outside - set_aside),
        ("All rows read", summary["rows_in"]),
    ]
    counts: list[list[Any]] = [[name, count] for name, count in name_counts if count]
    blocks: list[Block] = [Table("Rows of all files in the output", ["Rows", "Number"], counts)]
    bins = [int(n) for n in summary["masses"][:-1]]
    least = run["min_cell"]
    if sum(bins):
        # a count of a few people is not shown, as on every page
        rows: list[list[Any]] = []
        for i, n in enumerate(bins):
            count = f"fewer than {least}" if 0 < n < least else n
            rows.append([f"{i / len(bins):g} to {(i + 1) / len(bins):g}", count])
        label = run["label"]
        predicted = "the predicted label"
        if "positive" in label:
            predicted = f"“{label_name(run['value_names'], label['name'], label['positive'])}”"
        caption = f"Rows of this model's files by the probability of {predicted}"
        blocks.append(Table(caption, ["Probability", "Rows"], rows))
    yield Section("rows", "Rows", blocks)
    yield Section("files", "Files", file_blocks(summary, "predicted", "in the output"))
