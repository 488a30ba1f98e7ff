"""What changed since the champion: the version that had the alias before the run."""

from __future__ import annotations

from evenhand.fairlib.catalogue import title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import direction, estimate_cell, metric_cell

PAGES = {"run": 20}
NEEDS = ("champion", "metrics", "run")

MOST_NAMED = 2
# Metrics that come first where no gate says which matter.
LEADING = ("balanced_accuracy", "auc", "accuracy", "imbalance")


def build(documents: Documents) -> Section:
    """Every metric of the champion and of this run, and what the two were made from where it differs."""
    run, found, champion = documents["run"], documents["metrics"]["metrics"], documents["champion"]
    heading = "What changed since the champion"
    if _is_own(run, champion):
        return Section(
            "champion",
            heading,
            [
                f"Nothing: this run’s model has the same content as version {champion['version']}, which was "
                f"champion before ({champion['uri']})."
            ],
        )
    blocks: list[Block] = [
        f"Before this run the champion was version {champion['version']} ({champion['uri']})."
    ]
    if not _has_card(champion):
        return Section("champion", heading, [*blocks, "Its model card could not be read."])
    same = _same_table(run, champion)
    rows = {
        True: "Both were trained on the same table.",
        False: "The table has changed since, so the two were evaluated on different rows.",
        None: "Which table the champion was trained on is not recorded.",
    }[same]
    blocks.append(
        f"{rows} A change between intervals that overlap may be chance; `evenhand evaluate --baseline` "
        "compares two versions on the same rows."
    )
    before = champion["metrics"]
    table = [_row(name, before.get(name), found.get(name)) for name in dict.fromkeys([*found, *before])]
    caption = "Metrics with their intervals: the champion, this run, and the change"
    blocks.append(Table(caption, ["Metric", "Champion", "This run", "Change"], table))
    settings = _settings(run, champion)
    if settings:
        caption = "What the two were made from, where it differs"
        blocks.append(Table(caption, ["What", "Champion", "This run"], settings, pairs=True))
    return Section("champion", heading, blocks)


def champion_sentence(documents: Documents) -> str:
    """Say in one sentence what changed since the champion."""
    run, champion = documents["run"], documents["champion"]
    if _is_own(run, champion):
        return f"This model is the champion: version {champion['version']} has the same content."
    stays = "" if run["status"] == "published" else ", and stays it"
    was = f"Version {champion['version']} was champion before{stays}"
    if not _has_card(champion):
        return f"{was}; its model card could not be read."
    moved = [text for name in _leading(documents) if (text := _moved(documents, champion, name)) is not None]
    parts = [*moved[:MOST_NAMED], _data(run, champion), _parameters(run, champion)]
    return f"{was}: {', '.join(part for part in parts if part)}."


def _is_own(run: Json, champion: Json) -> bool:
    return run["model"] is not None and str(run["model"]["version"]) == str(champion["version"])


def _has_card(champion: Json) -> bool:
    return bool(champion.get("metrics") or champion.get("parameters") or champion.get("data_fingerprint"))


def _same_table(run: Json, champion: Json) -> bool | None:
    fingerprint = champion.get("data_fingerprint")
    return None if fingerprint is None else bool(fingerprint == run["table"]["fingerprint"])


def _leading(documents: Documents) -> list[str]:
    """Metrics that were refused, else one of performance; then the widest difference of selection rates."""
    results = documents["decision"]["results"] if documents.get("decision") else []
    found = documents["metrics"]["metrics"]
    first = [result["metric"] for result in results if not result["passed"]]
    if not first:
        first = [name for name in (*(result["metric"] for result in results), *LEADING) if name in found][:1]
    gaps = [
        (metric["value"], name)
        for name, metric in found.items()
        if name.startswith("demographic_parity_difference.") and metric["value"] is not None
    ]
    return list(dict.fromkeys([*first, *(name for _, name in sorted(gaps, reverse=True)[:1])]))


def _moved(documents: Documents, champion: Json, name: str) -> str | None:
    before, now = champion["metrics"].get(name), documents["metrics"]["metrics"].get(name)
    if not before or not now or before["value"] is None or now["value"] is None:
        return None
    old, new = formats.number(before["value"]), formats.number(now["value"])
    return f"{title(name)} is still {new}" if old == new else f"{title(name)} was {old} and is now {new}"


def _data(run: Json, champion: Json) -> str:
    return {True: "on the same table", False: "on new data", None: ""}[_same_table(run, champion)]


def _parameters(run: Json, champion: Json) -> str:
    if champion.get("method") not in (None, run["job"]["method"]):
        return f"by another method ({champion['method']} before)"
    names = [name for name, *_ in _changed(run, champion)]
    if not names:
        return "with the same parameters"
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return f"with other values of {formats.join(shown)}"


def _row(name: str, before: Json | None, now: Json | None) -> list[Cell]:
    row = [metric_cell(name), estimate_cell(before), estimate_cell(now)]
    if not before or not now or before["value"] is None or now["value"] is None:
        return [*row, Cell("cannot be computed", kind="lack")]
    change = now["value"] - before["value"]
    if change == 0:
        return [*row, Cell("0.000", ("the same",))]
    way = direction(name)
    better = (
        ("better" if (change > 0) == (way == "higher") else "worse") if way in ("higher", "lower") else ""
    )
    ends = [entry.get(end) for entry in (before, now) for end in ("low", "high")]
    apart = ""
    if None not in ends:
        overlap = before["low"] <= now["high"] and now["low"] <= before["high"]
        apart = "intervals overlap" if overlap else "intervals apart"
    kind = {"better": "passed", "worse": "refused"}.get(better, "") if apart == "intervals apart" else ""
    follows = ", ".join(text for text in (better, apart) if text) or "differs"
    return [*row, Cell(formats.signed(change), (follows,), kind=kind)]


def _settings(run: Json, champion: Json) -> list[tuple[str, str, str]]:
    """Name, before, now of what differs."""
    rows = [
        (name, before, now)
        for name, before, now in (
            ("Method", champion.get("method"), run["job"]["method"]),
            ("Contract version", champion.get("contract_version"), run["table"]["contract_version"]),
            (
                "Fingerprint of the table (SHA-256)",
                champion.get("data_fingerprint"),
                run["table"]["fingerprint"],
            ),
        )
        if before is not None and before != now
    ]
    seed, own = champion.get("seed"), run["job"].get("seed")
    if seed is not None and seed != own:
        rows.append(("Seed", str(seed), "not set" if own is None else str(own)))
    return rows + _changed(run, champion)


def _changed(run: Json, champion: Json) -> list[tuple[str, str, str]]:
    """Parameters that differ: name, before, now."""
    before = dict(formats.flatten(champion.get("parameters") or {}))
    now = dict(formats.flatten(run["job"]["parameters"]))
    return [
        (name, before.get(name, "not given"), now.get(name, "not given"))
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
