"""Groups in a sweep of proxies: their shares before and after, and what the proxy groups reveal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import mean
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.sections.proxy import difference_cells, shares_by_group
from evenhand.tasks.pages.texts import lack

PAGES = {"sweep": 40}
NEEDS = ("tradeoff", "balances")

MOST_SHARES, MOST_MAPS, MOST_GROUPS = 6, 3, 24
FACTS = {"before": "All rows", "target": "Target"}


def build(documents: Documents) -> list[Section]:
    """Shares of the groups at each value, and maps of the differences within proxy groups."""
    sweep, balances = documents["tradeoff"], documents["balances"]
    groups = Section("groups", "Groups before and after", _shares(sweep, balances))
    return [groups, Section("reveals", "What proxy groups reveal", _maps(sweep, balances))]


def _mean_shares(balances: list[Json]) -> dict[str, dict[str, Json]]:
    """Mean shares over the seeds by attribute and group; one that any seed hides stays hidden."""
    seeds: dict[str, dict[str, list[Json]]] = {}
    for balance in balances:
        for attribute, rows in shares_by_group(balance).items():
            for row in rows:
                seeds.setdefault(attribute, {}).setdefault(row["group"], []).append(row)

    def mean_of(rows: list[Json]) -> Json:
        columns = {key: [row[key] for row in rows] for key in ("before", "after", "target")}
        return {key: None if None in found else mean(found) for key, found in columns.items()}

    return {name: {group: mean_of(rows) for group, rows in own.items()} for name, own in seeds.items()}


def _shares(sweep: Json, balances: list[Json]) -> list[Block]:
    values = sorted({point["value"] for point in balances})
    chosen = formats.evenly(values, MOST_SHARES)
    found = {i: _mean_shares([point["balance"] for point in balances if point["value"] == i]) for i in chosen}
    seeds = "; the shares are means over the seeds" if len(sweep["seeds"]) > 1 else ""
    some = f", of which {len(chosen)} are shown, evenly chosen" if len(chosen) < len(values) else ""
    blocks: list[Block] = [
        "Expected shares of the groups among the held-out rows, and among those of them that are kept, at "
        f"each value{some}{seeds}."
    ]
    for attribute in dict.fromkeys(attribute for shares in found.values() for attribute in shares):
        own = {i: shares[attribute] for i, shares in found.items() if attribute in shares}
        by_value = {sweep["values"][i]["label"]: shares for i, shares in own.items()}
        groups = list(dict.fromkeys(group for shares in by_value.values() for group in shares))
        rows = []
        for label, shares in by_value.items():
            shown = [group for group in groups if group in shares]
            rows += [{"column": label, "group": group, **shares[group]} for group in shown]
        about = spoken(attribute)
        text = f"Shares by {about} before and after, value by value"
        described = f"{len(groups)} groups by {len(by_value)} values."
        chart = Chart("groups.group_shares", {"rows": rows}, text, described)
        blocks += [Heading(f"By {about}"), chart, _share_table(about, groups, by_value)]
    return blocks


def _share_table(about: str, groups: list[str], by_value: Mapping[str, Mapping[str, Json]]) -> Table:
    """Shares of the kept rows; what is the same at all values has a column of its own."""
    found = [item for shares in by_value.values() for item in shares.items()]
    common = {}
    for key, text in FACTS.items():
        shown = {(group, formats.percent(shares[key])) for group, shares in found}
        if len(shown) == len({group for group, _ in shown}):
            common[key] = text
    rows: list[list[Any]] = []
    for group in groups:
        known = [shares[group] for shares in by_value.values() if group in shares]
        cells: list[Any] = [group, *(formats.percent(known[0][key]) for key in common)]
        for own in (shares.get(group, {}) for shares in by_value.values()):
            facts = [f"{FACTS[k]}: {formats.percent(own[k])}" for k in own if k in FACTS and k not in common]
            kept = formats.percent(own["after"]) if own else ""
            cells.append(Cell(kept, tuple(facts)) if own else lack("no such group"))
        rows.append(cells)
    caption = f"Shares by {about} among the kept rows"
    return Table(caption, ["Group", *common.values(), *by_value], rows)


def _maps(sweep: Json, balances: list[Json]) -> list[Block]:
    """Maps of at most three values, each of its first seed, in the same colours."""
    first: dict[int, Json] = {}
    for point in sorted(balances, key=lambda point: (point["value"], int(point["seed"]))):
        first.setdefault(point["value"], point)
    several = [point for point in first.values() if len(point["balance"]["masses"]) > 1]
    maps = [(point, difference_cells(point["balance"])) for point in formats.evenly(several, MOST_MAPS)]
    every = [abs(cell["value"]) for _, cells in maps for cell in cells if cell["value"] is not None]
    blocks: list[Block] = [
        "Each cell is the share of a group within a proxy group less its share among all rows, in percentage "
        "points, on the held-out rows of one run. Blue is below, orange above, in the same colours for every "
        "value; a dash stands where there are too few rows. At most three values are drawn; one with a "
        "single proxy group reveals nothing and is left out."
    ]
    for point, cells in maps:
        name, count = sweep["values"][point["value"]]["name"], len(point["balance"]["masses"])
        said = f"{name}, seed {point['seed']}: {formats.plural(count, 'proxy group')}"
        said += f", of which the largest {MOST_GROUPS} are drawn." if count > MOST_GROUPS else "."
        known = [(abs(cell["value"]), cell["row"]) for cell in cells if cell["value"] is not None]
        if known:
            most, group = max(known)
            said += f" The largest difference is {formats.points(most)}, of “{group}”."
        rows = [cell for cell in cells if int(cell["column"]) <= MOST_GROUPS]
        data = {"rows": rows, "x_title": "proxy group", "strongest": max(every, default=0.0)}
        title = f"Differences of group shares within each proxy group at {name}"
        blocks.append(Chart("groups.heat_map", data, title, said, said))
    return blocks if maps else []
