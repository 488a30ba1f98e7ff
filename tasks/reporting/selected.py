"""The section on a selector of features: which of them it found to tell the sensitive attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import draw, formats, words
from evenhand.tasks.reporting.asked_parts import both
from evenhand.tasks.reporting.asked_words import named
from evenhand.tasks.reporting.bars import Bar, bar_plot

__all__ = ["selection_sections", "telling"]

Json = Mapping[str, Any]

# More bars cannot be read; the table has every feature.
MOST_BARS = 30
# Below this a feature is left out more often than used, and so far below the next it stands apart.
SELDOM, APART = 0.5, 0.1


def selection_sections(selection: Json | None) -> list[dict[str, Any]]:
    """
    Write the report's section on what a selector leaves out.

    Parameters
    ----------
    selection : mapping or None
        Content of ``selection.json``. None where the method has no selector: then there is no section.

    Returns
    -------
    list of dict
        Plain JSON, each a :class:`evenhand.tasks.reporting.context.Section`.
    """
    if selection is None:
        return []
    about = named([words.attribute(name) for name in selection["attributes"]])
    ranked = sorted(
        selection["groups"],
        key=lambda group: (group["mean"] is None, not group["sensitive"], group["mean"] or 0.0),
    )
    section: dict[str, Any] = {
        "title": "What tells the sensitive attribute",
        "html_safe_paragraphs": [_how_it_works(selection, about), *_found(selection, ranked, about), CAUTION],
        "table": _table(selection, ranked),
    }
    drawn = ranked[:MOST_BARS]
    if any(group["mean"] is None for group in drawn):
        return [section]
    rest = ""
    if len(ranked) > len(drawn):
        rest = f" It has the {len(drawn)} features of lowest probability; the table has all."
    section["html_safe_paragraphs"].append(f"The dashed line in the picture is at one half.{rest}")
    spoken = "; ".join(f"{group['name']} {formats.number(group['mean'])}" for group in drawn)
    return [
        section
        | both(
            bar_plot,
            "selected",
            bars=[_bar(group) for group in drawn],
            marks=draw.ticks(0.0, 1.0),
            reference=SELDOM,
            title="Selection probability of each feature, the lowest first",
            description=f"{spoken}. The table below has every number.",
        )
    ]


CAUTION = (
    "This is what the selector found on the training rows, by what it was trained for; it is no proof. A "
    "feature may have a low probability because it helps little, or a high one although together with others "
    "it tells the attribute, and another training may rank them otherwise."
)


def _how_it_works(selection: Json, about: str) -> str:
    text = (
        f"A selector was trained, against the model, to select features that do not tell a person’s {about}. "
        "The selection probability of a feature says how likely it is selected: the lower, the more the "
        "selector took it to tell. What is sensitive itself is never selected: 0 by design. "
    )
    if selection["data_dependent"]:
        rows = formats.plural(selection["rows"], "test row")
        return text + (
            f"The probability depends on the person: bars are means over {rows}, and whiskers reach from the "
            "lower to the upper quartile."
        )
    return text + "The probabilities are the same for everybody."


def telling(groups: Sequence[Json]) -> list[Json]:
    """
    Find the features whose probability is well below that of the others.

    Of all gaps between neighbours in the ranking whose lower end is below one half, the widest parts them
    from the others, if it is at least 0.1.

    Parameters
    ----------
    groups : sequence of mapping
        Entries of ``selection.json`` with a mean.

    Returns
    -------
    list of mapping
        By rising probability; without the sensitive attributes, and empty where none stands apart.
    """
    ranked = sorted((group for group in groups if not group["sensitive"]), key=lambda group: group["mean"])
    means = [group["mean"] for group in ranked]
    gaps = [
        (after - before, i)
        for i, (before, after) in enumerate(zip(means, means[1:], strict=False), start=1)
        if before < SELDOM
    ]
    widest, place = max(gaps, default=(0.0, 0))
    return ranked[:place] if widest >= APART else []


def _found(selection: Json, ranked: Sequence[Json], about: str) -> list[str]:
    """Name what stands apart, or say that nothing does."""
    free = [group for group in ranked if not group["sensitive"]]
    if not free:
        return []
    if any(group["mean"] is None for group in free):
        rows = formats.plural(selection["rows"], "test row")
        return [f"There are too few people to say more: {rows}."]
    found = telling(free)
    if found:
        ends = [formats.number(group["mean"]) for group in (found[0], found[-1])]
        reach = ends[0] if len(found) == 1 else f"{ends[0]} to {ends[1]}"
        return [
            f"Found most relevant to {about}: <strong>{named([group['name'] for group in found])}</strong>, "
            f"with a probability of {reach}; the next has {formats.number(free[len(found)]['mean'])}."
        ]
    least, most = free[0], free[-1]
    return [
        f"No feature stands apart from the others: probabilities go from {formats.number(least['mean'])} "
        f"({named([least['name']])}) to {formats.number(most['mean'])} ({named([most['name']])})."
    ]


def _bar(group: Json) -> Bar:
    mean, low, high = group["mean"], group["q1"], group["q3"]
    if group["sensitive"]:
        return Bar(group["name"], mean, "0, by design", bold=True)
    # no whisker where everybody has the same
    ends = (None, None) if low is None or low == high else (low, high)
    return Bar(group["name"], mean, formats.number(mean), *ends)


def _table(selection: Json, ranked: Sequence[Json]) -> dict[str, Any]:
    keys = {"Mean": "mean"}
    if selection["data_dependent"]:
        keys = {
            "Mean": "mean",
            "Standard deviation": "sd",
            "Lower quartile": "q1",
            "Median": "median",
            "Upper quartile": "q3",
        }
    heads = [*keys] if selection["data_dependent"] else ["Selection probability"]
    return {
        "caption": "Selection probability of every feature, the lowest first",
        "columns": ["Feature", *heads],
        "rows": [
            [
                f"{group['name']} (sensitive)" if group["sensitive"] else group["name"],
                *(group[key] for key in keys.values()),
            ]
            for group in ranked
        ],
    }
