"""Proxies: shares of groups before and after, and what proxy groups reveal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenhand.fairlib.catalogue import METRICS, spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Chart, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.training_section import curves_section
from evenhand.tasks.pages.texts import interval_name, largest, left_out

PAGES = {"run": 2}
FIRST = ("run",)
NEEDS = ("metrics",)
NEEDS_ONE_OF = ("balance", "kept_rows")

SUPPORT = ("support", "support_none", "support_size", "support_shift")
# A map with more columns, or a chart with more groups, cannot be read; a table with more rows is
# folded.
MOST_COLUMNS = 30
MOST_OPEN = 12


def build(documents: Documents) -> Iterator[Section]:
    """All about a proxy; of a model whose training rows one chose, which it kept."""
    balance = documents.get("balance")
    metrics = documents["metrics"]
    if documents.get("kept_rows") is not None:
        kept_rows = documents["kept_rows"]
        text = (
            f"The model was trained on **{formats.count(kept_rows['rows_after'])}** of "
            f"{formats.count(kept_rows['rows_before'])} training rows: those that the published "
            f"proxy {kept_rows['proxy']}, version {kept_rows['version']}, kept. A row’s features "
            "determine the probability that it is kept, and a hash of them decides; "
            f"{formats.count(round(kept_rows['rows_expected']))} rows were expected. None of the "
            "test rows was left out."
        )
        yield Section("kept-rows", "Balanced training rows", [text], folded=True)
    if balance is None:
        return
    distances = balance["distances"] or []
    if len(distances) > 1:
        series = {"distance to the target": distances}
        yield replace(curves_section("Training", range(len(distances)), series), folded=True)
    yield Section(
        "proxy", "What the proxy does", [_purpose(balance, documents["run"].get("alpha"))]
    )
    lead = (
        "Expected shares of the groups among the held-out rows, and among those of them that are "
        "kept."
    )
    blocks = [lead, *share_blocks(_shares(balance), "all rows", "kept rows")]
    yield Section("shares", "Groups before and after", blocks)
    if "support" in metrics["metrics"]:  # not of runs of earlier versions
        yield Section("support", "Who has a chance", _support_rows(balance, metrics["metrics"]))
    yield Section(
        "disclosivity",
        "What each proxy group reveals",
        _disclosivity(balance, metrics),
        folded=True,
    )
    yield Section("limits", "What this does not say", _limits(metrics["metrics"]))


def proxy_sentences(documents: Documents) -> list[str]:
    """Say for the headline what the proxy does on the held-out rows."""
    values = {name: metric["value"] for name, metric in documents["metrics"]["metrics"].items()}
    sentences = []
    if values["imbalance"] is not None:
        sentences.append(
            f"It keeps {formats.percent(values['kept'])} of the rows. Their group shares are "
            f"{formats.number(values['imbalance'])} from the target; those of all rows are "
            f"{formats.number(values['imbalance_before'])} from it."
        )
    if values["disclosivity"] is not None:
        sentences.append(
            "Within a proxy group, the share of a group differs by at most "
            f"{formats.points(values['disclosivity'])} from its share among all rows, where there "
            "are enough rows to judge."
        )
    return sentences + share_sentences(_shares(documents["balance"]), "all rows", "those kept")


def _purpose(balance: Json, alpha: float | None) -> str:
    attributes = formats.join([spoken(name) for name in balance["attributes"]])
    limit = "Nothing limits what its proxy groups reveal."
    if alpha is not None:
        limit = (
            "On the training rows, the share of a group within a proxy group differs by at most "
            f"{alpha:g} (alpha) from its share among all rows."
        )
    count = len(balance["masses"])
    place = (
        f"A row’s ordinary features place it in one of {formats.count(count)} proxy groups, or in "
        "several by shares."
    )
    if count == 1:
        place = "All rows are in one proxy group: the proxy distinguishes none."
    return (
        f"{place} Each "
        "proxy group has a probability with which its rows are kept, chosen so that the shares "
        f"of the groups by {attributes} among the kept rows come as close to the target as they "
        "can. The sensitive attribute itself is not read, so that a table without it can be "
        f"filtered. {limit}"
    )


def share_rows(
    attributes: Json, **columns: Sequence[float | None]
) -> dict[str, list[dict[str, Any]]]:
    """Rows of each attribute's groups, with `columns` such as the share ``before``, ``after``,
    ``target``.
    """
    values = zip(*columns.values(), strict=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    for attribute, groups in attributes.items():
        rows[attribute] = []
        for group in groups:
            shares = dict(zip(columns, next(values), strict=True))
            rows[attribute].append({"group": group, **shares})
    return rows


def _shares(balance: Json) -> dict[str, list[dict[str, Any]]]:
    before = balance["shares_before"]
    after = balance["shares_after"]
    return share_rows(balance["attributes"], before=before, after=after, target=balance["target"])


def share_sentences(shares: Mapping[str, Sequence[Json]], before: str, after: str) -> list[str]:
    """Say how the share of each attribute's rarest group changes, and which groups get farther
    away.
    """
    sentences = []
    for attribute, rows in shares.items():
        rare = min(rows, key=lambda row: 2.0 if row["before"] is None else row["before"])
        if rare["before"] is not None and rare["after"] is not None:
            old, new, target = (formats.percent(rare[key]) for key in ("before", "after", "target"))
            sentences.append(
                f"By {spoken(attribute)}: the rarest group, “{rare['group']}”, is {old} of "
                f"{before} and {new} of {after} (target: {target})."
            )
        farther = [f"“{row['group']}”" for row in rows if _is_farther(row)]
        if farther:
            sentences.append(f"Farther from the target share than before: {formats.join(farther)}.")
    return sentences


def _is_farther(row: Json) -> bool:
    """Whether a share ends farther from the target."""
    if row["before"] is None or row["after"] is None:
        return False
    return bool(abs(row["after"] - row["target"]) > abs(row["before"] - row["target"]))


def share_blocks(shares: Mapping[str, Sequence[Json]], before: str, after: str) -> Iterator[Block]:
    """A chart of each attribute's groups, with a table, which has the intervals of rows that have
    one.
    """
    columns = ["Group", formats.sentence(before), formats.sentence(after), "Target"]
    columns.append("Times as many")
    for attribute, rows in shares.items():
        drawn = largest(rows, MOST_COLUMNS, lambda row: row["before"] or 0.0)
        bars = []
        for row in drawn:
            bars.append({key: row[key] for key in ("group", "before", "after", "target")})
        cells = []
        described = []
        for row in rows:
            old = formats.percent(row["before"])
            new = formats.percent(row["after"])
            cells.append(_share_row(row))
            described.append(f"{row['group']} {old} to {new}")
        text = f"Shares by {spoken(attribute)} before and after"
        table = Table(text, columns, cells, folded=len(rows) > MOST_OPEN)
        data = {"rows": bars, "before": before, "after": after}
        description = f"{'; '.join(described[:MOST_COLUMNS])}."
        caption = left_out(drawn, rows, "The groups that are largest before")
        yield Chart("group_charts.group_shares", data, text, description, caption, table)


def _share_row(row: Json) -> list[Any]:
    """A group's shares before and after, its target, and how many times as large it is after."""
    note = "farther from the target" if _is_farther(row) else ""
    ends = ""
    if row.get("low") is not None:
        ends = formats.interval(row["low"], row["high"], formats.percent)
    times = None
    if row["before"] and row["after"] is not None:
        times = row["after"] / row["before"]
    return [
        Cell(row["group"], (note,)),
        formats.percent(row["before"]),
        Cell(formats.percent(row["after"]), (ends,)),
        formats.percent(row["target"]),
        times,
    ]


def _support_rows(balance: Json, metrics: Json) -> list[Block]:
    # imported lazily: the page of a filter run needs no scikit-learn
    from evenhand.fairlib.proxies.proxy_evaluation import NO_CHANCE

    keepable_groups = sum(chance > NO_CHANCE for chance in balance["acceptance"])
    groups = formats.plural(len(balance["acceptance"]), "proxy group")
    rows = [[METRICS[name].title, metrics[name]["value"]] for name in SUPPORT]
    return [
        "A sample can be balanced by keeping a few people of one kind. A model that is trained on "
        f"it then knows little about all others. **{keepable_groups} of {groups}** have a chance "
        "of being kept.",
        Table("Support on the held-out rows", ["Measure", "Value"], rows),
        *[METRICS[name].explanation for name in SUPPORT[-2:]],
    ]


def share_differences(
    compositions: Sequence[Any], base: Sequence[float | None]
) -> list[list[float | None]]:
    """Shares of groups within each proxy group minus those among all rows; None where one is
    hidden.
    """
    differences = []
    for shares in compositions:
        row: list[float | None] = []
        for share, of_all in zip(shares or [None] * len(base), base, strict=True):
            if share is None or of_all is None:
                row.append(None)
            else:
                row.append(share - of_all)
        differences.append(row)
    return differences


def _disclosivity(balance: Json, metrics: Json) -> list[Block]:
    measured = metrics["metrics"]["disclosivity"]
    groups = balance["groups"]
    order = sorted(range(len(balance["masses"])), key=lambda j: -balance["masses"][j])
    held_out = share_differences(balance["compositions"], balance["base_rates"])
    train = share_differences(balance["compositions_train"], balance["base_rates_train"])
    largest_text = ""
    if measured["value"] is not None:
        interval = interval_name(metrics["settings"])
        ends = formats.interval(measured["low"], measured["high"])
        largest_text = (
            " The largest difference on the held-out rows is "
            f"{formats.number(measured['value'])} ({interval}: {ends})."
        )
    rows: list[list[Any]] = []
    for place, j in enumerate(order, start=1):
        difference, group = _largest(held_out[j], groups)
        in_training, _ = _largest(train[j], groups)
        rows.append(
            [
                str(place),
                formats.percent(balance["masses"][j]),
                balance["acceptance"][j],
                round(balance["rows"][j]),
                difference,
                group,
                in_training,
            ]
        )
    heads = [
        "Proxy group",
        "Training rows",
        "Probability kept",
        "Held-out rows",
        "Largest difference",
        "Of the group",
        "The same, training",
    ]
    data = {
        "rows": _map_cells(balance, order[:MOST_COLUMNS], held_out),
        "x_title": "proxy groups, the largest first",
    }
    described = f"{formats.plural(len(order), 'proxy group')} by {len(groups)} groups."
    return [
        "Each cell is the share of a group within a proxy group minus its share among all rows, in "
        "percentage points, on the held-out rows: 0 means that the proxy group reveals nothing "
        "about that group. Blue is below 0, orange above; a dash means that there are too few "
        f"rows.{largest_text}",
        Chart(
            "group_charts.heat_map",
            data,
            "Differences of group shares within each proxy group",
            f"{described}{largest_text}",
        ),
        Table("Proxy groups, the largest first", heads, rows, folded=len(order) > MOST_OPEN),
    ]


def _map_cells(
    balance: Json, order: Sequence[int], differences: Sequence[Sequence[float | None]]
) -> list[dict[str, Any]]:
    """The cells of the map, a row a group, a column a proxy group in this order."""
    names = balance["groups"]
    if len(balance["attributes"]) == 1:
        # with one attribute its name is not repeated
        names = next(iter(balance["attributes"].values()))
    cells = []
    for k, name in enumerate(names):
        for place, j in enumerate(order, start=1):
            cells.append({"column": str(place), "row": name, "value": differences[j][k]})
    return cells


def _largest(
    differences: Sequence[float | None], groups: Sequence[str]
) -> tuple[float | None, str | None]:
    sizes = []
    for value, group in zip(differences, groups, strict=True):
        if value is not None:
            sizes.append((abs(value), group))
    return max(sizes, default=(None, None))


def _limits(metrics: Json) -> list[Block]:
    probability = metrics.get("disclosivity_of_probability")
    more = ""
    if probability is not None and probability["value"] is not None:
        more = (
            " The acceptance probability, which anybody who filters can compute, mixes those of "
            f"several proxy groups and reveals more: up to {formats.number(probability['value'])} "
            "on the held-out rows."
        )
    return [
        "**The limit is about proxy groups, not about features.** It bounds what a person’s "
        "proxy group reveals about the person’s group. The features themselves, taken together, "
        f"may reveal far more, and they are in the filtered table as they were.{more}",
        "**Rows are kept at random.** The shares are expectations: those of a small filtered "
        "table can differ by chance. Rows with equal features and the same key are kept or left "
        "out together.",
        "**It is about rows like these.** On a table from another place or time, the same proxy "
        "groups may have other shares, and nothing here would show it.",
    ]
