"""What changed since the champion: the version that had the alias before the run."""

from __future__ import annotations

from evenhand.fairlib.catalogue import better_or_worse, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.metrics_section import without_labels
from evenhand.tasks.pages.texts import estimate_cell, gate_results, lack, metric_cell, overlap

PAGES = {"run": 20}
NEEDS = ("champion", "metrics", "run")

MOST_NAMED = 2
# Metrics that come first where no gate says which matter.
LEADING = ("balanced_accuracy", "auc", "accuracy", "imbalance")
# By whether both were trained on the same table, None if it is not recorded: a paragraph, and a
# part of the headline.
TABLES = {
    True: ("Both were trained on the same table.", "on the same table"),
    False: (
        "The table has changed since, so the two were evaluated on different rows.",
        "on new data",
    ),
    None: ("Which table the champion was trained on is not recorded.", ""),
}


def build(documents: Documents) -> Section:
    """Every metric of the champion and of this run, and what the two were made from where it
    differs.
    """
    run = documents["run"]
    found = documents["metrics"]["metrics"]
    champion = documents["champion"]
    version = f"version {champion['version']}"
    blocks: list[Block] = [f"Before this run the champion was {version} ({champion['uri']})."]
    if _is_own(run, champion):
        blocks = [
            f"Nothing: this run’s model has the same content as {version}, which was champion "
            f"before ({champion['uri']})."
        ]
    elif not _has_card(champion):
        blocks.append("Its model card could not be read.")
    else:
        blocks.append(
            f"{TABLES[_same_table(run, champion)][0]} A change between intervals that overlap may "
            "be chance; `evenhand evaluate --baseline` compares two versions on the same rows."
        )
        before = champion["metrics"]
        names = without_labels(dict.fromkeys([*found, *before]))
        table = [_row(name, before.get(name), found.get(name)) for name in names]
        caption = "Metrics with their intervals: the champion, this run, and the change"
        blocks.append(Table(caption, ["Metric", "Champion", "This run", "Change"], table))
        settings = _settings(run, champion)
        if settings:
            caption = "What the two were made from, where it differs"
            blocks.append(Table(caption, ["What", "Champion", "This run"], settings, pairs=True))
    return Section("champion", "What changed since the champion", blocks)


def champion_sentence(documents: Documents) -> str:
    """Say in one sentence what changed since the champion."""
    run = documents["run"]
    champion = documents["champion"]
    if _is_own(run, champion):
        return f"This model is the champion: version {champion['version']} has the same content."
    stays = "" if run["status"] == "published" else ", and stays it"
    was = f"Version {champion['version']} was champion before{stays}"
    if not _has_card(champion):
        return f"{was}; its model card could not be read."
    moved = []
    for name in _leading(documents):
        found = (documents[key]["metrics"].get(name) or {} for key in ("champion", "metrics"))
        old, new = (formats.number(metric.get("value")) for metric in found)
        if formats.MISSING not in (old, new):
            change = f"is still {new}" if old == new else f"was {old} and is now {new}"
            moved.append(f"{title(name)} {change}")
    parts = [*moved[:MOST_NAMED], TABLES[_same_table(run, champion)][1], _parameters(run, champion)]
    return f"{was}: {', '.join(part for part in parts if part)}."


def _is_own(run: Json, champion: Json) -> bool:
    return run["model"] is not None and str(run["model"]["version"]) == str(champion["version"])


def _has_card(champion: Json) -> bool:
    return bool(
        champion.get("metrics") or champion.get("parameters") or champion.get("data_fingerprint")
    )


def _same_table(run: Json, champion: Json) -> bool | None:
    fingerprint = champion.get("data_fingerprint")
    return None if fingerprint is None else bool(fingerprint == run["table"]["fingerprint"])


def _leading(documents: Documents) -> list[str]:
    """Metrics that were refused, else one of performance; then the widest difference of selection
    rates.
    """
    results = gate_results(documents)
    found = documents["metrics"]["metrics"]
    first = [result["metric"] for result in results if not result["passed"]]
    if not first:
        first = [
            name for name in (*(result["metric"] for result in results), *LEADING) if name in found
        ][:1]
    names = [name for name in found if name.startswith("demographic_parity_difference.")]
    gaps = [(found[name]["value"], name) for name in names if found[name]["value"] is not None]
    return list(dict.fromkeys([*first, *([max(gaps)[1]] if gaps else [])]))


def _parameters(run: Json, champion: Json) -> str:
    if champion.get("method") not in (None, run["job"]["method"]):
        return f"by another method ({champion['method']} before)"
    names = [name for name, *_ in _changed(run, champion)]
    shown = formats.shortlist(names, 3 if len(names) == 3 else 2)
    return f"with other values of {shown}" if names else "with the same parameters"


def _row(name: str, before: Json | None, now: Json | None) -> list[Cell]:
    row = [metric_cell(name), estimate_cell(before), estimate_cell(now)]
    if not before or not now or before["value"] is None or now["value"] is None:
        return [*row, lack("cannot be computed")]
    change = now["value"] - before["value"]
    if change == 0:
        return [*row, Cell("0.000", ("the same",))]
    better = better_or_worse(name, change)
    apart = {True: "intervals overlap", False: "intervals apart", None: ""}[overlap(before, now)]
    kind = (
        {"better": "passed", "worse": "refused"}.get(better, "")
        if apart == "intervals apart"
        else ""
    )
    follows = ", ".join(text for text in (better, apart) if text) or "differs"
    return [*row, Cell(formats.signed(change), (follows,), kind=kind)]


def _settings(run: Json, champion: Json) -> list[tuple[str, str, str]]:
    """Name, before, now of what differs."""
    job = run["job"]
    table = run["table"]
    seed = run["job"].get("seed")
    rows = [
        ("Method", champion.get("method"), job["method"]),
        ("Contract version", champion.get("contract_version"), table["contract_version"]),
        (
            "Fingerprint of the table (SHA-256)",
            champion.get("data_fingerprint"),
            table["fingerprint"],
        ),
        ("Seed", champion.get("seed"), "not set" if seed is None else seed),
    ]
    differ = [row for row in rows if row[1] is not None and row[1] != row[2]]
    return [(name, str(before), str(now)) for name, before, now in differ] + _changed(run, champion)


def _changed(run: Json, champion: Json) -> list[tuple[str, str, str]]:
    """Parameters that differ: name, before, now."""
    before = dict(formats.flatten(champion.get("parameters") or {}))
    now = dict(formats.flatten(run["job"]["parameters"]))
    changed = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    return [(name, before.get(name, "not given"), now.get(name, "not given")) for name in changed]
