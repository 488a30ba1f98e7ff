"""The loss under comparable treatment: how far it rises, and who is treated as whom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evenhand.fairlib.catalogue import spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import ROUNDING, interval_name, lack, price_sentence

PAGES = {"run": 120}
NEEDS = ("audit", "metrics")

# Of the budget: from here on it counts as spent.
SPENT = 1 - 1e-6


def build(documents: Documents) -> Iterator[Section]:
    """The certificate, a map an attribute, the people whose loss rises most."""
    audit, metrics = documents["audit"], documents["metrics"]
    blocks = [*_certificate(audit, interval_name(metrics["settings"]))]
    for name, flow in audit["flows"].items():
        # of a single group nobody can be treated as another
        if len(flow["groups"]) > 1:
            cells = metrics["counts"].get(name, [])
            blocks += _flow(spoken(name), flow, cells, metrics["settings"]["min_cell"])
    if audit["pairs"]:
        blocks += _pairs(audit["pairs"])
    yield Section("audit", title("certificate.drf"), blocks)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers, with more decimals where they would look the same."""
    shown = formats.number(one), formats.number(other)
    alike = shown[0] == shown[1] and abs(one - other) >= ROUNDING
    return formats.apart(one, other) if alike else shown


def _certificate(audit: Json, interval: str) -> Iterator[Block]:
    people, budget, distances = audit["people"], f"{audit['budget']:g}", audit["distances"]
    rise, low, high = (
        value and (0.0 if abs(value) < ROUNDING else value)
        for value in (audit["gap"][end] for end in ("value", "low", "high"))
    )
    loss, worst = _apart(audit["loss"], audit["adversarial_loss"])
    likely, less = _apart(math.exp(-audit["loss"]), math.exp(-audit["adversarial_loss"]))
    ends = formats.interval(low, high)
    said = "" if low is None else f" ({interval} {ends})"
    answer = f"**rises by {formats.number(rise)}**{said}, from {loss} to {worst}"
    moved = f"{formats.count(audit['moved'])} of {formats.count(people)}"
    share = formats.percent(audit["moved"] / people)
    spent = audit["spent"] >= SPENT * audit["budget"]
    yield (
        "How much does the mean loss rise if people may be treated as comparable others? An adversary may "
        f"treat each of the {formats.count(people)} people in the test rows as any other of them, with the "
        "true label unchanged, as long as the mean squared fair distance between the two is at most "
        f"{budget} (the budget). The fair distance is small between people whom the job holds to be "
        "comparable."
    )
    yield (
        f"The mean loss {answer if rise else f'**does not rise**{said}: it stays at {loss}'}. The smaller "
        "the rise, the less the loss depends on which comparable person’s features the model gets."
    )
    yield (
        "Losses are in nats: a person’s loss is minus the natural logarithm of the probability that the "
        f"model gives to the true label. A model that always gives the true label a probability of {likely} "
        f"has a mean loss of {loss}{f'; at {worst} the probability is {less}' if rise else ''}."
    )
    used = f" Only {formats.number(audit['spent'])} of the budget of {budget} was spent."
    if spent:
        used = " The budget was spent in full." if audit["budget"] > 0 else ""
    further = {**audit, "multiplier": audit["multiplier"] if spent else 0.0}
    yield (
        f"{moved} people ({share}) are moved: they are treated as somebody at a fair distance above 0. The "
        f"others are treated as themselves or as somebody at a fair distance of 0.{used} "
        f"{price_sentence(further, 'raise the loss', 'the loss would rise')}"
    )
    if distances is not None:
        yield _histogram(distances["edges"], distances["counts"])
    elif audit["moved"]:
        yield "Too few people are moved for a chart of how far."
    rows = [
        ("Mean loss of the people as they are", loss),
        ("Mean loss in the worst case", worst),
        ("Rise", rise),
        (f"{interval} of the rise", ends),
        ("People moved", f"{moved} ({share})"),
        ("Budget (mean squared fair distance)", budget),
        ("Budget spent", budget if spent else audit["spent"]),
        ("Price: further loss per unit of further budget", audit["multiplier"]),
    ]
    yield Table("The certificate in numbers, losses in nats", ["What", "Value"], rows, pairs=True)


def _histogram(edges: Sequence[float], counts: Sequence[int]) -> Chart:
    marks, caption = [formats.number(edge) for edge in edges], "How far people are moved"
    fullest = max(range(len(counts)), key=counts.__getitem__)
    people = formats.plural(sum(counts), "person", "people")
    described = (
        f"The fullest range is {marks[fullest]} to {marks[fullest + 1]}, with "
        f"{formats.count(counts[fullest])} of {people}."
    )
    data = {"edges": edges, "counts": counts, "x_title": "fair distance to the person that one is treated as"}
    rows = [(f"{low} to {high}", n) for low, high, n in zip(marks, marks[1:], counts, strict=False)]
    table = Table(caption, ["Fair distance", "People"], rows, folded=True)
    return Chart("groups.histogram", data, caption, described, table=table)


def _flow(about: str, flow: Json, cells: Sequence[Json], min_cell: int) -> list[Block]:
    """Who is treated as whom; of a row with a hidden number, the size of the group is used, not the sum."""
    groups = flow["groups"]
    sizes = {group: sum(cell["n"] for cell in cells if cell["group"] == group) for group in groups}
    rows: list[list[Cell]] = []
    crossing: list[tuple[int, float, str]] = []
    for group, counts in zip(groups, flow["counts"], strict=True):
        total, row = sizes[group] if None in counts else sum(counts), [Cell(f"“{group}”")]
        for other, n in zip(groups, counts, strict=True):
            share = formats.percent(n / total) if n is not None and total else ""
            shown = Cell(share, (formats.count(n),)) if share else Cell(formats.count(n))
            row.append(lack("not shown") if n is None else shown)
            if n and other != group:
                part = f"; the largest part of a group: {share} of “{group}” are treated as “{other}”"
                crossing.append((n, n / total, part) if total else (n, 0.0, ""))
        rows.append(row)
    hidden = [i == j for i, row in enumerate(flow["counts"]) for j, n in enumerate(row) if n is None]
    people = sum(sizes.values()) or (0 if hidden else sum(map(sum, flow["counts"])))
    text = (
        "In this worst case each person is treated as themselves, as another person of their group, or as a "
        f"person of another group. {_crossing(crossing, all(hidden), people, about)}"
    )
    if hidden:
        text += (
            f" A cell of fewer than {min_cell} people is “not shown”, and neither is the smallest other "
            "number of its row, so that it cannot be computed from the size of the group."
        )
    caption = f"Part of each group by {about} that is treated as each group, with the number of people"
    table = Table(caption, ["People of", *(f"treated as “{group}”" for group in groups)], rows)
    return [Heading(f"Who is treated as whom, by {about}"), text, table]


def _crossing(crossing: Sequence[tuple[int, float, str]], complete: bool, people: int, about: str) -> str:
    """Say how many people are treated as one of another group; hidden cells are not counted."""
    across = sum(n for n, *_ in crossing)
    if across == 0:
        if complete:
            return f"Nobody is treated as a person of another group by {about}."
        return f"How many are treated as a person of another group by {about} cannot be shown."
    of = f" of {formats.count(people)} people ({formats.percent(across / people)})" if people else " people"
    largest = max(crossing, key=lambda item: item[1])[2]
    return (
        f"{'' if complete else 'At least '}**{formats.count(across)}{of}** are treated as a person of "
        f"another group{largest}. For each of them the model predicts differently for comparable people of "
        "two groups. A large group is chosen more often by chance alone."
    )


def _pairs(pairs: Sequence[Json]) -> list[Block]:
    rows = []
    for pair in pairs:
        # row numbers are names: no thousands separated
        names = [str(pair["row"]), str(pair["treated_as"])]
        distance = "0" if pair["distance"] == 0 else formats.number(pair["distance"])
        losses = _apart(pair["loss"], pair["loss_treated_as"])
        rows.append([*names, distance, *losses, pair["revealed_loss"]])
    who = "This person’s loss rises" if len(pairs) == 1 else f"The losses of these {len(pairs)} people rise"
    text = f"{who} most in the worst case. Losses are in nats."
    if any(pair["distance"] == 0 for pair in pairs):
        text += " A fair distance of 0 means that the two differ in nothing that the job holds to matter."
    numbered = (
        "Row numbers count from 0 in the ingested table without rows that the contract set aside "
        "(`contract.checked` among the run’s artifacts). Where there are more people, `pairs.parquet` has a "
        "longer list (`evaluate.pairs` there). No other data of these people is shown."
    )
    columns = ["Row", "Treated as row", "Fair distance", "Loss", "Loss when treated so", "Rise"]
    table = Table("People by the rise of their loss, the largest first", columns, rows)
    return [Heading("The people whose loss rises most"), text, numbered, table]
