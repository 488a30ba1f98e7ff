"""What changed since the champion: the version that had the alias before the run."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.context import Champion, Estimate, Metric, ReportContext
from evenhand.tasks.reporting.difference_plot import signed

__all__ = ["champion_sentence", "since_champion"]

MOST_NAMED = 2
# What a reader wants first where no gate says what matters.
LEADING = ("balanced_accuracy", "auc", "accuracy", "imbalance")


def champion_sentence(context: ReportContext) -> str | None:
    """Say in one sentence what changed since the champion; None if there was none."""
    champion = context.champion
    if champion is None:
        return None
    if _is_own(context, champion):
        return f"This is the champion: version {champion.version} was it before, from the same content."
    was = f"Version {champion.version} was champion before" + (
        "" if context.status == "published" else ", and stays it"
    )
    if not _has_card(champion):
        return f"{was}; its card could not be read."
    moved = [text for name in _leading(context) if (text := _moved(context, champion, name)) is not None]
    parts = [*moved[:MOST_NAMED], _data(context, champion), _parameters(context, champion)]
    return f"{was}: {', '.join(part for part in parts if part)}."


def since_champion(context: ReportContext) -> dict[str, Any] | None:
    """Give every metric of the champion and of the run, and what they were made from where it differs."""
    champion = context.champion
    if champion is None:
        return None
    if _is_own(context, champion):
        text = (
            f"Nothing: this run’s model has the same content as version {champion.version}, which was "
            f"champion before ({champion.uri})."
        )
        return {"said": [text], "metrics": [], "settings": []}
    when = f", of {formats.moment(champion.created)}" if champion.created else ""
    said = [f"Before this run the champion was version {champion.version}{when} ({champion.uri})."]
    if not _has_card(champion):
        said.append("Its card could not be read, so nothing more can be told.")
        return {"said": said, "metrics": [], "settings": []}
    found = context.evaluation.metrics if context.evaluation else {}
    metrics = [
        _row(name, champion.metrics.get(name), found.get(name))
        for name in dict.fromkeys([*found, *champion.metrics])
    ]
    said.append(_compared(context, champion))
    return {"said": said, "metrics": metrics if found else [], "settings": _settings(context, champion)}


def _is_own(context: ReportContext, champion: Champion) -> bool:
    return context.model is not None and str(context.model.version) == str(champion.version)


def _has_card(champion: Champion) -> bool:
    return bool(champion.metrics or champion.parameters or champion.data_fingerprint)


def _same_table(context: ReportContext, champion: Champion) -> bool | None:
    if champion.data_fingerprint is None:
        return None
    return champion.data_fingerprint == context.table.fingerprint


def _leading(context: ReportContext) -> list[str]:
    """Metrics that say most: those that were refused, else one of performance; then the widest gap."""
    results = context.gates.results if context.gates else []
    found = context.evaluation.metrics if context.evaluation else {}
    first = [r.metric for r in results if not r.passed]
    if not first:
        first = [name for name in (*(r.metric for r in results), *LEADING) if name in found][:1]
    gaps = [
        (metric.value, name)
        for name, metric in found.items()
        if name.startswith("demographic_parity_difference.") and metric.value is not None
    ]
    return list(dict.fromkeys([*first, *(name for _, name in sorted(gaps, reverse=True)[:1])]))


def _moved(context: ReportContext, champion: Champion, name: str) -> str | None:
    before = champion.metrics.get(name)
    now = context.evaluation.metrics.get(name) if context.evaluation else None
    if before is None or now is None or before.value is None or now.value is None:
        return None
    phrase = words.metric_phrase(name)
    if formats.number(before.value) == formats.number(now.value):
        return f"{phrase} is still {formats.number(now.value)}"
    return f"{phrase} was {formats.number(before.value)} and is now {formats.number(now.value)}"


def _data(context: ReportContext, champion: Champion) -> str:
    same = _same_table(context, champion)
    return "" if same is None else "on the same table" if same else "on new data"


def _parameters(context: ReportContext, champion: Champion) -> str:
    names = [name for name, *_ in _changed(context, champion)]
    if champion.method is not None and champion.method != context.job.method:
        return f"by another method ({champion.method} before)"
    if not names:
        return "with the same parameters"
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return f"with other values of {formats.join(shown)}"


def _compared(context: ReportContext, champion: Champion) -> str:
    same = _same_table(context, champion)
    rows = {
        True: "Both were made from the same table.",
        False: "The table has changed since, so the two were judged on different rows.",
        None: "Which table the champion was made from is not recorded.",
    }[same]
    return (
        f"{rows} A change between intervals that overlap may be chance; an evaluation beside a baseline "
        "(evenhand evaluate) compares two versions on the same rows."
    )


def _row(name: str, before: Estimate | None, now: Metric | None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "words": words.metric(name), "before": before, "now": now}
    if before is None or now is None or before.value is None or now.value is None:
        return {**row, "change": None}
    change = now.value - before.value
    way = words.metric(name).better
    if change == 0:
        return {**row, "change": "0.000", "kind": "", "symbol": "", "follows": "the same"}
    better = None if way is None else "better" if (change > 0) == (way == "higher") else "worse"
    apart = _apart(before, now)
    follows = ", ".join(text for text in (better, apart) if text) or "differs"
    told = apart == "intervals apart"
    return {
        **row,
        "change": signed(change),
        "kind": {"better": "passed", "worse": "refused"}.get(better or "", "") if told else "",
        "symbol": {"better": "\u2713", "worse": "\u2715"}.get(better or "", "") if told else "",
        "follows": follows,
    }


def _apart(before: Estimate, now: Metric) -> str | None:
    if before.low is None or before.high is None or now.low is None or now.high is None:
        return None
    overlap = before.low <= now.high and now.low <= before.high
    return "intervals overlap" if overlap else "intervals apart"


def _settings(context: ReportContext, champion: Champion) -> list[tuple[str, str, str]]:
    """What the two were made from, where it differs."""
    rows = []
    for name, before, now in (
        ("Method", champion.method, context.job.method),
        ("Contract version", champion.contract_version, context.table.contract_version),
        ("Fingerprint of the table (SHA-256)", champion.data_fingerprint, context.table.fingerprint),
    ):
        if before is not None and before != now:
            rows.append((name, before, now))
    if champion.seed != context.job.seed and champion.seed is not None:
        rows.append(
            ("Seed", str(champion.seed), "not set" if context.job.seed is None else str(context.job.seed))
        )
    return rows + _changed(context, champion)


def _changed(context: ReportContext, champion: Champion) -> list[tuple[str, str, str]]:
    """Parameters that differ: name, before, now."""
    before, now = dict(formats.flatten(champion.parameters)), dict(formats.flatten(context.job.parameters))
    return [
        (name, before.get(name, "not given"), now.get(name, "not given"))
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
