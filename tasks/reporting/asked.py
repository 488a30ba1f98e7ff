"""Sections on an agent that asks each person for some features: what, of whom, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.asked_parts import both, compared, how_many, in_which_order
from evenhand.tasks.reporting.asked_plots import Question, question_plot
from evenhand.tasks.reporting.asked_whom import MOST_PARTS, SPLIT, depends, of_whom, parts
from evenhand.tasks.reporting.asked_words import asked_sentences, guessed, named

__all__ = ["asked_sections"]

Json = Mapping[str, Any]

# More columns cannot be read; the table has every feature.
MOST_QUESTIONS = 24
# Split bars whose parts are listed in words.
MOST_LISTED = 2


def asked_sections(acquisition: Json | None, evaluation: Json) -> list[dict[str, Any]]:
    """
    Write the report's sections on what a model asks.

    Parameters
    ----------
    acquisition : mapping or None
        Content of ``acquisition.json``. None where the model asks nothing: then there is no section.
    evaluation : mapping
        Content of ``metrics.json``.

    Returns
    -------
    list of dict
        Plain JSON, each a :class:`evenhand.tasks.reporting.context.Section`.
    """
    if acquisition is None:
        return []
    settings = evaluation["settings"]
    interval = f"{100 * settings['level']:g}% interval"
    shown = _without_small_cells(acquisition, settings["min_cell"])
    return [
        _what_it_asks(shown, interval),
        *depends(shown),
        *of_whom(shown, settings["min_cell"]),
        how_many(shown),
        in_which_order(shown),
        *compared(shown, evaluation, interval),
    ]


def _without_small_cells(acquisition: Json, least: int) -> dict[str, Any]:
    """The same, without shares of sensitive groups that have too few rows."""

    def cell(found: Json | None) -> Json | None:
        enough = found is not None and found["share"] is not None and found["rows"] >= least
        return found if enough else None

    groups = [
        group
        | {
            "by_group": {
                attribute: {value: cell(found) for value, found in values.items()}
                for attribute, values in group["by_group"].items()
            }
        }
        for group in acquisition["groups"]
    ]
    return {**acquisition, "groups": groups}


def _what_it_asks(acquisition: Json, interval: str) -> dict[str, Any]:
    ranked = sorted(acquisition["groups"], key=lambda group: -(group["share"] or 0.0))
    allowed = [group for group in ranked if group["allowed"]]
    drawn = allowed[:MOST_QUESTIONS]
    about = guessed(acquisition)
    section: dict[str, Any] = {
        "title": "What it asks, and of whom",
        "html_safe_paragraphs": asked_sentences(acquisition, interval),
        "table": {
            "caption": "Every feature, those asked most often first; AUCs are from that feature alone",
            "columns": [
                "Feature",
                f"Share asked ({interval})",
                "Mean place",
                "Asked first",
                "AUC of outcome",
                f"AUC of {about}",
            ],
            "rows": [
                [
                    group["name"],
                    _share(group),
                    formats.number(group["mean_position"])
                    if group["mean_position"] is not None
                    else "never asked",
                    formats.percent(group["first_share"]),
                    group["classifier_auc"],
                    group["adversary_auc"],
                ]
                for group in ranked
            ]
            + [[item.name, *["\u2013"] * 3, item.label_auc, item.group_auc] for item in _totals(acquisition)],
        },
    }
    if not drawn:
        return section
    section["html_safe_paragraphs"].append(_how_to_read(acquisition, drawn, len(allowed)))
    most = ", ".join(f"{group['name']} {formats.percent(group['share'])}" for group in drawn[:6])
    return section | both(
        question_plot,
        "asked",
        questions=[*map(_question, drawn), *_totals(acquisition)],
        about=about,
        title="What each feature tells, and how often it is asked",
        description=f"{formats.plural(len(drawn), 'feature')}, by falling share of people asked: {most}"
        f"{' and so on' if len(drawn) > 6 else ''}. The table below has every number.",
    )


def _share(group: Json) -> str:
    if not group["allowed"]:
        return "may not be asked"
    shown = formats.percent(group["share"])
    if group["low"] is None or group["high"] is None:
        return shown
    return f"{shown} ({formats.percent(group['low'])} to {formats.percent(group['high'])})"


def _question(group: Json) -> Question:
    return Question(
        group["name"],
        group["share"],
        group["low"],
        group["high"],
        group["classifier_auc"],
        group["adversary_auc"],
        parts(group),
    )


def _totals(acquisition: Json) -> list[Question]:
    """What is asked and all features, as two columns more, where their AUCs are known."""
    found = []
    for name, key in (("what is asked", "acquired"), ("all features", "all")):
        aucs = acquisition["auc"].get(key) or {}
        label, group = aucs.get("classifier_auc"), aucs.get("adversary_auc")
        if label is not None or group is not None:
            found.append(Question(name, None, label_auc=label, group_auc=group))
    return found


def _how_to_read(acquisition: Json, drawn: Sequence[Json], allowed: int) -> str:
    text = ""
    if _totals(acquisition):
        text = (
            "The picture’s upper part shows how well each feature alone tells the outcome and a person’s "
            f"{named([guessed(acquisition)])}, as AUCs on training rows that were set aside. The lower part "
            "shows which share of the test rows is asked for it. "
        )
    else:
        text = "The picture shows which share of the test rows is asked for each feature. "
    split = [group for group in drawn if parts(group)]
    if split:
        text += (
            f"Where the share differs by {SPLIT:.0%} or more with another answer, the bar is split by it, "
            f"into at most {MOST_PARTS} of its categories{_listed(split)}. The line across is the share of "
            "all people. "
        )
    if allowed > len(drawn):
        text += f"It has the {len(drawn)} features that are asked most; the table has all. "
    return text.rstrip()


def _listed(split: Sequence[Json]) -> str:
    """Name the parts of the bars, unless they are many: the table has all."""
    if len(split) > MOST_LISTED:
        return "; which bar is which stands in the table of what the questions depend on"
    listed = [
        f"{named([group['name']])} by {named([group['varies_with']['feature']])} "
        f"({named([name for name, _ in parts(group)])})"
        for group in split
    ]
    return f", from left to right: {formats.join(listed)}"
