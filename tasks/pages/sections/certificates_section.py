"""Certificates: how far outputs change, and how far the loss rises, under comparable treatment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Heading,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.texts import ROUNDING, interval_name, known, lack, price_sentence

PAGES = {"run": 110}
NEEDS = ("metrics",)
NEEDS_ONE_OF = ("certificate", "audit")

# The factor of the odds that the text names, where its bound says anything.
FACTOR = 2.0
# Of the budget: from here on it counts as spent.
SPENT = 1 - 1e-6


def _audit(documents: Documents) -> Section:
    """The certificate, a map an attribute, the people whose loss rises most."""
    audit = documents["audit"]
    metrics = documents["metrics"]
    blocks = [*_certificate(audit, interval_name(metrics["settings"]))]
    for name, flow in audit["flows"].items():
        # of a single group nobody can be treated as another
        if len(flow["groups"]) > 1:
            cells = metrics["counts"].get(name, [])
            blocks += _flow(spoken(name), flow, cells, metrics["settings"], audit["people"])
    if audit["pairs"]:
        blocks += _pairs(audit["pairs"])
    return Section("audit", title("certificate.drf"), blocks)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers, with more decimals where they would look the same."""
    rounded = formats.number(one), formats.number(other)
    alike = rounded[0] == rounded[1] and abs(one - other) >= ROUNDING
    return formats.apart(one, other) if alike else rounded


def _certificate(audit: Json, interval: str) -> Iterator[Block]:
    people = audit["people"]
    budget = f"{audit['budget']:g}"
    yield (
        "How much does the mean loss rise if people may be treated as comparable others? An "
        f"adversary may treat each of the {formats.count(people)} people in the test rows as any "
        "other of them, with the true label unchanged, as long as the mean squared fair distance "
        f"between the two is at most {budget} (the budget). The fair distance is small between "
        "people whom the job holds to be comparable."
    )
    yield from _rise(audit, interval)
    spent = audit["spent"] >= SPENT * audit["budget"]
    used = f" Only {formats.number(audit['spent'])} of the budget of {budget} was spent."
    if spent and audit["budget"] > 0:
        used = " The budget was spent in full."
    elif spent:
        used = ""
    further = {**audit, "multiplier": audit["multiplier"] if spent else 0.0}
    yield (
        f"{formats.count(audit['moved'])} of {formats.count(people)} people "
        f"({formats.percent(audit['moved'] / people)}) are moved: they are treated as somebody at "
        "a fair distance above 0. The others are treated as themselves or as somebody at a fair "
        f"distance of 0.{used} {price_sentence(further, 'raise the loss', 'the loss would rise')}"
    )
    distances = audit["distances"]
    if distances is not None:
        yield _histogram(distances["edges"], distances["counts"])
    elif audit["moved"]:
        yield "Too few people are moved for a chart of how far."


def _rise(audit: Json, interval: str) -> Iterator[str]:
    """By how much the mean loss rises, and what a loss in nats means."""
    gap = audit["gap"]
    rise, low, high = (_without_rounding(gap[end]) for end in ("value", "low", "high"))
    loss, worst = _apart(audit["loss"], audit["adversarial_loss"])
    likely, less = _apart(math.exp(-audit["loss"]), math.exp(-audit["adversarial_loss"]))
    ends = ""
    if low is not None:
        ends = f" ({interval} {formats.interval(low, high)})"
    answer = f"**does not rise**{ends}: it stays at {loss}"
    worse = ""
    if rise:
        answer = f"**rises by {formats.number(rise)}**{ends}, from {loss} to {worst}"
        worse = f"; at {worst} the probability is {less}"
    yield (
        f"The mean loss {answer}. The smaller the rise, the less the loss depends on which "
        "comparable person’s features the model gets."
    )
    yield (
        "Losses are in nats: a person’s loss is minus the natural logarithm of the probability "
        "that the model gives to the true label. A model that always gives the true label a "
        f"probability of {likely} has a mean loss of {loss}{worse}."
    )


def _without_rounding(value: float | None) -> float | None:
    """A number, and 0 in place of one that is due to rounding."""
    if value and abs(value) < ROUNDING:
        return 0.0
    return value


def _histogram(edges: Sequence[float], counts: Sequence[int]) -> Chart:
    marks = [formats.number(edge) for edge in edges]
    caption = "How far people are moved"
    fullest = max(range(len(counts)), key=counts.__getitem__)
    people = formats.plural(sum(counts), "person", "people")
    described = (
        f"The fullest range is {marks[fullest]} to {marks[fullest + 1]}, with "
        f"{formats.count(counts[fullest])} of {people}."
    )
    data = {
        "edges": edges,
        "counts": counts,
        "x_title": "fair distance to the person that one is treated as",
    }
    rows = [(f"{low} to {high}", n) for low, high, n in zip(marks, marks[1:], counts, strict=False)]
    table = Table(caption, ["Fair distance", "People"], rows, folded=True)
    return Chart("group_charts.histogram", data, caption, described, table=table)


def _flow(
    about: str, flow: Json, cells: Sequence[Json], settings: Json, people: int
) -> list[Block]:
    """Who is treated as whom; of a row with a hidden number, the size of the group is used, not the
    sum.
    """
    groups = flow["groups"]
    rows = list[list[Cell]]()
    across = 0
    complete = True
    hidden = False
    for group, counts in zip(groups, flow["counts"], strict=True):
        total = sum(cell["n"] for cell in cells if cell["group"] == group)
        if None in counts:
            hidden = True
        else:
            total = sum(counts)
        row = [Cell(f"“{group}”")]
        for treated_as, n in zip(groups, counts, strict=True):
            row.append(_flow_cell(n, total))
            if treated_as != group:
                across += n or 0
                complete &= n is not None
        rows.append(row)
    text = (
        "In this worst case each person is treated as themselves, as another person of their "
        f"group, or as a person of another group. {_across(about, across, people, complete)}"
    )
    if hidden:
        text += (
            f" A cell of fewer than {settings['min_cell']} people is “not shown”, and neither is "
            "the smallest other number of its row, so that it cannot be computed from the size of "
            "the group."
        )
    caption = (
        f"Part of each group by {about} that is treated as each group, with the number of people"
    )
    columns = ["People of", *(f"treated as “{group}”" for group in groups)]
    return [Heading(f"Who is treated as whom, by {about}"), text, Table(caption, columns, rows)]


def _flow_cell(n: int | None, total: int) -> Cell:
    """People of a group who are treated as people of one: their share and number."""
    if n is None:
        return lack("not shown")
    if not total:
        return Cell(formats.count(n))
    return Cell(formats.percent(n / total), (formats.count(n),))


def _across(about: str, across: int, people: int, complete: bool) -> str:
    """Say how many people are treated as a person of another group."""
    if across:
        least = "" if complete else "At least "
        return (
            f"{least}**{formats.count(across)} of {formats.count(people)} people "
            f"({formats.percent(across / people)})** are treated as a person of another group. For "
            "each of them the model predicts differently for comparable people of two groups."
        )
    if complete:
        return f"Nobody is treated as a person of another group by {about}."
    return f"How many are treated as a person of another group by {about} cannot be shown."


BUDGET = "budget (mean squared fair distance)"
TREES = "Change of scores under comparable treatment"
SCOPE = (
    "**What this says.** Fair distance is small between people whom the job holds to be "
    "comparable. The proof covers every possible person, in the test rows or not, whose features "
    "are within the range of the training rows (rounded outwards); along a protected direction, "
    "where the fair distance is 0, within its own range. Nothing is known beyond, and nothing "
    "about what another training would give."
)


def build(documents: Documents) -> Iterator[Section]:
    """The change of the outputs and the rise of the loss, each where the run has it."""
    if documents.get("certificate") is not None:
        yield _invariance(documents)
    if documents.get("audit") is not None:
        yield _audit(documents)


def _invariance(documents: Documents) -> Section:
    """What was searched and found, what it proves, the numbers, and the curve where there
    is one.
    """
    certificate = documents["certificate"]
    metrics = documents["metrics"]
    whom = _whom(certificate, metrics)
    if "curve" not in certificate:
        return Section("invariance", TREES, [*_proved(certificate, whom), SCOPE])
    interval = interval_name(metrics["settings"])
    budget = certificate["budget"]
    points = _points(certificate["curve"])
    at_budget = next(point for point in points if point["budget"] == budget)
    ends = ""
    if at_budget["low"] is not None:
        ends = f" ({interval} {formats.interval(at_budget['low'], at_budget['high'])})"
    value = certificate["value"]
    if value < ROUNDING:
        answer = (
            f"The search found no exchange that changes them: the outputs **do not change**{ends}."
        )
        proven = "It is what was found for these people."
    else:
        answer = (
            f"The outputs change by **{formats.number(value)}**{ends}: the mean squared change of "
            "the logits, which are the model’s scores before they become probabilities. 0 would "
            "mean that comparable people always get the same output."
        )
        proven = "Exchanges within the budget that change the outputs by this much were found."
    shares = ""
    if certificate["shares"]:
        shares = " A share of people that rests on it is no guarantee either."
    price = price_sentence(certificate, "change the outputs", "the outputs would change")
    blocks: list[Block] = [
        "How far do the model’s outputs change if people are exchanged for comparable ones? Each "
        f"of {whom} may be exchanged for a comparable one, in the test rows or not, as long as "
        f"the mean squared fair distance between the two is at most {budget:g} (the budget). The "
        "fair distance is small between people whom the job holds to be comparable.",
        answer,
        *_proved(certificate, whom),
        *_share(certificate),
        _without_budget(budget, points) + price,
        f"**What the search proves.** {proven} The worst exchange of each person is searched for, "
        "and a search can miss. The number is therefore a lower bound: the true worst case of the "
        f"same people is this large or larger.{shares}",
        "**What it does not say.** The search keeps each feature within the range of the training "
        "rows (rounded outwards), and each protected direction, along which the fair distance is "
        "0, within its own range; only a change along such a direction may take a feature further. "
        "Nothing is known beyond. The interval is about which people were looked at, not about "
        "what another training would give. The number is a mean: the output of any one person may "
        "change by more, so it says nothing about the individual.",
    ]
    if len(points) > 1:
        blocks += _curve(points, budget, interval)
    return Section("invariance", title("certificate.dif"), blocks)


def _points(curve: Json) -> list[dict[str, Any]]:
    """The change of the outputs at each budget, with its interval where there is one."""
    none = [None] * len(curve["budgets"])
    columns = (curve["budgets"], curve["values"], curve["low"] or none, curve["high"] or none)
    points = []
    for budget, value, low, high in zip(*columns, strict=True):
        points.append({"budget": budget, "value": value, "low": low, "high": high})
    return points


def _without_budget(budget: float, points: Sequence[Json]) -> str:
    """Say what exchanges at a fair distance of 0 change, if that was searched; ends in a space."""
    free = next((point["value"] for point in points if point["budget"] == 0), None)
    if budget <= 0 or free is None:
        return ""
    change = f"that alone gives {formats.number(free)}"
    if free < ROUNDING:
        change = "no output changes"
    return f"With a budget of 0, exchanges are possible only at a fair distance of 0; {change}. "


def _whom(certificate: Json, metrics: Json) -> str:
    people = formats.count(certificate["people"])
    rows = metrics["n"]
    if certificate["people"] < rows:
        return f"{people} people, drawn at random from the {formats.count(rows)} in the test rows,"
    return f"the {people} people in the test rows"


def _proved(certificate: Json, whom: str) -> list[Block]:
    """What holds for all possible people, and the table of both ends."""
    proof = certificate["proof"]
    intervals = proof["intervals"]
    radius = f"{proof['radius']:.3g}"
    blocks: list[Block] = []
    if "certificate.score" in intervals:
        score = intervals["certificate.score"]
        text = (
            f"**No comparable treatment of anybody among {whom.rstrip(',')}, over all possible "
            f"people at fair distance up to {radius}, changes the score by more than "
            f"{_up(score['proved'])} (proved); a search found {formats.number(score['found'])}.** "
            "The distance is the root of the budget."
        )
        if proof["unchanged"] is not None:
            text += (
                " The decision about "
                f"{formats.percent(math.floor(1000 * proof['unchanged']) / 1000)} of "
                "these people provably cannot change within that distance."
            )
        blocks.append(text)
    if intervals:
        rows: list[list[Any]] = []
        for name, ends in intervals.items():
            rows.append(
                [_quantity(name), known(ends["found"], why="none found"), known(ends["proved"])]
            )
        blocks.append(
            Table("Between what was found and what is proved", ["What", "Found", "Proved"], rows)
        )
    # each reason once, with the first metric that it is given for
    first = {reason: name for name, reason in reversed(proof["reasons"].items())}
    return [*blocks, *(f"{_quantity(name)}: {reason}." for reason, name in first.items())]


def _quantity(name: str) -> str:
    return title(f"{name}.found").removesuffix(" (found)")


def _up(value: float) -> str:
    """A proved bound, rounded up so that it stays one."""
    digits = 3 if value >= 0.01 or value == 0.0 else 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**digits - ROUNDING) / 10**digits:.{digits}f}"


def _share(certificate: Json) -> list[Block]:
    """The number as bounds on shares of people; in words for the smallest factor from 2 on that it
    bounds.
    """
    shares = certificate["shares"]
    value = certificate["value"]
    if not shares or value < ROUNDING:
        return []
    bounded = [item for item in shares if item["odds"] >= FACTOR and item["share"] < 1]
    if not bounded:
        return [
            "So large a mean bounds no share of people: by this number alone, everybody’s odds "
            "of a positive prediction might change by a factor of "
            f"{max(item['odds'] for item in shares):g} or more."
        ]
    item = min(bounded, key=lambda item: item["odds"])
    rows = []
    for one in shares:
        bound = f"at most {_at_most(one['share'])}" if one["share"] < 1 else "no bound"
        rows.append((f"People whose odds can change by a factor of {one['odds']:g} or more", bound))
    factor = f"{item['odds']:g}"
    likely = 100 * item["odds"] / (1 + item["odds"])
    return [
        f"If the search missed no exchange, **at most {_at_most(item['share'])}** of these people "
        f"can have their odds of a positive prediction changed by a factor of {factor} or more. "
        "Here each person’s own squared distance, not the mean alone, is at most the budget. A "
        f"change of the odds by a factor of {factor} takes a probability of 50% to {likely:.0f}% "
        f"or to {100 - likely:.0f}%. The share is Markov’s bound: the mean divided by the least "
        "that such a change takes (Yurochkin and Sun 2021, proposition 2.3). The real share may "
        "be far smaller.",
        Table(
            "Shares of people, if the search missed no exchange",
            ["What", "Value"],
            rows,
            pairs=True,
        ),
    ]


def _at_most(share: float) -> str:
    """A bound as a percentage, rounded up so that it stays one."""
    return formats.percent(math.ceil(1000 * share - ROUNDING) / 1000)


def _curve(points: list[dict[str, Any]], own: float, interval: str) -> list[Block]:
    """The table over budgets, under its chart where two points can be drawn."""
    caption = "Change of the outputs by budget"
    rows = []
    for point in points:
        name = f"{point['budget']:g}"
        if point["budget"] == own:
            name += " (this job)"
        rows.append((name, point["value"], formats.interval(point["low"], point["high"])))
    table = Table(caption, ["Budget", "Change of the outputs", interval], rows, folded=True)
    # a logarithmic axis has no 0
    drawn = [point for point in points if point["budget"] > 0 and point["value"] > ROUNDING]
    if len(drawn) < 2:
        return [table]
    first, last = (
        f"{formats.number(point['value'])} at a budget of {point['budget']:g}"
        for point in (drawn[0], drawn[-1])
    )
    described = f"From {first} to {last}; both axes are logarithmic."
    data = {
        "rows": drawn,
        "x_title": BUDGET,
        "y_title": "mean squared change of the logits",
        "marked": own,
    }
    marks = []
    if any(point["budget"] == own for point in drawn):
        marks.append("the diamond is this job’s budget")
    if drawn[0]["low"] is not None:
        marks.append(f"the band is the {interval}")
    note = f"{formats.sentence('; '.join(marks))}." if marks else ""
    return [Chart("curves.budget_curve", data, caption, described, note, table)]


def _pairs(pairs: Sequence[Json]) -> list[Block]:
    rows = []
    for pair in pairs:
        # row numbers are names: no thousands separated
        names = [str(pair["row"]), str(pair["treated_as"])]
        distance = "0" if pair["distance"] == 0 else formats.number(pair["distance"])
        losses = _apart(pair["loss"], pair["loss_treated_as"])
        rows.append([*names, distance, *losses, pair["revealed_loss"]])
    who = (
        "This person’s loss rises"
        if len(pairs) == 1
        else f"The losses of these {len(pairs)} people rise"
    )
    text = f"{who} most in the worst case. Losses are in nats."
    if any(pair["distance"] == 0 for pair in pairs):
        text += (
            " A fair distance of 0 means that the two differ in nothing that the job holds to "
            "matter."
        )
    numbered = (
        "Row numbers count from 0 in the ingested table without rows that the contract set aside "
        "(`contract.checked` among the run’s artifacts). Where there are more people, "
        "`pairs.parquet` has a longer list (`evaluate.pairs` there). No other data of these people "
        "is shown."
    )
    columns = ["Row", "Treated as row", "Fair distance", "Loss", "Loss when treated so", "Rise"]
    table = Table("People by the rise of their loss, the largest first", columns, rows)
    return [Heading("The people whose loss rises most"), text, numbered, table]
