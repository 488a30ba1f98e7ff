"""What a search for a less discriminatory alternative shows, in sentences for people and pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evenhand.fairlib.tuning.study import shown_chance

# A larger bound on a share says nothing.
MOST_SHARE = 0.9
NOT_HELD = (
    "no alternative is shown to be no worse on unseen rows too: more rows, or a larger tolerance, "
    "might show one"
)

UNSURE_LIMITS = (
    "no alternative keeps the limits of --where on unseen rows with a chance of {confidence:g}: "
    "give a lower --confidence, or collect more rows"
)

NOT_ALL_SOUGHT = (
    "not all alternatives were examined for one that is no worse on unseen rows too: there are "
    "more than 3,000, or time or their kept decisions were lacking"
)


def found_sentence(content: Mapping[str, Any]) -> str:
    """Say which disparity the model has, and the best alternative to it."""
    metric = content["metric"]
    value = content["champion"]["value"]
    kept = [
        f"{item['metric']} no worse by more than {item['by']:g}" for item in content["no_worse"]
    ]
    # studies of older versions lack it
    kept += content.get("where") or []
    limits = " and ".join(kept)
    tried = "the model alone, judged on all folds"
    if content["judged_models"] > 1:
        tried = f"{content['judged_models']} models judged on all folds"
    if content["alternative_gap"] == 0:
        return (
            f"alternative to {content['to']}: none found with a better {metric} than {value:.3g} "
            f"and {limits}, among {tried}"
        )
    best = content["best"]
    number = f"number {best['number']}"
    # studies of older versions lack it
    if best.get("label"):
        number += f", {best['label']},"
    return (
        f"alternative to {content['to']}: {number} has {metric} {best['value']:.3g} "
        f"in place of {value:.3g}, with {limits}, among {tried}"
    )


def bound_sentences(content: Mapping[str, Any]) -> list[str]:
    """Say what further search of the space could still gain, and of how many models decisions
    depend.
    """
    sentences = []
    if content["alternative_gap"] > 0:
        sentences += _rule_sentences(content)
        sentences += _chance_sentences(content)
        if _is_sought(content) or content.get("not_held"):
            sentences.append(_held_sentence(content))
    # studies of older versions lack it
    if content.get("utility_by_decisions") is False:
        names = " and ".join(item["metric"] for item in content["no_worse"])
        sentences.append(
            f"what an alternative keeps, {names}, does not follow from decisions: with another "
            "threshold more of them may be wrong than of the model's"
        )
    sentences.append(_share_sentence(content))
    sentences += _mean_gain_sentences(content)
    sentences.append(_gain_sentence(content))
    counts = content["multiplicity"]
    if counts is not None:
        sentences.append(f"{as_good_words(counts)}; {otherwise_words(counts)}")
    # studies of older versions lack it
    if content.get("kept") is not None:
        sentences.append(_kept_sentence(content["kept"]["models"]))
    return sentences


def _rule_sentences(content: Mapping[str, Any]) -> list[str]:
    """Say that the best alternative decides by a sensitive column, and what others reach."""
    # studies of older versions lack both
    best_with_one_rule = content.get("best_with_one_rule")
    if best_with_one_rule is None or not content["best"]["by_group"]:
        return []
    metric = content["metric"]
    text = (
        f"number {content['best']['number']} has thresholds by group, so that its decision about a "
        "person depends on the person's group"
    )
    if best_with_one_rule["number"] == content["champion"]["number"]:
        return [f"{text}; of models without them none has a better {metric} than the model"]
    return [
        f"{text}; of models without them number {best_with_one_rule['number']}, "
        f"{best_with_one_rule['label']}, is the best, with {metric} "
        f"{best_with_one_rule['value']:.3g}"
    ]


def _chance_sentences(content: Mapping[str, Any]) -> list[str]:
    """Say how sure it is that unseen rows show less disparity, where that is known."""
    metric = content["metric"]
    sentences = []
    # studies of older versions lack the chances
    for key, chance_key in (("best", "chance"), ("held", "chance_of_less")):
        found = content.get(key) or {}
        chance = found.get(chance_key)
        is_same = key == "held" and found.get("number") == content["best"]["number"]
        if chance is not None and not is_same:
            sentences.append(
                f"on unseen rows number {found['number']} has a better {metric} than the model "
                f"with a chance of {shown_chance(chance)}, as if both were independent, and rather "
                "less as it is the best of many"
            )
    return sentences


def otherwise_words(counts: Mapping[str, Any]) -> str:
    """Say about how many people models that are as good decide otherwise."""
    several = percent(counts["ambiguity"])
    single = percent(counts["discrepancy"])
    models = counts["models"]
    if models == 1:
        return f"it decides otherwise about {several} of the people"
    of_all = "them"
    # studies of older versions lack it
    if counts.get("as_good", models) > models:
        of_all = "those"
    return (
        f"at least one of {of_all} decides otherwise about {several} of the people, and a single "
        f"one about up to {single}"
    )


def _mean_gain_sentences(content: Mapping[str, Any]) -> list[str]:
    """Bound the gain of one further setting, and say whether what was asked for was reached."""
    sentences = []
    # studies of older versions lack both
    mean_gain = content.get("mean_gain_bound")
    asked = content.get("until_gain")
    if mean_gain and content["share_bound"] < MOST_SHARE:
        sentences.append(
            f"one further random setting would gain at most {rounded_up(mean_gain)} of "
            f"{content['metric']} on average over the best found, on these rows "
            f"({percent(content['share_level'])} confidence, for any distribution)"
        )
    if asked:
        word = "was reached" if asked["is_reached"] else "was not reached"
        sentences.append(f"the mean gain of {asked['asked']:g} that was asked for {word}")
    return sentences


def _gain_sentence(content: Mapping[str, Any]) -> str:
    """Bound what many further settings could gain."""
    bound = content["gain_bound"]
    # studies of older versions lack it
    possible = content.get("gain_possible")
    if bound is None:
        at_most = ""
        if possible is not None:
            at_most = f", at most {rounded_up(possible, 3)}, which no model can exceed"
        return (
            f"how much {content['longer']:g} times as many random settings could gain is not known"
            f"{at_most}: {content['gain_reason']}"
        )
    if possible == 0:
        return f"no search can gain: {content['metric']} cannot be better"
    if bound == 0:
        return (
            f"none of {content['longer']:g} times as many random settings would be better than "
            f"the best found ({_gain_terms(content)}); what a longer guided search finds is not "
            "bounded"
        )
    if bound == possible:
        return (
            f"no search can gain more than {rounded_up(bound, 3)} of {content['metric']}: it has "
            "no better value"
        )
    return (
        f"{content['longer']:g} times as many random settings would gain at most "
        f"{rounded_up(bound, 3)} of {content['metric']} ({_gain_terms(content)})"
    )


def _kept_sentence(models: int) -> str:
    """Say of how many settings a model is kept for cases."""
    text = f"models of {models} different settings that are as good, drawn at random, are kept"
    if models == 1:
        text = "the model of one setting that is as good, drawn at random, is kept"
    return f"{text}: `evenhand case` says how many decide otherwise about its person"


def as_good_words(counts: Mapping[str, Any]) -> str:
    """Say how many settings are as good as the model, and of how many decisions were compared."""
    models = counts["models"]
    # studies of older versions lack it
    total = counts.get("as_good", models)
    settings = "1 setting is" if total == 1 else f"{total:,} settings are"
    if total > models:
        were = "was" if models == 1 else "were"
        return f"{settings} as good, and {models} of them {were} compared"
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
            "how many settings of this space are better is not known: no independent random one "
            "was judged"
        )
    if content["share_bound"] >= MOST_SHARE:
        settings = "1 independent random setting is"
        if content["random"] > 1:
            settings = f"{content['random']} independent random settings are"
        return f"{settings} too few to bound how many settings of this space are better"
    return (
        f"at most {percent_rounded_up(content['share_bound'])} of random settings of this space "
        "are better on these rows than the best found, with all that an alternative keeps "
        f"({percent(content['share_level'])} confidence, by {content['random']} of them)"
    )


def _held_sentence(content: Mapping[str, Any]) -> str:
    """Say which alternative keeps its utility on unseen rows."""
    held = content.get("held")
    if held is None:
        # studies of older versions lack it
        return str(content.get("not_held") or NOT_HELD)
    # studies of older versions lack it
    metrics = held.get("metrics")
    words = "no worse"
    if metrics:
        tolerances = [
            f"{item['metric']} by more than {item['by']:g}"
            for item in content["no_worse"]
            if item["metric"] in metrics
        ]
        words = f"no worse in {' and '.join(tolerances)}"
    return (
        f"number {held['number']}, with {content['metric']} {held['value']:.3g}, is {words} on "
        f"unseen rows with a chance of {shown_chance(held['chance'])}, rather less as it is the "
        "best of many"
    )


def rounded_up(bound: float, significant: int = 2) -> str:
    """Write a bound with some significant digits, not below it.

    Examples
    --------
    >>> rounded_up(0.000482), rounded_up(0.25), rounded_up(0.12341, 3), rounded_up(0.0)
    ('0.00049', '0.25', '0.124', '0')
    """
    if bound <= 0:
        return f"{bound:.{significant}g}"
    digits = significant - 1 - math.floor(math.log10(bound))
    # a floating-point error does not move the bound to the next digit
    return f"{math.ceil(round(bound * 10**digits, 6)) / 10**digits:.{significant}g}"


def percent_rounded_up(share: float) -> str:
    """Write a bound on a share as a percentage with two significant digits; 100% for all."""
    if share > 0.99:
        return "100%"
    return f"{rounded_up(100 * share)}%"


def percent(share: float) -> str:
    """Write a share as a percentage with two significant digits; 100% for all, and no less.

    Examples
    --------
    >>> percent(0.0123), percent(0.567), percent(0.996), percent(1.0)
    ('1.2%', '57%', 'over 99%', '100%')
    """
    if 0.995 <= share < 1.0:
        return "over 99%"
    if share >= 0.1:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.2g}%"
