"""Groups in a sweep of proxies: their shares before and after, and what the proxy groups reveal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import evenly
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.sections.proxy import share_differences

PAGES = {"sweep": 40}
NEEDS = ("tradeoff", "balances")

MOST_SHARES, MOST_MAPS, MOST_GROUPS = 6, 3, 24
FACTS = {"before": "All rows", "target": "Target"}


def build(documents: Documents) -> list[Section]:
    """Shares of the groups at each value, and maps of the differences within proxy groups."""
    sweep, balances = documents["tradeoff"], documents["balances"]
    sections = [Section("groups", "Groups before and after", _shares(sweep, balances))]
    maps = _maps(sweep, balances)
    return [*sections, *([Section("reveals", "What proxy groups reveal", maps)] if maps else [])]


def _mean_shares(balances: Sequence[Json]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Mean shares over the seeds by attribute and group; one that any seed hides stays hidden."""
    seeds: dict[tuple[str, str], list[Sequence[float | None]]] = {}
    for balance in balances:
        names = [(attribute, group) for attribute, found in balance["attributes"].items() for group in found]
        rows = zip(balance["shares_before"], balance["shares_after"], balance["target"], strict=True)
        for name, row in zip(names, rows, strict=True):
            seeds.setdefault(name, []).append(row)
    shares: dict[str, dict[str, dict[str, float | None]]] = {}
    for (attribute, group), found in seeds.items():
        columns = zip(("before", "after", "target"), zip(*found, strict=True), strict=True)
        shares.setdefault(attribute, {})[group] = {
            name: None if None in column else sum(column) / len(column) for name, column in columns
        }
    return shares


def _values(balances: Sequence[Json]) -> list[int]:
    return sorted({point["value"] for point in balances})


def _shares(sweep: Json, balances: Sequence[Json]) -> list[Block]:
    chosen = evenly(_values(balances), MOST_SHARES)
    found = {i: _mean_shares([point["balance"] for point in balances if point["value"] == i]) for i in chosen}
    seeds = "; the shares are means over the seeds" if len(sweep["seeds"]) > 1 else ""
    some = (
        f", of which {len(chosen)} are shown, evenly chosen" if len(chosen) < len(_values(balances)) else ""
    )
    blocks: list[Block] = [
        "Expected shares of the groups among the held-out rows, and among those of them that are kept, at "
        f"each value{some}{seeds}."
    ]
    for attribute in dict.fromkeys(attribute for shares in found.values() for attribute in shares):
        by_value = {
            sweep["values"][i]["label"]: shares[attribute]
            for i, shares in found.items()
            if attribute in shares
        }
        groups = list(dict.fromkeys(group for shares in by_value.values() for group in shares))
        rows = [
            {"column": label, "group": group, **shares[group]}
            for label, shares in by_value.items()
            for group in groups
            if group in shares
        ]
        about = spoken(attribute)
        text = f"Shares by {about} before and after, value by value"
        described = f"{len(groups)} groups by {len(by_value)} values. The table below has every number."
        blocks += [
            Heading(f"By {about}"),
            Chart("groups.group_shares", {"rows": rows}, text, described),
            _share_table(about, groups, by_value),
        ]
    return blocks


def _share_table(about: str, groups: Sequence[str], by_value: Mapping[str, Mapping[str, Json]]) -> Table:
    """Shares of the kept rows; what is the same at all values has a column of its own."""
    common = {key: text for key, text in FACTS.items() if _is_common(key, by_value)}
    rows: list[list[Any]] = []
    for group in groups:
        known = next(shares[group] for shares in by_value.values() if group in shares)
        cells: list[Any] = [group, *(formats.percent(known[key]) for key in common)]
        for shares in by_value.values():
            if group not in shares:
                cells.append(Cell("no such group", kind="lack"))
                continue
            own = [
                f"{FACTS[key]}: {formats.percent(shares[group][key])}" for key in FACTS if key not in common
            ]
            cells.append(Cell(formats.percent(shares[group]["after"]), tuple(own)))
        rows.append(cells)
    caption = f"Shares by {about} among the kept rows"
    return Table(caption, ["Group", *common.values(), *by_value], rows)


def _is_common(key: str, by_value: Mapping[str, Mapping[str, Json]]) -> bool:
    found = [item for shares in by_value.values() for item in shares.items()]
    shown = [(group, formats.percent(shares[key])) for group, shares in found]
    return len(set(shown)) == len({group for group, _ in shown})


def _maps(sweep: Json, balances: Sequence[Json]) -> list[Block]:
    """Maps of at most three values, each of its first seed, in the same colours."""
    first: dict[int, Json] = {}
    for point in sorted(balances, key=lambda point: int(point["seed"])):
        first.setdefault(point["value"], point)
    several = [value for value in _values(balances) if len(first[value]["balance"]["masses"]) > 1]
    chosen = [first[value] for value in evenly(several, MOST_MAPS)]
    tables = [_differences(point["balance"]) for point in chosen]
    strongest = max(
        (abs(v) for table in tables for line in table for v in line if v is not None), default=0.0
    )
    blocks: list[Block] = [
        "Each cell is the share of a group within a proxy group less its share among all rows, in percentage "
        "points, on the held-out rows of one run. Blue is below, orange above, in the same colours for every "
        "value; a dash stands where there are too few rows. At most three values are drawn; one with a "
        "single proxy group reveals nothing and is left out."
    ]
    for point, table in zip(chosen, tables, strict=True):
        blocks.append(_map(sweep["values"][point["value"]]["name"], point, table, strongest))
    return blocks if chosen else []


def _differences(balance: Json) -> list[list[float | None]]:
    """A list for each group, over the proxy groups from the largest on."""
    order = sorted(range(len(balance["masses"])), key=lambda j: -balance["masses"][j])
    found = share_differences(balance["compositions"], balance["base_rates"])
    return [[found[j][k] for j in order] for k in range(len(balance["groups"]))]


def _map(name: str, point: Json, table: Sequence[Sequence[float | None]], strongest: float) -> Chart:
    balance, count = point["balance"], len(point["balance"]["masses"])
    shown, alone = min(count, MOST_GROUPS), len(balance["attributes"]) == 1
    groups = next(iter(balance["attributes"].values())) if alone else balance["groups"]
    said = f"{name}, seed {point['seed']}: {formats.plural(count, 'proxy group')}"
    said += f", of which the largest {shown} are drawn." if shown < count else "."
    known = [
        (abs(value), group)
        for group, line in zip(groups, table, strict=True)
        for value in line
        if value is not None
    ]
    if known:
        most, group = max(known)
        said += f" The largest difference is {formats.points(most)}, of “{group}”."
    rows = [
        {"column": str(place), "row": group, "value": value}
        for group, line in zip(groups, table, strict=True)
        for place, value in enumerate(line[:shown], start=1)
    ]
    data = {"rows": rows, "x_title": "proxy group", "strongest": strongest}
    return Chart(
        "groups.heat_map", data, f"Differences of group shares within each proxy group at {name}", said, said
    )
