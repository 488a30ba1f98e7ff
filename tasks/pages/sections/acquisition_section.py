"""What feature-acquiring models ask: which features, of whom, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Chart, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name, known, lack, metric_cell

PAGES = {"run": 80}
NEEDS = ("acquisition", "metrics")

# A chart with more features cannot be read; the table has every feature.
MOST_FEATURES = 24
# Shares of nearly everybody and of hardly anybody, and a difference between people that the text
# names.
ALWAYS = 0.95
NEVER = 0.05
NOTABLE = 0.1
AUCS = ("classifier_auc", "adversary_auc")
CRITERIA = {
    "demographic_parity": " (demographic parity: among all people)",
    "equal_opportunity": " (equal opportunity: among people with the positive outcome)",
    "equalized_odds": " (equalized odds: among people of either outcome)",
}


def build(documents: Documents) -> list[Section]:
    """Which features and at which place, of whom, how many, and what all features would give."""
    acquisition = documents["acquisition"]
    metrics = documents["metrics"]
    groups = acquisition["groups"]
    settings = metrics["settings"]
    interval = interval_name(settings)
    least = settings["min_cell"]
    about = formats.join([spoken(name) for name in acquisition["attributes"]])
    allowed = [group for group in groups if group["allowed"]]
    which = _sentences(acquisition, allowed, f"a person’s {about}", settings)
    which += _features(acquisition, about, interval)
    return [
        Section("asked", "Which features it asks for", which),
        Section("asked-of", "Of whom it asks", _by_group(allowed, least)),
        Section("amount", "How much it asks", _amount(acquisition["asked"]["histogram"])),
        Section(
            "all-features",
            "Compared with all features",
            _all_features(acquisition, metrics, interval),
        ),
    ]


def _names(groups: Sequence[Json]) -> str:
    return formats.shortlist([group["name"] for group in groups])


def _shown(cell: Json | None, least: int) -> float | None:
    """Share of a sensitive group; None where it has too few rows."""
    return None if cell is None or cell["rows"] < least else cell["share"]


def _sentences(
    acquisition: Json, allowed: Sequence[Json], about: str, settings: Json
) -> list[Block]:
    asked = acquisition["asked"]
    may = formats.plural(len(allowed), "feature")
    amount = f"It may ask for {may}; the test rows are too few to say more."
    if asked["mean"] == 0:
        amount = (
            f"Of {may} that it may ask for, it asks nobody for **any**: all get the same "
            "prediction."
        )
    elif asked["mean"] is not None:
        ends = formats.interval(asked["low"], asked["high"])
        amount = (
            f"Of {may} that it may ask for, it asks a person for "
            f"**{formats.number(asked['mean'])}** on average ({interval_name(settings)}: {ends}), "
            "one after another. Each answer decides what is asked next, and when to stop."
        )
    amount += (
        f" Its trade-off gamma is {acquisition['gamma']:g}: at 1 it asks for whatever helps to "
        "predict, at 0 "
        f"only for what does not reveal {about}{CRITERIA.get(acquisition['criterion'], '')}."
    )
    texts: list[Block] = [amount]
    parts = [acquisition["auc"].get(name) or {} for name in ("acquired", "all")]
    outcome, adversary = ([formats.number(part.get(key)) for part in parts] for key in AUCS)
    if formats.MISSING not in adversary:
        texts.append(
            f"A second network, the adversary, predicts {about} from the known features. Its AUC "
            f"is **{adversary[0]}** from the asked features and **{adversary[1]}** from all "
            f"features; random guessing gives 0.5. The AUC of the outcome is {outcome[0]} and "
            f"{outcome[1]}."
        )
    if asked["mean"] == 0:
        return texts
    always = [group for group in allowed if group["share"] >= ALWAYS]
    never = [group for group in allowed if group["share"] <= NEVER]
    said = [f"It asks at least {ALWAYS:.0%} of people for {_names(always)}."] if always else []
    said += _difference(allowed, settings["min_cell"])
    said += [f"It asks at most {NEVER:.0%} of people for {_names(never)}."] if never else []
    closed = [group for group in acquisition["groups"] if not group["allowed"]]
    if closed:
        said.append(
            f"It may not ask for {_names(closed)}: sensitive, or of one value in the training rows."
        )
    return [*texts, *([" ".join(said)] if said else [])]


def _difference(allowed: Sequence[Json], least: int) -> list[str]:
    """Between which groups the share who are asked for a feature differs most, if it is notable."""
    found = [(0.0, "")]
    for group in allowed:
        for attribute, cells in group["by_group"].items():
            shares = {value: _shown(cell, least) for value, cell in cells.items()}
            ranked = sorted((share, value) for value, share in shares.items() if share is not None)
            if ranked:
                (low, fewest), (high, most) = ranked[0], ranked[-1]
                ends = (
                    f"{formats.percent(high)} of “{most}” and {formats.percent(low)} of “{fewest}”"
                )
                by = f"By {spoken(attribute)} the share differs most for {group['name']}"
                found.append((high - low, f"{by}: {ends} are asked."))
    widest, text = max(found, key=lambda pair: pair[0])
    return [text] if widest >= NOTABLE else []


def _features(acquisition: Json, about: str, interval: str) -> list[Block]:
    """The chart of the features that are asked most, and the table of all."""
    ranked = sorted(acquisition["groups"], key=lambda group: -(group["share"] or 0.0))
    allowed = [group for group in ranked if group["allowed"]]
    drawn = allowed[:MOST_FEATURES]
    named = {"asked features": "acquired", "all features": "all"}
    sets = [{"name": name, **(acquisition["auc"].get(key) or {})} for name, key in named.items()]
    sets = [found for found in sets if any(found.get(key) is not None for key in AUCS)]
    rows: list[list[Any]] = []
    for group in ranked:
        share = lack("may not be asked")
        if group["allowed"]:
            ends = f"{formats.percent(group['low'])} to {formats.percent(group['high'])}"
            share = Cell(formats.percent(group["share"]), (ends,))
        place = "–" if group["mean_position"] is None else f"{group['mean_position']:.1f}"
        rows.append(
            [group["name"], share, place, formats.percent(group["first_share"]), *_aucs(group)]
        )
    rows += [[found["name"], *["–"] * 3, *_aucs(found)] for found in sets]
    heads = [
        "Feature",
        f"Asked ({interval})",
        "Mean place",
        "Asked first",
        "AUC: outcome",
        f"AUC: {about}",
    ]
    caption = "Every feature, those asked most often first; the AUCs are of that feature alone"
    table = Table(caption, heads, rows)
    if not drawn:
        return [table]
    keys = ("name", "share", "low", "high", *AUCS)
    data = [{key: group[key] for key in keys} for group in drawn]
    text = "The chart shows the share of the test rows that are asked for each feature."
    if sets:
        text += (
            " Above it is how well the feature alone predicts the outcome and a person’s "
            f"{about}, as AUCs on training rows that were set aside."
        )
    if len(allowed) > len(drawn):
        text += f" It has the {len(drawn)} features that are asked most; the table has all."
    most = ", ".join(f"{group['name']} {formats.percent(group['share'])}" for group in drawn[:6])
    described = f"The features that are asked most: {most}."
    caption = "What each feature reveals, and how often it is asked"
    chart = Chart(
        "intervals.asked_features", {"rows": [*data, *sets], "predicted": about}, caption, described
    )
    return [text, chart, table]


def _aucs(found: Json) -> list[str | float]:
    return ["–" if found.get(key) is None else found[key] for key in AUCS]


def _by_group(allowed: Sequence[Json], least: int) -> list[Block]:
    if not allowed:
        return []
    values = [(name, value) for name, found in allowed[0]["by_group"].items() for value in found]
    rows: list[list[Any]] = []
    for group in allowed:
        labels = [formats.percent(group["by_label"][label]) for label in ("0", "1")]
        shares = (_shown(group["by_group"][name][value], least) for name, value in values)
        rows.append(
            [
                group["name"],
                *labels,
                *(known(share, formats.percent, "too few") for share in shares),
            ]
        )
    caption = (
        f"Share of people asked for each feature; of fewer than {least} rows no share is shown"
    )
    heads = [f"{spoken(name)}: {value}" for name, value in values]
    return [
        "The share of people with either true label, and of each group, who are asked for each "
        "feature.",
        Table(caption, ["Feature", "Negative label", "Positive label", *heads], rows),
    ]


def _amount(counts: Sequence[int]) -> list[Block]:
    shares = [formats.percent(n / max(sum(counts), 1)) for n in counts]
    most = max(range(len(counts)), key=counts.__getitem__)
    said = (
        f"Most often it asks a person for {formats.plural(most, 'feature')}: {shares[most]} of "
        "people."
    )
    rows = [(str(i), n, share) for i, (n, share) in enumerate(zip(counts, shares, strict=True))]
    caption = "People by the number of features that they are asked for"
    table = Table(caption, [title("features_asked"), "People", "Share"], rows, folded=True)
    edges = [i - 0.5 for i in range(len(counts) + 1)]
    data = {
        "edges": edges,
        "counts": counts,
        "shares": True,
        "x_title": "features asked of a person",
    }
    data["y_title"] = "share of people"
    chart = Chart("group_charts.histogram", data, "Features asked of a person", said, table=table)
    return [said, chart]


def _all_features(acquisition: Json, metrics: Json, interval: str) -> list[Block]:
    """Every metric known both from the asked features and from all; no intersections."""
    rows: list[list[Any]] = []
    changes = []
    for name, value in acquisition["full_information"].items():
        found = metrics["metrics"].get(name)
        if "&" in name or value is None or found is None or found["value"] is None:
            continue
        difference = formats.signed(found["value"] - value)
        way = direction(name) or "not stated"
        rows.append([metric_cell(name), estimate_cell(found), value, difference, way])
        if name in ("auc", f"demographic_parity_difference.{acquisition['attributes'][0]}"):
            instead = f"{formats.number(value)} instead of {formats.number(found['value'])}"
            changes.append(f"{title(name)} {instead}")
    said = f" From all of them: {formats.join(changes)}." if len(changes) > 1 else ""
    text = (
        "The same model on the same rows, from the features that it asks for and from all "
        f"features that it may ask for.{said}"
    )
    columns = ["Metric", f"Asked features ({interval})", "All features", "Difference", "Better"]
    return (
        [text, Table("From the asked features, and from all features", columns, rows)]
        if rows
        else []
    )
