"""The gate of a policy on less discriminatory alternatives: a search must have looked for them, and
must not have found one that is too much better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import better
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy_people import keys_of
from evenhand.tasks.registry.policy_terms import terms_of
from evenhand.tasks.registry.signed_records import signer
from evenhand.tasks.tuning.no_worse import NO_WORSE, read_no_worse

# Models that a search has judged at least, by default.
MODELS = 50


def alternative_rules(
    gap: float | None,
    metric: str | None,
    models: int | None,
    no_worse: Sequence[str],
) -> dict[str, Any] | None:
    """Return the gate on alternatives as a policy keeps it; None without a largest gap.

    Raises `InputError` for another option without the gap, a metric without a direction, and an
    entry of `no_worse` that is not of the form METRIC by NUMBER.
    """
    if gap is None:
        if metric is not None or models is not None or no_worse:
            raise InputError(
                "--alternative-metric, --alternative-models and --alternative-no-worse need "
                "--alternative-gap: the largest gap that a search may have found."
            )
        return None
    if metric is not None:
        with input_errors(f"--alternative-metric {metric!r}: ", end="."):
            better(metric)
    limits = list(no_worse or NO_WORSE)
    for text in limits:
        name, _ = read_no_worse(text, "--alternative-no-worse")
        with input_errors(f"--alternative-no-worse {text!r}: ", end="."):
            better(name)
    return {"gap": gap, "metric": metric, "models": models or MODELS, "no_worse": limits}


def alternative_in_words(rules: Mapping[str, Any]) -> str:
    """Say in a few words what a policy asks of a search for alternatives.

    Examples
    --------
    >>> alternative_in_words({"gap": 0.1, "metric": None, "models": 9, "no_worse": ["auc by 0.2"]})
    'alternatives in any disparity, auc no worse by 0.2, in 9 models: a gap of 0.1 at most'
    """
    conditions = " and ".join(text.replace(" by ", " no worse by ") for text in rules["no_worse"])
    disparity = rules["metric"] or "any disparity"
    return (
        f"alternatives in {disparity}, {conditions}, in {rules['models']} models: a gap of "
        f"{rules['gap']:g} at most"
    )


def unmet_alternative(policy: Record, chain: Chain, version: str) -> str | None:
    """Say why the recorded searches for alternatives to a version do not allow its promotion; None
    if they do, or the policy asks for none.

    An alternative that any search has found counts, if it had to keep as much as the policy says or
    more. That there is none counts only by a search of the size that the policy asks for, whose
    alternatives had to keep no more than that.
    """
    rules = policy.content.get("alternative")
    if not rules:
        return None
    records = _counted(policy, chain, version, rules["metric"])
    found = [record for record in records if _keeps_as_much(rules, record)]
    worst = max(found, key=_gap_of, default=None)
    if worst is not None and _gap_of(worst) > rules["gap"]:
        return (
            f"a search found a less discriminatory alternative (record {worst.number}): "
            f"{worst.content['metric']} {_comparative(worst)} by {_gap_of(worst):.3g}, and the "
            f"policy allows {rules['gap']:g}"
        )
    pinned_cell = terms_of(policy.content).settings["min_cell"]
    shortfalls = [_shortfall(rules, record, pinned_cell) for record in records]
    if any(shortfall is None for shortfall in shortfalls):
        return None
    cure = f"`evenhand tune JOB --alternative-to models:/{chain.name}/{version}` searches them"
    if shortfalls:
        return f"its last search for alternatives does not count: {shortfalls[-1]}; {cure}"
    subject = "less discriminatory alternatives"
    if rules["metric"] is not None:
        subject += f" in {rules['metric']}"
    return f"no search for {subject} to it is recorded; {cure}"


def _counted(policy: Record, chain: Chain, version: str, metric: str | None) -> list[Record]:
    """Return the searches for alternatives to a version in the policy's metric, by a key that may
    measure where the policy lists such keys.
    """
    keys = keys_of(policy.content, "measured_by")
    records = []
    for record in chain.of("alternative", version):
        is_measurer = not keys or signer(chain.name, record) in keys
        # older versions let a search for a better performance pass for one
        is_of_disparity = "." in record.content["metric"]
        if is_measurer and is_of_disparity and metric in (None, record.content["metric"]):
            records.append(record)
    return records


def _gap_of(record: Record) -> float:
    """The difference that a search found; infinite where it is no number."""
    gap = float(record.content["alternative_gap"])
    return gap if math.isfinite(gap) and gap >= 0 else math.inf


def _comparative(record: Record) -> str:
    """How the alternative's metric differs from the model's."""
    return {"lower": "smaller", "higher": "larger"}[better(record.content["metric"])]


def _tolerances(texts: Sequence[str]) -> dict[str, float]:
    """By metric how much of it an alternative may lose."""
    return dict(read_no_worse(text) for text in texts)


def _keeps_as_much(rules: Mapping[str, Any], record: Record) -> bool:
    """Whether what a search found had to keep all that a policy asks for."""
    kept = _tolerances(record.content.get("no_worse") or ())
    asked = _tolerances(rules["no_worse"])
    return all(name in kept and kept[name] <= by for name, by in asked.items())


def _shortfall(rules: Mapping[str, Any], record: Record, pinned_cell: int) -> str | None:
    """Say in what a search falls short of what a policy asks for; None if in nothing."""
    content = record.content
    models = content.get("judged_models", content["models"])
    # copies of a model are no further models
    models = min(models, content.get("distinct", models))
    if models < rules["models"]:
        return f"it judged {models} models, and the policy asks for {rules['models']}"
    min_cell = content.get("min_cell", pinned_cell)
    if min_cell > pinned_cell:
        return f"it left out groups by min_cell {min_cell}, and the policy pins {pinned_cell}"
    further_limits = content.get("where") or []
    if further_limits:
        return f"its alternatives had to keep {further_limits[0]} as well"
    allowed = _tolerances(rules["no_worse"])
    for name, by in _tolerances(content.get("no_worse") or ()).items():
        if name not in allowed:
            return f"its alternatives had to keep {name}, which the policy does not ask for"
        if by < allowed[name]:
            return (
                f"its alternatives had to keep {name} within {by:g}, and the policy allows "
                f"{allowed[name]:g}"
            )
    return None
