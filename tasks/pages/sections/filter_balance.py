"""Expected balance of a filtered sample, its proxy groups and their drift, and what the page does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import METRICS, spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.filter_numbers import ExpectedShare, expected_by_attribute, proxy_groups
from evenhand.tasks.pages.fronts.filter import drift_sentence, interval_name, without_balance
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Section, Table

PAGES = {"filter": 20}
NEEDS = ("summary", "settings")

MOST_DRAWN = 30
MOST_OPEN = 12


def build(documents: Documents) -> list[Section]:
    """Expected shares, proxy groups with their drift, cautions."""
    found = [Section("shares", "Expected balance", _shares(documents))]
    groups = _groups(documents)
    if groups:
        found.append(Section("groups", "Proxy groups and drift", groups))
    return [*found, Section("cautions", "What this does not say", _cautions(documents))]


def _shares(documents: Documents) -> list[Block]:
    by_attribute = expected_by_attribute(documents)
    if not by_attribute:
        return [without_balance(documents)]
    level = interval_name(documents)
    blocks: list[Block] = [
        "Group shares to expect among the kept rows, from the compositions of the proxy groups on labelled "
        f"held-out rows. The {level} covers the number of those rows only."
    ]
    for attribute, shares in by_attribute.items():
        blocks += [Heading(f"By {spoken(attribute)}"), _share_chart(attribute, shares, level)]
        rows = [_share_row(item) for item in shares]
        head = ["Group", "Training rows", "Expected of the kept rows", level, "Target"]
        caption = f"Expected shares by {spoken(attribute)} among the kept rows"
        blocks.append(Table(caption, head, rows, folded=len(rows) > MOST_OPEN))
    return blocks


def _share_chart(attribute: str, shares: Sequence[ExpectedShare], level: str) -> Chart:
    largest = sorted(shares, key=lambda item: -(item.training or 0.0))[:MOST_DRAWN]
    shown = [item for item in shares if item in largest]
    said = "; ".join(
        f"{item.group} from {formats.percent(item.training)} to {formats.percent(item.expected)}"
        for item in shown
    )
    rows = [
        {
            "label": item.group,
            "value": item.expected,
            "low": item.low,
            "high": item.high,
            "baseline": item.training,
            "limit": item.target,
        }
        for item in shown
    ]
    left = len(shares) - len(shown)
    caption = f"The groups that are largest in training; {left} more are in the table." if left else ""
    names = {"value": "expected of the kept rows", "baseline": "training rows", "limit": "target"}
    data = {"rows": rows, "interval": level, "floor": 0.0, "names": names, "percent": True}
    title = f"Expected shares by {spoken(attribute)} among the kept rows"
    return Chart(
        "intervals.metric_intervals", data, title, f"From training rows to kept rows: {said}.", caption
    )


def _share_row(item: ExpectedShare) -> list[Any]:
    training = Cell("too few rows", kind="lack") if item.training is None else formats.percent(item.training)
    expected: list[Any] = [Cell("too few rows", kind="lack", span=2)]
    if item.expected is not None:
        expected = [formats.percent(item.expected), item.interval]
    name = Cell(item.group, ("farther from the target",) if item.farther else ())
    return [name, training, *expected, formats.percent(item.target)]


def _groups(documents: Documents) -> list[Block]:
    groups = proxy_groups(documents)
    if not groups:
        return []
    known, shown = documents.get("balance") is not None, groups[:MOST_DRAWN]
    numbered = " Their numbers are those of the proxy’s own page." if known else ""
    blocks: list[Block] = [
        "The proxy puts each row into a proxy group by its ordinary features, if need be into several by "
        f"shares; each proxy group keeps its rows with a probability of its own.{numbered} The bars are the "
        "rows of the files that this version of the proxy filtered.",
        drift_sentence(documents),
    ]
    rows = [
        {"group": g.name, "share": g.share, "kept": g.kept / g.judged, "training": g.training} for g in shown
    ]
    said = "; ".join(
        f"group {g.name} {formats.percent(g.share)}"
        + ("" if g.training is None else f" ({formats.percent(g.training)} in training)")
        for g in shown
    )
    left = len(groups) - len(shown)
    caption = f"The largest proxy groups; {left} more are in the table." if left else ""
    described = f"{said}. The table below has every number."
    chart = Chart(
        "groups.kept_by_group", {"rows": rows}, "Rows of the batch by proxy group", described, caption
    )
    head = ["Proxy group", "Share of training rows", "Share of this batch", "Difference, points", "Rows"]
    head += ["Acceptance probability", "Expected to be kept"]
    table: list[list[Any]] = [
        [
            g.name,
            "not known" if g.training is None else formats.percent(g.training),
            formats.percent(g.share),
            "not known" if g.training is None else _points(g.share - g.training),
            round(g.rows),
            Cell("no rows", kind="lack") if g.acceptance is None else g.acceptance,
            round(g.kept),
        ]
        for g in groups
    ]
    blocks += [chart, Table("Rows by proxy group", head, table, folded=len(table) > MOST_OPEN)]
    found = documents["summary"]["drift"]
    if found is not None:
        value, limit = formats.apart(found["psi"], documents["settings"]["max_drift"])
        chance = "below 0.001" if found["p_value"] < 0.001 else formats.number(found["p_value"])
        pairs = [
            (METRICS["psi.<column>"].title, value),
            ("Its limit (filter.max_drift)", limit),
            ("Chi-square statistic", formats.number(found["chi_square"])),
            ("Its p-value", chance),
        ]
        blocks.append(
            Table("Drift of the batch from the training rows", ["What", "Value"], pairs, pairs=True)
        )
        blocks.append(
            "The index decides about the warning: with many rows the p-value is small for any difference."
        )
    return blocks


def _points(difference: float) -> str:
    text = f"{100 * difference:+.1f}".replace("-", "\u2212")
    return "0.0" if text[1:] == "0.0" else text


def _cautions(documents: Documents) -> list[Block]:
    key, seed = documents["settings"]["key"], documents["settings"]["seed"]
    if key is None:
        drawn = (
            f"No key was set: a row’s random number is a hash of its features and the seed {seed}. Rows with "
            "equal features are all kept or all left out, so the number of kept rows can differ more from "
            "the expected one. A key that tells rows apart (`filter.key`) gives each row a number of its own."
        )
    else:
        columns = formats.join([f"“{name}”" for name in key])
        drawn = (
            f"A row’s random number is a hash of its key ({columns}) and the seed {seed}. Rows with an equal "
            "key have the same number."
        )
    return [
        "**The shares are expectations, not counts.** The groups of these people are not known. The shares "
        "follow from the compositions of the proxy groups on labelled held-out rows; the interval is about "
        "the number of these rows only.",
        "**Other people have other shares.** If the batch’s people differ from the labelled sample within a "
        "proxy group, the balance does not hold, and this page cannot show it: drift compares only how many "
        "rows fall into each proxy group. A small labelled sample of the kept rows would show it.",
        f"**Rows are kept at random.** {drawn}",
    ]
