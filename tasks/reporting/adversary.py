"""Sections on the adversary: the certificate, who is treated as whom, the worst treated, the price."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import charts, formats, words

__all__ = ["adversary_sections"]

Json = Mapping[str, Any]

NOT_SHOWN = "not shown"
NO_EVIDENCE = "not enough evidence"
# Smaller numbers are left by rounding.
NOTHING = 1e-9
# Below this share of the budget, what is left was not forgotten: there was nothing left to gain.
ALL_BUT = 1 - 1e-6


def adversary_sections(
    audit: Json | None, without_adversary: Mapping[str, float | None] | None, metrics: Json
) -> list[dict[str, Any]]:
    """
    Write the report's sections on the adversary; those without data are left out.

    Parameters
    ----------
    audit : mapping or None
        Content of ``audit.json``. None where the run has no certificate: then there are no sections.
    without_adversary : mapping of str to float or None, or None
        Content of ``without_adversary.json``, where the method gives such a model.
    metrics : mapping
        Content of ``metrics.json``.

    Returns
    -------
    list of dict
        Plain JSON, each a :class:`evenhand.tasks.reporting.context.Section`.
    """
    if audit is None:
        return []
    settings = metrics.get("settings", {})
    interval = f"{100 * settings.get('level', 0.95):g}% interval"
    sections = [_certificate(audit, interval)]
    for name, flow in audit["flows"].items():
        # one group has no other to be treated as
        if len(flow["groups"]) > 1:
            totals = _group_sizes(metrics.get("counts", {}).get(name, []))
            sections.append(_flow(name, flow, totals, settings.get("min_cell")))
    if audit["pairs"]:
        sections.append(_pairs(audit["pairs"]))
    cost = _cost(without_adversary or {}, metrics["metrics"])
    return sections + ([cost] if cost else [])


def _section(title: str, paragraphs: Sequence[str], **parts: Any) -> dict[str, Any]:
    return {"title": title, "html_safe_paragraphs": list(paragraphs), **parts}


def _decimals(value: float, digits: int) -> int:
    """Decimals that show so many digits of a number, 9 at most; none are asked for by nothing."""
    if abs(value) < NOTHING:
        return 0
    return min(digits - 1 + math.ceil(-math.log10(abs(value))), 9)


def _told_apart(a: float, b: float, least: int = 3, digits: int = 2) -> tuple[str, str]:
    """Two numbers with as many decimals as give their difference the digits, `least` at least."""
    decimals = max(_decimals(a - b, digits), least)
    return f"{a:.{decimals}f}", f"{b:.{decimals}f}"


def _certificate(audit: Json, interval: str) -> dict[str, Any]:
    people, moved = audit["people"], audit["moved"]
    gap = {end: value and (0.0 if abs(value) < NOTHING else value) for end, value in audit["gap"].items()}
    budget = f"{audit['budget']:g}"
    loss, worst = _told_apart(audit["loss"], audit["adversarial_loss"])
    rise = formats.number(gap["value"])
    rises = f"rises by <strong>{rise}</strong>" if gap["value"] else "<strong>does not rise</strong>"
    change = f"from {loss} to {worst}" if gap["value"] else f"it stays at {loss}"
    ends = None if gap["low"] is None else formats.interval(gap["low"], gap["high"])
    share = f"{formats.count(moved)} of {formats.count(people)}"
    part = formats.percent(moved / people)
    probabilities = (100 * math.exp(-audit["loss"]), 100 * math.exp(-audit["adversarial_loss"]))
    likely, less_likely = _told_apart(*probabilities, least=1, digits=1)
    paragraphs = [
        "How much would the average loss rise if people could be treated as comparable others? An adversary "
        f"may treat each of the {formats.count(people)} people in the test rows as any other of them, what "
        "is true of the person left as it is, as long as the average squared fair distance between the two "
        f"is at most {budget} (the budget). Fair distance is small between people whom the job holds to be "
        "comparable.",
        f"The average loss {rises}{f' ({interval} {ends})' if ends else ''}, {change}. The nearer the rise "
        "is to 0, the less it matters as which comparable person somebody is treated.",
        "Losses are in nats: a person’s loss is minus the natural logarithm of the probability that the "
        f"model gives to what is true of the person. An average loss of {loss} is what a model has that "
        f"always gives the truth a probability of {likely}%"
        + (f"; at {worst} it would be {less_likely}%." if gap["value"] else "."),
        f"{share} people ({part}) are moved, that is, treated as somebody at a fair distance above 0; the "
        "others stay themselves or are treated as somebody whom the fair distance does not tell from them. "
        + _price(audit),
    ]
    rows = [
        ["Average loss as people are", loss],
        ["Average loss in the worst case", worst],
        ["Rise", rise],
        [f"{interval} of the rise", ends or "no interval"],
        ["People moved", f"{share} ({part})"],
        ["Budget (average squared fair distance)", budget],
        ["Budget spent", budget if _spent(audit) else formats.number(audit["spent"])],
        ["Price: more loss per unit of further budget", formats.number(audit["multiplier"])],
    ]
    table = {"caption": "The certificate in numbers, losses in nats", "columns": ["What", "Value"]}
    parts: dict[str, Any] = {"table": {**table, "rows": rows}}
    if audit["distances"] is not None:
        parts |= _how_far(**audit["distances"])
    elif moved:
        paragraphs.append("Those who are moved are too few for a picture of how far.")
    return _section("Treated as comparable others", paragraphs, **parts)


def _spent(audit: Json) -> bool:
    return bool(audit["spent"] >= ALL_BUT * audit["budget"])


def _price(audit: Json) -> str:
    budget, multiplier = audit["budget"], audit["multiplier"]
    if not _spent(audit):
        return (
            f"Only {formats.number(audit['spent'])} of the budget of {budget:g} was spent: there was nothing "
            "left to gain, and a larger budget would reveal no more loss."
        )
    if multiplier <= 0:
        return "A larger budget would reveal no more loss."
    if budget == 0:
        return (
            "The budget is 0: people may only be exchanged where the fair distance sees no difference. With "
            f"a budget, the loss would rise by {formats.number(multiplier)} per unit of it at first (the "
            "multiplier)."
        )
    # what budgets reveal is concave, so the present price bounds the gain from more of it
    return (
        f"The budget was spent in full. At that point the price is {formats.number(multiplier)} more loss "
        "per unit of further budget (the multiplier), so that twice the budget would reveal at most "
        f"{formats.number(multiplier * budget)} more."
    )


def _how_far(edges: list[float], counts: list[int]) -> dict[str, Any]:
    fullest = max(range(len(counts)), key=counts.__getitem__)
    marks, people = _edge_texts(edges), formats.plural(sum(counts), "person", "people")
    drawn: dict[str, Any] = {
        "edges": edges,
        "counts": counts,
        "title": "How far people are moved",
        "description": f"{people} by fair distance. The fullest range is {marks[fullest]} to "
        f"{marks[fullest + 1]}, with {formats.count(counts[fullest])}. The table below has every number.",
        "axis": "fair distance to the person that one is treated as",
    }
    rows = [[f"{a} to {b}", n] for a, b, n in zip(marks, marks[1:], counts, strict=False)]
    return {
        "svg": charts.histogram(uid="moved-w", **drawn),
        "svg_narrow": charts.histogram(uid="moved-n", compact=True, **drawn),
        "folded": {
            "caption": "How far people are moved",
            "columns": ["Fair distance", "People"],
            "rows": rows,
        },
    }


def _edge_texts(edges: list[float]) -> list[str]:
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    decimals = max(2, _decimals(width, 2))
    return [f"{edge:.{decimals}f}" for edge in edges]


def _group_sizes(cells: Sequence[Json]) -> dict[str, int]:
    """Rows of each group: what the page's rates show."""
    sizes: dict[str, int] = {}
    for cell in cells:
        sizes[cell["group"]] = sizes.get(cell["group"], 0) + cell["n"]
    return sizes


def _flow(name: str, flow: Json, totals: Mapping[str, int], min_cell: int | None) -> dict[str, Any]:
    groups, counts = flow["groups"], flow["counts"]
    about = words.attribute(name)
    rows: list[list[str]] = []
    crossing: list[tuple[float, str]] = []
    across, whole, any_hidden = 0, True, False
    for i, (group, row) in enumerate(zip(groups, counts, strict=True)):
        hidden = {j for j, n in enumerate(row) if n is None}
        any_hidden |= bool(hidden)
        # with cells hidden, only the size that the page shows anyhow may be used
        total = totals.get(group) if hidden else sum(row)
        cells = []
        for j, n in enumerate(row):
            if n is None:
                cells.append(NOT_SHOWN)
                whole &= i == j
                continue
            part = n / total if total else None
            cells.append(
                formats.count(n) if part is None else f"{formats.percent(part)} ({formats.count(n)})"
            )
            if i != j and n:
                across += n
                if part is not None:
                    said = f"{formats.percent(part)} of “{group}” are treated as “{groups[j]}”"
                    crossing.append((part, said))
        rows.append([f"“{group}”", *cells])
    people = sum(totals.values()) or (None if any_hidden else sum(map(sum, counts)))
    paragraphs = [
        "In this worst case each person is treated as themselves, as somebody else of their group or as "
        "somebody of another group. The rows of the table are people’s own groups, the columns are the "
        "groups of those whom they are treated as.",
        _said(across, whole, people, about, [said for _, said in sorted(crossing, key=lambda c: -c[0])]),
    ]
    if any_hidden:
        few = "too few people" if min_cell is None else f"fewer than {min_cell} people"
        paragraphs.append(
            f"Where a cell counts {few}, it is “{NOT_SHOWN}”, and neither is the smallest other number of "
            "its row, so that it cannot be worked out from the size of the group."
        )
    return _section(
        f"Treated as whom, by {about}",
        paragraphs,
        table={
            "caption": f"Part of each group, by {about}, that is treated as one of which group; in brackets "
            "the number of people",
            "columns": ["People of group", *(f"treated as “{group}”" for group in groups)],
            "rows": rows,
        },
    )


def _said(across: int, whole: bool, people: int | None, about: str, largest: Sequence[str]) -> str:
    """What the map shows, from its shown cells alone: a sum over hidden ones would give them away."""
    if across == 0:
        if whole:
            return f"Nobody is treated as somebody of another group by {html.escape(about)}."
        return (
            f"How many people are treated as somebody of another group by {html.escape(about)} cannot be "
            "shown."
        )
    number = formats.count(across)
    if people:
        number = f"{number} of {formats.count(people)} people ({formats.percent(across / people)})"
    else:
        number += " people"
    text = f"{'' if whole else 'At least '}<strong>{number}</strong> are treated as somebody of another group"
    if largest:
        text += f"; the largest part of a group: {html.escape(largest[0])}"
    return (
        f"{text}. Each is a place where the model answers comparable people of two groups differently; by "
        "chance alone, a large group is met more often."
    )


def _pairs(pairs: Sequence[Json]) -> dict[str, Any]:
    rows = []
    for pair in pairs:
        loss, other = _told_apart(pair["loss"], pair["loss_treated_as"])
        distance = "0" if pair["distance"] == 0 else formats.number(pair["distance"])
        # row numbers are names: no thousands separated
        row = [str(pair["row"]), str(pair["treated_as"]), distance, loss, other]
        rows.append([*row, formats.number(pair["revealed_loss"])])
    who = "The person" if len(pairs) == 1 else f"The {len(pairs)} people"
    paragraphs = [
        f"{who} whose loss rises most when treated as the comparable person whom the adversary chose: the "
        "model answers the two differently. “Revealed” is that rise, in nats."
        + (
            " At a fair distance of 0, nothing that the job holds to matter tells the two apart."
            if any(pair["distance"] == 0 for pair in pairs)
            else ""
        ),
        "Row numbers count from 0 in the ingested table, without any rows that the contract set aside "
        "(<code>contract.checked</code> among the run’s artifacts). A longer list, where there are more, is "
        "in <code>pairs.parquet</code> (<code>evaluate.pairs</code> there). No other data of these people is "
        "shown.",
    ]
    return _section(
        "The most unfairly treated",
        paragraphs,
        table={
            "caption": "People by the loss that comparable treatment reveals, the most first",
            "columns": ["Row", "Treated as row", "Fair distance", "Loss", "Loss if treated so", "Revealed"],
            "rows": rows,
        },
    )


def _cost(without: Mapping[str, float | None], metrics: Mapping[str, Json]) -> dict[str, Any] | None:
    both = [(name, metrics[name]["value"], without[name]) for name in metrics if name in without]
    if not both:
        return None
    rows = []
    for name, own, plain in both:
        if own is None or plain is None:
            shown = [NO_EVIDENCE if value is None else formats.number(value) for value in (own, plain)]
            rows.append([words.metric_phrase(name), *shown, "cannot be told", ""])
        else:
            rows.append([words.metric_phrase(name), *_compared(own, plain), _verdict(name, own, plain)])
    known = {name: (own, plain) for name, own, plain in both if own is not None and plain is not None}
    paragraphs = [
        "The same model was trained once more without the adversary, all other settings alike, and judged "
        "on the same rows. " + _accuracy_price(known),
        _bought(known),
        "A difference has no interval of its own here: a small one may be chance.",
    ]
    return _section(
        "What fairness cost",
        [text for text in paragraphs if text],
        table={
            "caption": "This model, and the same without the adversary",
            "columns": ["Metric", "This model", "Without the adversary", "Difference", "This model is"],
            "rows": rows,
        },
    )


def _compared(own: float, plain: float) -> tuple[str, str, str]:
    """Two values and their difference, all with the decimals that the smallest of them needs."""
    decimals = max(3, _decimals(own, 2), _decimals(plain, 2), _decimals(own - plain, 1))
    shown = [f"{value:.{decimals}f}" for value in (own, plain, abs(own - plain))]
    if abs(own - plain) < NOTHING:
        return shown[0], shown[1], "0"
    return shown[0], shown[1], ("+" if own > plain else "\u2212") + shown[2]


def _verdict(name: str, own: float, plain: float) -> str:
    better = words.metric(name).better
    if abs(own - plain) < NOTHING:
        return "equal"
    if better is None:
        return ""
    return "better" if (own > plain) == (better == "higher") else "worse"


def _accuracy_price(known: Mapping[str, tuple[float, float]]) -> str:
    name = next((name for name in ("balanced_accuracy", "accuracy") if name in known), None)
    if name is None:
        return ""
    own, plain = known[name]
    label = words.metric(name).label
    with_it = f"{label} is {formats.percent(own)} with the adversary and {formats.percent(plain)} without it"
    if formats.points(own - plain) == formats.points(0.0):
        return f"{with_it}: no price that shows in a tenth of a percentage point."
    if own < plain:
        return f"{with_it}: a price of <strong>{formats.points(own - plain)}</strong>."
    return f"{with_it}: no price, for it is {formats.points(own - plain)} higher."


def _bought(known: Mapping[str, tuple[float, float]]) -> str:
    """Every measure of equal treatment, by whether it came out better or worse."""
    said: dict[str, list[str]] = {"better": [], "worse": [], "equal": []}
    for name in sorted(known, key=lambda name: not name.startswith("certificate")):
        own, plain = known[name]
        stem, _, about = name.partition(".")
        if stem not in ("certificate", "consistency", "gap_max") or "&" in about:
            continue
        label = words.metric_phrase(name)
        label = html.escape(label[0].lower() + label[1:])
        verdict = _verdict(name, own, plain)
        if not verdict:
            continue
        now, before, _ = _compared(own, plain)
        said[verdict].append(f"{label} ({now}{'' if verdict == 'equal' else f' instead of {before}'})")
    heads = {
        "better": "Better with the adversary",
        "worse": "Worse with the adversary",
        "equal": "Equal with and without it",
    }
    return " ".join(f"{heads[key]}: {'; '.join(items)}." for key, items in said.items() if items)
