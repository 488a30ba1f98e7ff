"""What changed since the champion: the version that had the alias before the run."""

from __future__ import annotations

from collections.abc import Mapping

from evenhand.fairlib.catalogue import better_or_worse, spoken, title
from evenhand.tasks.evaluating.favoured_groups import favoured_groups
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
    metrics = documents["metrics"]["metrics"]
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
        blocks += favoured_changes(documents)
        before = champion["metrics"]
        names = without_labels(dict.fromkeys([*metrics, *before]))
        table = [_row(name, before.get(name), metrics.get(name)) for name in names]
        caption = "Metrics with their intervals: the champion, this run, and the change"
        blocks.append(Table(caption, ["Metric", "Champion", "This run", "Change"], table))
        settings = _settings(run, champion)
        if settings:
            caption = "What the two were made from, where it differs"
            blocks.append(Table(caption, ["What", "Champion", "This run"], settings, pairs=True))
    return Section("champion", "What changed since the champion", blocks)


def champion_sentence(documents: Documents) -> str:
    """Say what changed since the champion, and of which attributes the favoured group did."""
    run = documents["run"]
    champion = documents["champion"]
    if _is_own(run, champion):
        return f"This model is the champion: version {champion['version']} has the same content."
    sentence = f"Version {champion['version']} was champion before"
    if run["status"] != "published":
        sentence += ", and stays it"
    if not _has_card(champion):
        return f"{sentence}; its model card could not be read."
    parts = _moved_metrics(documents)[:MOST_NAMED]
    table = TABLES[_same_table(run, champion)][1]
    if table:
        parts.append(table)
    parts.append(_parameters(run, champion))
    sentences = [f"{sentence}: {', '.join(parts)}.", *favoured_changes(documents)]
    return " ".join(sentences)


def favoured_changes(documents: Documents) -> list[str]:
    """Say of which attributes another group is favoured than by the champion: a difference whose
    size is the same may be one against the other group.
    """
    champion = documents["champion"]
    metrics = documents["metrics"]
    before = champion.get("favoured") or {}
    if not before or "counts" not in metrics:
        return []
    sentences = []
    for name, now in favoured_groups(metrics).items():
        earlier = before.get(name)
        if not isinstance(earlier, Mapping) or earlier.get("most") in (None, now["most"]):
            continue
        text = (
            f"By {spoken(name)} the favoured group has changed: “{now['most']}” gets the "
            f"favourable outcome most often now, “{earlier['most']}” did before"
        )
        metric = f"demographic_parity_difference.{name}"
        measured = [champion["metrics"].get(metric), metrics["metrics"].get(metric)]
        if any(entry and entry.get("low") == 0 for entry in measured):
            text += " (one of the two differences may be chance: its interval reaches zero)"
        sentences.append(f"{text}.")
    return sentences


def _moved_metrics(documents: Documents) -> list[str]:
    """How each leading metric that both have has changed."""
    moved = []
    for name in _leading(documents):
        before = documents["champion"]["metrics"].get(name) or {}
        now = documents["metrics"]["metrics"].get(name) or {}
        old = formats.number(before.get("value"))
        new = formats.number(now.get("value"))
        if formats.MISSING in (old, new):
            continue
        change = f"was {old} and is now {new}"
        if old == new:
            change = f"is still {new}"
        moved.append(f"{title(name)} {change}")
    return moved


def _is_own(run: Json, champion: Json) -> bool:
    return run["model"] is not None and str(run["model"]["version"]) == str(champion["version"])


def _has_card(champion: Json) -> bool:
    return bool(
        champion.get("metrics") or champion.get("parameters") or champion.get("data_fingerprint")
    )


def _same_table(run: Json, champion: Json) -> bool | None:
    fingerprint = champion.get("data_fingerprint")
    if fingerprint is None:
        return None
    return bool(fingerprint == run["table"]["fingerprint"])


def _leading(documents: Documents) -> list[str]:
    """Metrics that were refused, else one of performance; then the widest difference of selection
    rates.
    """
    results = gate_results(documents)
    metrics = documents["metrics"]["metrics"]
    names = [result["metric"] for result in results if not result["passed"]]
    if not names:
        of_gates = [result["metric"] for result in results]
        measured = [name for name in (*of_gates, *LEADING) if name in metrics]
        names = measured[:1]
    gaps = []
    for name, metric in metrics.items():
        if name.startswith("demographic_parity_difference.") and metric["value"] is not None:
            gaps.append((metric["value"], name))
    if gaps:
        names.append(max(gaps)[1])
    return list(dict.fromkeys(names))


def _parameters(run: Json, champion: Json) -> str:
    if champion.get("method") not in (None, run["job"]["method"]):
        return f"by another method ({champion['method']} before)"
    names = [name for name, *_ in _changed(run, champion)]
    if not names:
        return "with the same parameters"
    # "and 1 more" would be as long as the third name
    most = 3 if len(names) == 3 else 2
    return f"with other values of {formats.shortlist(names, most)}"


def _row(name: str, before: Json | None, now: Json | None) -> list[Cell]:
    row = [metric_cell(name), estimate_cell(before), estimate_cell(now)]
    if not before or not now or before["value"] is None or now["value"] is None:
        return [*row, lack("cannot be computed")]
    change = now["value"] - before["value"]
    if change == 0:
        return [*row, Cell("0.000", ("the same",))]
    better = better_or_worse(name, change)
    overlaps = overlap(before, now)
    intervals = {True: "intervals overlap", False: "intervals apart", None: ""}[overlaps]
    kind = ""
    if overlaps is False:
        kind = {"better": "passed", "worse": "refused"}.get(better, "")
    follows = ", ".join(text for text in (better, intervals) if text) or "differs"
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
