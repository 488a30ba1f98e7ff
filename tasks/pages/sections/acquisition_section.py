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
    if cell is None or cell["rows"] < least:
        return None
    share: float | None = cell["share"]
    return share


def _sentences(
    acquisition: Json, allowed: Sequence[Json], about: str, settings: Json
) -> list[Block]:
    asked_amounts = acquisition["asked"]
    amount = _asked_amount(asked_amounts, len(allowed), settings)
    amount += (
        f" Its trade-off gamma is {acquisition['gamma']:g}: at 1 it asks for whatever helps to "
        f"predict, at 0 only for what does not reveal {about}"
        f"{CRITERIA.get(acquisition['criterion'], '')}."
    )
    texts: list[Block] = [amount]
    adversary = _auc_texts(acquisition, "adversary_auc")
    outcome = _auc_texts(acquisition, "classifier_auc")
    if formats.MISSING not in adversary:
        texts.append(
            f"A second network, the adversary, predicts {about} from the known features. Its AUC "
            f"is **{adversary[0]}** from the asked features and **{adversary[1]}** from all "
            f"features; random guessing gives 0.5. The AUC of the outcome is {outcome[0]} and "
            f"{outcome[1]}."
        )
    if asked_amounts["mean"] == 0:
        return texts
    sentences = _asked_features(acquisition["groups"], allowed, settings["min_cell"])
    if sentences:
        texts.append(" ".join(sentences))
    return texts


def _asked_amount(asked: Json, allowed: int, settings: Json) -> str:
    """Say how many features the model asks a person for."""
    may = formats.plural(allowed, "feature")
    if asked["mean"] is None:
        return f"It may ask for {may}; the test rows are too few to say more."
    if asked["mean"] == 0:
        return (
            f"Of {may} that it may ask for, it asks nobody for **any**: all get the same "
            "prediction."
        )
    ends = formats.interval(asked["low"], asked["high"])
    return (
        f"Of {may} that it may ask for, it asks a person for "
        f"**{formats.number(asked['mean'])}** on average ({interval_name(settings)}: {ends}), one "
        "after another. Each answer decides what is asked next, and when to stop."
    )


def _auc_texts(acquisition: Json, name: str) -> list[str]:
    """An AUC from the asked features, and from all."""
    from_asked = acquisition["auc"].get("acquired") or {}
    from_all = acquisition["auc"].get("all") or {}
    return [formats.number(from_asked.get(name)), formats.number(from_all.get(name))]


def _asked_features(groups: Sequence[Json], allowed: Sequence[Json], least: int) -> list[str]:
    """Say which features nearly everybody and hardly anybody is asked for, and which are closed."""
    sentences = []
    always = [group for group in allowed if group["share"] >= ALWAYS]
    if always:
        sentences.append(f"It asks at least {ALWAYS:.0%} of people for {_names(always)}.")
    sentences += _difference(allowed, least)
    never = [group for group in allowed if group["share"] <= NEVER]
    if never:
        sentences.append(f"It asks at most {NEVER:.0%} of people for {_names(never)}.")
    closed = [group for group in groups if not group["allowed"]]
    if closed:
        sentences.append(
            f"It may not ask for {_names(closed)}: sensitive, or of one value in the training rows."
        )
    return sentences


def _difference(allowed: Sequence[Json], least: int) -> list[str]:
    """Between which groups the share who are asked for a feature differs most, if it is notable."""
    widest = 0.0
    sentence = ""
    for group in allowed:
        for attribute, cells in group["by_group"].items():
            shares = []
            for value, cell in cells.items():
                share = _shown(cell, least)
                if share is not None:
                    shares.append((share, value))
            if not shares:
                continue
            low, fewest = min(shares)
            high, most = max(shares)
            if high - low > widest:
                widest = high - low
                sentence = (
                    f"By {spoken(attribute)} the share differs most for {group['name']}: "
                    f"{formats.percent(high)} of “{most}” and {formats.percent(low)} of "
                    f"“{fewest}” are asked."
                )
    return [sentence] if widest >= NOTABLE else []


def _features(acquisition: Json, about: str, interval: str) -> list[Block]:
    """The chart of the features that are asked most, and the table of all."""
    ranked = sorted(acquisition["groups"], key=lambda group: -(group["share"] or 0.0))
    allowed = [group for group in ranked if group["allowed"]]
    sets = _feature_sets(acquisition)
    rows = [_feature_row(group) for group in ranked]
    rows += [[item["name"], "–", "–", "–", *_aucs(item)] for item in sets]
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
    drawn = allowed[:MOST_FEATURES]
    if not drawn:
        return [table]
    text = "The chart shows the share of the test rows that are asked for each feature."
    if sets:
        text += (
            f" Above it is how well the feature alone predicts the outcome and a person’s {about}, "
            "as AUCs on training rows that were set aside."
        )
    if len(allowed) > len(drawn):
        text += f" It has the {len(drawn)} features that are asked most; the table has all."
    return [text, _features_chart(drawn, sets, about), table]


def _feature_sets(acquisition: Json) -> list[dict[str, Any]]:
    """The asked features and all features as rows of the chart, where an AUC is known."""
    sets = []
    for name, key in (("asked features", "acquired"), ("all features", "all")):
        item = {"name": name, **(acquisition["auc"].get(key) or {})}
        if any(item.get(auc) is not None for auc in AUCS):
            sets.append(item)
    return sets


def _feature_row(group: Json) -> list[Any]:
    """A feature's row of the table: how often and how early it is asked for, and its AUCs."""
    share = lack("may not be asked")
    if group["allowed"]:
        ends = f"{formats.percent(group['low'])} to {formats.percent(group['high'])}"
        share = Cell(formats.percent(group["share"]), (ends,))
    place = "–"
    if group["mean_position"] is not None:
        place = f"{group['mean_position']:.1f}"
    first = formats.percent(group["first_share"])
    return [group["name"], share, place, first, *_aucs(group)]


def _features_chart(drawn: Sequence[Json], sets: Sequence[Json], about: str) -> Chart:
    """How often each feature is asked for, and what it reveals."""
    keys = ("name", "share", "low", "high", *AUCS)
    rows: list[Json] = []
    for group in drawn:
        rows.append({key: group[key] for key in keys})
    rows += sets
    most = ", ".join(f"{group['name']} {formats.percent(group['share'])}" for group in drawn[:6])
    return Chart(
        "intervals.asked_features",
        {"rows": rows, "predicted": about},
        "What each feature reveals, and how often it is asked",
        f"The features that are asked most: {most}.",
    )


def _aucs(item: Json) -> list[str | float]:
    values = []
    for key in AUCS:
        value = item.get(key)
        values.append("–" if value is None else value)
    return values


def _by_group(allowed: Sequence[Json], least: int) -> list[Block]:
    if not allowed:
        return []
    columns = []
    for name, cells in allowed[0]["by_group"].items():
        for value in cells:
            columns.append((name, value))
    rows: list[list[Any]] = []
    for group in allowed:
        row: list[Any] = [group["name"]]
        for label in ("0", "1"):
            row.append(formats.percent(group["by_label"][label]))
        for name, value in columns:
            share = _shown(group["by_group"][name][value], least)
            row.append(known(share, formats.percent, "too few"))
        rows.append(row)
    caption = (
        f"Share of people asked for each feature; of fewer than {least} rows no share is shown"
    )
    heads = [f"{spoken(name)}: {value}" for name, value in columns]
    return [
        "The share of people with either true label, and of each group, who are asked for each "
        "feature.",
        Table(caption, ["Feature", "Negative label", "Positive label", *heads], rows),
    ]


def _amount(counts: Sequence[int]) -> list[Block]:
    people = max(sum(counts), 1)
    shares = [formats.percent(n / people) for n in counts]
    most = max(range(len(counts)), key=counts.__getitem__)
    text = (
        f"Most often it asks a person for {formats.plural(most, 'feature')}: {shares[most]} of "
        "people."
    )
    rows = []
    for i, (n, share) in enumerate(zip(counts, shares, strict=True)):
        rows.append((str(i), n, share))
    caption = "People by the number of features that they are asked for"
    table = Table(caption, [title("features_asked"), "People", "Share"], rows, folded=True)
    data = {
        "edges": [i - 0.5 for i in range(len(counts) + 1)],
        "counts": counts,
        "shares": True,
        "x_title": "features asked of a person",
        "y_title": "share of people",
    }
    chart = Chart("group_charts.histogram", data, "Features asked of a person", text, table=table)
    return [text, chart]


def _all_features(acquisition: Json, metrics: Json, interval: str) -> list[Block]:
    """Every metric known both from the asked features and from all; no intersections."""
    metric_names = ("auc", f"demographic_parity_difference.{acquisition['attributes'][0]}")
    rows: list[list[Any]] = []
    changes = []
    for name, value in acquisition["full_information"].items():
        measured = metrics["metrics"].get(name)
        if "&" in name or value is None or measured is None or measured["value"] is None:
            continue
        difference = formats.signed(measured["value"] - value)
        way = direction(name) or "not stated"
        rows.append([metric_cell(name), estimate_cell(measured), value, difference, way])
        if name in metric_names:
            instead = f"{formats.number(value)} instead of {formats.number(measured['value'])}"
            changes.append(f"{title(name)} {instead}")
    if not rows:
        return []
    text = (
        "The same model on the same rows, from the features that it asks for and from all features "
        "that it may ask for."
    )
    if len(changes) > 1:
        text += f" From all of them: {formats.join(changes)}."
    columns = ["Metric", f"Asked features ({interval})", "All features", "Difference", "Better"]
    return [text, Table("From the asked features, and from all features", columns, rows)]
