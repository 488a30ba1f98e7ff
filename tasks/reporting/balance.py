"""Sections on a proxy: what it does, groups before and after, what its groups tell, what it does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.balance_plots import GroupShares, heat_map, share_bars

__all__ = ["balance_findings", "balance_sections", "kept_rows_section"]

Json = Mapping[str, Any]
MOST_LEAVES = 30


def balance_findings(evaluation: Json, balance: Json) -> list[str]:
    """Say for the headline what the proxy does on the held-out rows."""
    metrics = evaluation["metrics"]
    found = {name: metrics[name]["value"] for name in metrics}
    sentences = []
    if found["imbalance"] is not None:
        sentences.append(
            f"It keeps {formats.percent(found['kept'])} of the rows, whose group shares lie "
            f"{formats.number(found['imbalance'])} from the wanted ones; those of all rows lie "
            f"{formats.number(found['imbalance_before'])} from them."
        )
    if found["disclosivity"] is not None:
        sentences.append(
            "Knowing a row’s proxy group moves the share of no group by more than "
            f"{formats.points(found['disclosivity'])}, among proxy groups with enough rows to judge."
        )
    for attribute, shares in _by_attribute(balance).items():
        rare = min(shares, key=lambda item: item.before if item.before is not None else 2.0)
        if rare.before is not None and rare.after is not None:
            sentences.append(
                f"By {words.attribute(attribute)}: the rarest group, “{rare.group}”, goes from "
                f"{formats.percent(rare.before)} of all rows to {formats.percent(rare.after)} of those kept "
                f"(wanted: {formats.percent(rare.target)})."
            )
        worse = [item.group for item in shares if _farther(item)]
        if worse:
            named = formats.join([f"“{group}”" for group in worse])
            sentences.append(f"Farther from the wanted share than before: {named}.")
    return sentences


def _farther(item: GroupShares) -> bool:
    if item.before is None or item.after is None:
        return False
    return abs(item.after - item.target) > abs(item.before - item.target)


def balance_sections(evaluation: Json, balance: Json, alpha: float | None) -> list[dict[str, Any]]:
    """
    Write the report's sections on a proxy.

    Parameters
    ----------
    evaluation : mapping
        Content of ``metrics.json``.
    balance : mapping
        Content of ``balance.json``.
    alpha : float or None
        The limit that the proxy was learned under, if it has one.

    Returns
    -------
    list of dict
        Plain JSON, each a :class:`evenhand.tasks.reporting.context.Section`.
    """
    return [
        _what_it_does(balance, alpha),
        *(
            _before_and_after(name, shares, i)
            for i, (name, shares) in enumerate(_by_attribute(balance).items())
        ),
        _proxy_groups(evaluation, balance),
        *_papers_bound(evaluation, balance),
        _what_it_does_not_say(evaluation["metrics"].get("disclosivity_of_probability")),
    ]


def kept_rows_section(facts: Json) -> dict[str, Any]:
    """Write the section on training rows that a published proxy chose."""
    return {
        "title": "Balanced training rows",
        "html_safe_paragraphs": [
            f"The model learned from <strong>{formats.count(facts['rows_after'])}</strong> of "
            f"{formats.count(facts['rows_before'])} training rows: those that the published proxy "
            f"{_safe(facts['proxy'])}, version {facts['version']}, kept. The features of a row decide how "
            "likely it is kept, and a hash of them tosses its coin; "
            f"{formats.count(round(facts['rows_expected']))} rows were to be expected. The rows that judge "
            "the model are as they were: none was left out."
        ],
    }


def _what_it_does(balance: Json, alpha: float | None) -> dict[str, Any]:
    count = formats.plural(len(balance["masses"]), "proxy group")
    attributes = formats.join([_safe(words.attribute(name)) for name in balance["attributes"]])
    limit = (
        f" On the training rows no proxy group tells more than {alpha:g} (alpha): within it the share of no "
        "group differs by more from its share among all rows."
        if alpha is not None
        else " Nothing limits what its groups tell."
    )
    return {
        "title": "What the proxy does",
        "html_safe_paragraphs": [
            f"A row’s ordinary features give it a place among {count}, if need be a share in several. Each "
            f"proxy group has a probability with which its rows are kept, chosen so that the kept rows come "
            f"as near as they can to the wanted shares by {attributes}. That attribute itself is not looked "
            f"at: whoever filters with this proxy need not have it.{limit}",
        ],
    }


def _by_attribute(balance: Json) -> dict[str, list[GroupShares]]:
    found, at = {}, 0
    for attribute, groups in balance["attributes"].items():
        found[attribute] = [
            GroupShares(
                group, balance["shares_before"][k], balance["shares_after"][k], float(balance["target"][k])
            )
            for k, group in enumerate(groups, start=at)
        ]
        at += len(groups)
    return found


def _before_and_after(attribute: str, shares: Sequence[GroupShares], number: int) -> dict[str, Any]:
    about = words.attribute(attribute)
    spoken = "; ".join(
        f"{item.group} {formats.percent(item.before)} to {formats.percent(item.after)}" for item in shares
    )
    drawn: dict[str, Any] = {
        "rows": shares,
        "title": f"Shares by {about} before and after",
        "description": f"{spoken}. The table below has every number.",
    }
    return {
        "title": f"Groups by {about}, before and after",
        "html_safe_paragraphs": [
            "Expected shares of the groups among the held-out rows, and among those of them that are kept."
        ],
        "svg": share_bars(**drawn, uid=f"balance-{number}-w"),
        "svg_narrow": share_bars(**drawn, uid=f"balance-{number}-n", compact=True),
        "table": {
            "caption": f"Shares by {about} on the held-out rows",
            "columns": ["Group", "All rows", "Kept rows", "Wanted", "Times as many"],
            "rows": [
                [
                    item.group,
                    formats.percent(item.before),
                    formats.percent(item.after),
                    formats.percent(item.target),
                    item.after / item.before if item.before and item.after is not None else None,
                ]
                for item in shares
            ],
        },
    }


def _proxy_groups(evaluation: Json, balance: Json) -> dict[str, Any]:
    order = sorted(range(len(balance["masses"])), key=lambda j: -balance["masses"][j])
    apart = [_deviations(balance["compositions"][j], balance["base_rates"]) for j in order]
    train = [_deviations(balance["compositions_train"][j], balance["base_rates_train"]) for j in order]
    names = [str(place) for place in range(1, len(order) + 1)]
    level = f"{100 * evaluation['settings']['level']:g}% interval"
    found = evaluation["metrics"]["disclosivity"]
    said = ""
    if found["value"] is not None:
        ends = (
            f" ({level} {formats.interval(found['low'], found['high'])})" if found["low"] is not None else ""
        )
        said = f" The largest difference on the held-out rows is {formats.number(found['value'])}{ends}."
    section: dict[str, Any] = {
        "title": "What each proxy group tells",
        "html_safe_paragraphs": [
            "Each cell is the share of a group within a proxy group minus its share among all rows, in "
            "percentage points, on the held-out rows: 0 would mean that the proxy group tells nothing about "
            "that group. Blue is below, orange above; a dash stands where there are too few rows to say."
            + said
        ],
        "folded" if len(order) > 12 else "table": {
            "caption": "Proxy groups, largest first",
            "columns": [
                "Proxy group",
                "Share of training rows",
                "Kept with probability",
                "Held-out rows",
                "Largest difference, held out",
                "Of the group",
                "Largest difference, training",
            ],
            "rows": [
                [
                    names[i],
                    formats.percent(balance["masses"][j]),
                    balance["acceptance"][j],
                    round(balance["rows"][j]),
                    *_largest(apart[i], balance["groups"]),
                    _largest(train[i], balance["groups"])[0],
                ]
                for i, j in enumerate(order)
            ],
        },
    }
    groups = [name for part in balance["attributes"].values() for name in part]
    shown = range(min(len(order), MOST_LEAVES))
    drawn: dict[str, Any] = {
        "columns": [names[i] for i in shown],
        "rows": groups if len(balance["attributes"]) == 1 else balance["groups"],
        "deviations": [[apart[i][k] for i in shown] for k in range(len(balance["groups"]))],
        "title": "Differences of group shares within each proxy group",
        "description": f"{len(order)} proxy groups by {len(balance['groups'])} groups.{said}",
    }
    return section | {
        "svg": heat_map(**drawn, uid="tells-w"),
        "svg_narrow": heat_map(**drawn, uid="tells-n", compact=True),
    }


def _deviations(
    composition: Sequence[float | None] | None, base: Sequence[float | None]
) -> list[float | None]:
    if composition is None:
        return [None] * len(base)
    return [
        None if share is None or rate is None else share - rate
        for share, rate in zip(composition, base, strict=True)
    ]


def _largest(apart: Sequence[float | None], groups: Sequence[str]) -> tuple[float | None, str | None]:
    known = [(abs(value), group) for value, group in zip(apart, groups, strict=True) if value is not None]
    return max(known, default=(None, None))


def _papers_bound(evaluation: Json, balance: Json) -> list[dict[str, Any]]:
    bound = balance["bound"]
    if bound is None:
        return []
    level = evaluation["settings"]["level"]
    told, apart = bound["disclosivity"], bound["imbalance"]
    lines = [
        "Deng et al. 2023 (theorem 3) bound what a proxy does on new rows of the same kind. By their formula "
        f"no proxy group tells more than <strong>{formats.number(told)}</strong>, with probability "
        f"{level:g}, and the kept rows lie at most <strong>{formats.number(apart)}</strong> from the target."
    ]
    # a difference of shares is at most 1, and two distributions are at most the root of 2 apart
    first, second = told >= 1.0, apart >= (2.0 * len(balance["attributes"])) ** 0.5
    if first or second:
        which = "Both are" if first and second else f"The {'first' if first else 'second'} of these is"
        lines.append(
            f"{which} <strong>no limit at all</strong>: no proxy could do worse. The bound must hold for "
            f"every tree at once, and the smallest proxy group has {bound['smallest_leaf']:.0f} training "
            "rows; more rows, or larger proxy groups (min_leaf), make it tighter. The numbers measured on "
            "held-out rows, above, are what there is to go by."
        )
    lines.append(
        "It takes the VC dimension of halfspaces over the features for that of the class of proxies, which "
        "the theorem leaves open, and the theorem counts too little for it: with nearly as many features as "
        "rows it does not hold. What was measured on held-out rows is the evidence."
    )
    return [{"title": "The paper’s bound", "html_safe_paragraphs": lines}]


def _what_it_does_not_say(of_probability: Json | None) -> dict[str, Any]:
    told = ""
    if of_probability is not None and of_probability["value"] is not None:
        told = (
            " Its probability, which whoever filters can compute, mixes those of several proxy groups and "
            f"tells more: up to {formats.number(of_probability['value'])} on the held-out rows."
        )
    return {
        "title": "What this does not say",
        "html_safe_paragraphs": [
            "<strong>The limit is about proxy groups, not about features.</strong> It bounds what somebody "
            "learns about a person’s group from the proxy group that the person falls in. The features "
            "themselves, taken together, may tell far more, and are in the filtered table as they were."
            + told,
            "<strong>A coin is tossed for every row.</strong> The shares are expectations: a small filtered "
            "table can differ by chance, and rows with equal features share their fate if they share their "
            "key.",
            "<strong>It is about rows like these.</strong> On a table from another place or time, the same "
            "proxy groups may hold other shares, and nothing here would show it.",
        ],
    }


def _safe(text: str) -> str:
    """Text for a paragraph, whose markup is kept."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
