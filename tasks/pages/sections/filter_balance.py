"""Expected balance of a filtered sample, its proxy groups and their drift, and what the page does not say."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.catalogue import METRICS, spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.filter import expected_by_attribute, is_farther, without_balance
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import interval_name, lack, largest, left_out

PAGES = {"filter": 20}
NEEDS = ("summary", "settings")

MOST_DRAWN = 30
MOST_OPEN = 12


def build(documents: Documents) -> list[Section]:
    """Expected shares, proxy groups with their drift, cautions."""
    sections = [
        Section("shares", "Expected balance", _shares(documents)),
        Section("groups", "Proxy groups and drift", _groups(documents)),
        Section("cautions", "What this does not say", _cautions(documents)),
    ]
    return [section for section in sections if section.blocks]


def _shares(documents: Documents) -> list[Block]:
    by_attribute = expected_by_attribute(documents)
    if not by_attribute:
        return [] if documents["summary"]["rows_in"] else [without_balance(documents)]
    level = interval_name(documents["summary"]["balance"])
    blocks: list[Block] = [
        "Group shares to expect among the kept rows, from the compositions of the proxy groups on labelled "
        f"held-out rows. The {level} covers the number of those rows only."
    ]
    head = ["Group", "Training rows", "Expected of the kept rows", level, "Target"]
    for attribute, rows in by_attribute.items():
        about = spoken(attribute)
        title = f"Expected shares by {about} among the kept rows"
        table = Table(title, head, [_share_row(row) for row in rows], folded=len(rows) > MOST_OPEN)
        blocks += [Heading(f"By {about}"), _share_chart(title, rows, level), table]
    return blocks


def _share_chart(title: str, rows: list[dict[str, Any]], level: str) -> Chart:
    shown = largest(rows, MOST_DRAWN, lambda row: row["baseline"] or 0.0)
    said = "; ".join(
        f"{row['label']} from {formats.percent(row['baseline'])} to {formats.percent(row['value'])}"
        for row in shown
    )
    names = {"value": "expected of the kept rows", "baseline": "training rows", "limit": "target"}
    data = {"rows": shown, "interval": level, "floor": 0.0, "names": names, "percent": True}
    caption = left_out(shown, rows, "The groups that are largest in training")
    described = f"From training rows to kept rows: {said}."
    return Chart("intervals.metric_intervals", data, title, described, caption)


def _share_row(row: Json) -> list[Any]:
    expected: list[Any] = [lack("too few rows", span=2)]
    if row["value"] is not None:
        ends = formats.interval(row["low"], row["high"], formats.percent)
        expected = [formats.percent(row["value"]), ends]
    training = lack("too few rows") if row["baseline"] is None else formats.percent(row["baseline"])
    name = Cell(row["label"], ("farther from the target",) if is_farther(row) else ())
    return [name, training, *expected, formats.percent(row["limit"])]


def proxy_groups(documents: Json) -> list[dict[str, Any]]:
    """Rows by proxy group, numbered as on the proxy's own page (largest first); none if no row was judged.

    Rows that are in several proxy groups by shares count by these. ``group`` is the number, ``training`` its
    share of the training rows or None, ``share`` and ``rows`` those of the batch, of which ``kept`` and
    ``kept_rows`` are expected to be kept.
    """
    summary, balance = documents["summary"], documents.get("balance")
    masses, kept = summary["masses"], summary["expected_by_group"]
    training = balance["masses"] if balance else [None] * len(masses)
    judged = sum(masses)
    if judged <= 0:
        return []
    found = [
        {"training": part, "share": n / judged, "rows": n, "kept": k / judged, "kept_rows": k}
        for part, n, k in zip(training, masses, kept, strict=True)
    ]
    found.sort(key=lambda group: -(group["training"] if balance else group["rows"]))
    return [{"group": str(place), **group} for place, group in enumerate(found, start=1)]


def _groups(documents: Documents) -> list[Block]:
    groups = proxy_groups(documents)
    if not groups:
        return []
    numbered = " Their numbers are those of the proxy’s own page." if documents.get("balance") else ""
    rows, said = [], []
    for group in groups:
        before, share = group["training"], formats.percent(group["share"])
        then, change = "not known", "not known"
        if before is not None:
            then, change = formats.percent(before), _points(group["share"] - before)
        said.append(
            f"group {group['group']} {share}" + (f" ({then} in training)" if before is not None else "")
        )
        accepted = group["kept"] / group["share"] if group["rows"] else lack("no rows")
        counts = round(group["rows"]), accepted, round(group["kept_rows"])
        rows.append([group["group"], then, share, change, *counts])
    shown = groups[:MOST_DRAWN]
    caption = left_out(shown, groups, "The largest proxy groups")
    described = f"{'; '.join(said[:MOST_DRAWN])}."
    head = ["Proxy group", "Share of training rows", "Share of this batch", "Difference, points", "Rows"]
    head += ["Acceptance probability", "Expected to be kept"]
    keys = ("group", "share", "kept", "training")
    drawn = [{key: group[key] for key in keys} for group in shown]
    return [
        "The proxy puts each row into a proxy group by its ordinary features, if need be into several by "
        f"shares; each proxy group keeps its rows with a probability of its own.{numbered} The bars are the "
        "rows of the files that this version of the proxy filtered.",
        Chart(
            "groups.kept_by_group", {"rows": drawn}, "Rows of the batch by proxy group", described, caption
        ),
        Table("Rows by proxy group", head, rows, folded=len(rows) > MOST_OPEN),
        *_drift(documents["summary"]["drift"], documents["settings"]["max_drift"]),
    ]


def _drift(found: Json | None, most: float) -> list[Block]:
    if found is None:
        return []
    value, limit = formats.apart(found["psi"], most)
    pairs = [
        (METRICS["psi.<column>"].title, value),
        ("Its limit (filter.max_drift)", limit),
        ("Chi-square statistic", found["chi_square"]),
        ("Its p-value", formats.p_value(found["p_value"])),
    ]
    return [
        Table("Drift of the batch from the training rows", ["What", "Value"], pairs, pairs=True),
        "The index decides about the warning: with many rows the p-value is small for any difference.",
    ]


def _points(difference: float) -> str:
    text = f"{100 * difference:+.1f}".replace("-", "\u2212")
    return "0.0" if text[1:] == "0.0" else text


def _cautions(documents: Documents) -> list[Block]:
    key, seed = documents["settings"]["key"], documents["settings"]["seed"]
    drawn = (
        f"No key was set: a row’s random number is a hash of its features and the seed {seed}. Rows with "
        "equal features are all kept or all left out, so the number of kept rows can differ more from the "
        "expected one. A key that tells rows apart (`filter.key`) gives each row a number of its own."
    )
    if key is not None:
        drawn = (
            f"A row’s random number is a hash of its key ({formats.join([f'“{name}”' for name in key])}) and "
            f"the seed {seed}. Rows with an equal key have the same number."
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
