"""What a search for a less discriminatory alternative shows, in sentences for people and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.fairlib.tuning.study import shown_chance

# A larger bound on a share says nothing.
MOST_SHARE = 0.9
NOT_HELD = (
    "no alternative is shown to be no worse on unseen rows too: more rows, or a larger tolerance, "
    "would show it"
)

NOT_ALL_SOUGHT = (
    "not all alternatives were examined for one that is no worse on unseen rows too, for lack of "
    "time or of their kept decisions"
)


def found_sentence(content: Mapping[str, Any]) -> str:
    """Say which disparity the model has, and the best alternative to it."""
    metric = content["metric"]
    value = content["champion"]["value"]
    limits = " and ".join(
        f"{item['metric']} no worse by more than {item['by']:g}" for item in content["no_worse"]
    )
    tried = f"{content['judged_models']} models judged on all folds"
    if content["alternative_gap"] == 0:
        return (
            f"alternative to {content['to']}: none found with a better {metric} than {value:.3g} "
            f"and {limits}, among {tried}"
        )
    best = content["best"]
    return (
        f"alternative to {content['to']}: number {best['number']} has {metric} {best['value']:.3g} "
        f"in place of {value:.3g}, with {limits}, among {tried}"
    )


def bound_sentences(content: Mapping[str, Any]) -> list[str]:
    """Say what further search of the space could still gain, and of how many models decisions
    depend.
    """
    sentences = [_share_sentence(content)]
    # studies of older versions lack it
    expected_gain = content.get("expected_gain_bound")
    if expected_gain and content["share_bound"] < MOST_SHARE:
        sentences.append(
            f"one further random setting would gain at most {expected_gain:.2g} of "
            f"{content['metric']} on average ({percent(content['share_level'])} confidence, for "
            "any distribution)"
        )
    if content["gain_bound"] is None:
        possible = ""
        if content.get("gain_possible") is not None:
            # studies of older versions lack it
            possible = f", at most {content['gain_possible']:.3g}, which no model can exceed"
        sentences.append(
            f"how much {content['longer']:g} times as many random settings could gain is not known"
            f"{possible}: {content['gain_reason']}"
        )
    elif content.get("gain_possible") == 0:
        sentences.append(f"no search can gain: {content['metric']} cannot be better")
    elif content["gain_bound"] == 0:
        sentences.append(
            f"none of {content['longer']:g} times as many random settings would be better than "
            f"the best found ({_gain_terms(content)}); what a longer guided search finds is not "
            "bounded"
        )
    elif content["gain_bound"] == content.get("gain_possible"):
        sentences.append(
            f"no search can gain more than {content['gain_bound']:.3g} of {content['metric']}: it "
            "has no better value"
        )
    else:
        sentences.append(
            f"{content['longer']:g} times as many random settings would gain at most "
            f"{content['gain_bound']:.3g} of {content['metric']} ({_gain_terms(content)})"
        )
    if content["alternative_gap"] > 0 and _is_sought(content):
        sentences.insert(0, _held_sentence(content))
    counts = content["multiplicity"]
    if counts is not None:
        sentences.append(
            f"{as_good_words(counts)}; at least one of them decides otherwise "
            f"about {percent(counts['ambiguity'])} of the people, a single one about up to "
            f"{percent(counts['discrepancy'])}"
        )
    kept = content.get("kept")
    if kept is not None:
        sentences.append(
            f"models of {kept['models']} settings that are as good, drawn at random, are kept: "
            "`evenhand case` says how many of them decide otherwise about its person"
        )
    return sentences


def as_good_words(counts: Mapping[str, Any]) -> str:
    """Say how many settings are as good as the model, and of how many decisions were compared."""
    models = counts["models"]
    # studies of older versions lack it
    total = counts.get("as_good", models)
    settings = "1 setting is" if total == 1 else f"{total:,} settings are"
    if total > models:
        return f"{settings} as good, and {models} of them were compared"
    return f"{settings} as good"


def _gain_terms(content: Mapping[str, Any]) -> str:
    """The confidence of the bound on the gain, and what it assumes."""
    return f"{percent(content['gain_level'])} confidence, for a generalised Pareto tail"


def _is_sought(content: Mapping[str, Any]) -> bool:
    """Whether an alternative that keeps its utility on unseen rows was looked for."""
    # studies of older versions lack it
    return bool(content.get("held_sought", True))


def _share_sentence(content: Mapping[str, Any]) -> str:
    """Bound the share of better settings, where there are random ones to bound it by.

    A random setting has each method with the same chance, and a uniform value of each parameter on
    its scale.
    """
    if content["random"] == 0:
        return (
            "how many settings of this space are better is not known: there was no time for an "
            "independent random one"
        )
    if content["share_bound"] >= MOST_SHARE:
        return (
            f"{content['random']} independent random settings are too few to bound how many "
            "settings of this space are better"
        )
    return (
        f"at most {percent(content['share_bound'])} of random settings of this space are better on "
        f"these rows than the best found ({percent(content['share_level'])} confidence, by "
        f"{content['random']} of them)"
    )


def _held_sentence(content: Mapping[str, Any]) -> str:
    """Say which alternative keeps its utility on unseen rows."""
    held = content.get("held")
    if held is None:
        return NOT_HELD
    return (
        f"number {held['number']}, with {content['metric']} {held['value']:.3g}, is no worse on "
        f"unseen rows with a chance of {shown_chance(held['chance'])}"
    )


def percent(share: float) -> str:
    """Write a share as a percentage with two significant digits; 100% for all."""
    if share >= 0.1:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.2g}%"
