"""The selector of FAIAS: how likely it selects each feature, and which it found to reveal the
attribute.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Chart, Documents, Json, Section, Table

PAGES = {"run": 100}
NEEDS = ("selection",)

# A chart with more bars cannot be read; the table has every feature.
MOST_BARS = 30
# Features that a sentence names; below this probability one is left out more often than used.
MOST_NAMED = 3
SELDOM = 0.5
CAUTION = (
    "This is what the selector found on the training rows for its own objective; it is not a "
    "proof. A feature may have a low probability because it helps little to predict, or a high "
    "one although it reveals the attribute together with other features. Another training may "
    "rank the features differently."
)
COLUMNS = {"Mean": "mean", "Standard deviation": "sd"}
COLUMNS |= {"Lower quartile": "q1", "Median": "median", "Upper quartile": "q3"}


def build(documents: Documents) -> Section:
    """Every feature by rising selection probability, the lowest named."""
    selection = documents["selection"]
    about = formats.join([spoken(name) for name in selection["attributes"]])
    ranked = sorted(selection["groups"], key=lambda group: group["mean"] or 0.0)
    ranked.sort(key=lambda group: (group["mean"] is None, not group["sensitive"]))
    rows = formats.plural(selection["rows"], "test row")
    means = "The probabilities are the same for everybody."
    if selection["data_dependent"]:
        means = (
            f"The probability depends on the person: bars are means over {rows}, whiskers the "
            "quartiles."
        )
    lead = (
        "A selector was trained against the model to select features that do not reveal a person’s "
        f"{about}. The lower the selection probability of a feature, the more the selector found "
        "it to reveal. A sensitive attribute is never selected: its probability is 0 by design. "
        f"{means}"
    )
    blocks: list[Block] = [lead, *_found(ranked, about, rows), CAUTION]
    if all(group["mean"] is not None for group in ranked[:MOST_BARS]):
        blocks.append(_chart(ranked))
    blocks.append(_table(ranked, selection["data_dependent"]))
    return Section("selection", "Which features reveal the sensitive attribute", blocks)


def _chart(ranked: Sequence[Json]) -> Chart:
    """The selection probabilities of the features of lowest probability."""
    drawn = ranked[:MOST_BARS]
    caption = "The dashed line is at one half."
    if len(ranked) > len(drawn):
        caption += (
            f" The chart has the {len(drawn)} features of lowest probability; the table has all."
        )
    values = "; ".join(f"{group['name']} {formats.number(group['mean'])}" for group in drawn)
    data = {
        "rows": [_bar(group) for group in drawn],
        "x_title": "selection probability",
        "domain": [0, 1],
        "reference": SELDOM,
    }
    title = "Selection probability of each feature, the lowest first"
    return Chart("intervals.ranked_bars", data, title, f"{values}.", caption)


def _bar(group: Json) -> Json:
    """A feature's bar; a whisker where the probability is not the same for everybody."""
    if group["sensitive"]:
        return {"label": group["name"], "value": group["mean"], "text": "0, by design"}
    bar = {
        "label": group["name"],
        "value": group["mean"],
        "text": formats.number(group["mean"]),
    }
    if group["q1"] != group["q3"]:
        bar["low"] = group["q1"]
        bar["high"] = group["q3"]
    return bar


def _table(ranked: Sequence[Json], data_dependent: bool) -> Table:
    columns = {"Selection probability": "mean"}
    if data_dependent:
        columns = COLUMNS
    rows = []
    for group in ranked:
        name = group["name"]
        if group["sensitive"]:
            name += " (sensitive)"
        rows.append([name, *(group[key] for key in columns.values())])
    caption = "Selection probability of every feature, the lowest first"
    return Table(caption, ["Feature", *columns], rows)


def _found(ranked: Sequence[Json], about: str, rows: str) -> list[str]:
    free = [group for group in ranked if not group["sensitive"]]
    if any(group["mean"] is None for group in free):
        return [f"There are too few people to say more: {rows}."]
    seldom = [group for group in free if group["mean"] < SELDOM][:MOST_NAMED]
    if not seldom:
        return ["Every feature is selected at least as often as not."] if free else []
    listed = [f"**{group['name']}** ({formats.number(group['mean'])})" for group in seldom]
    return [f"Found to reveal most about {about}: {formats.join(listed)}."]
