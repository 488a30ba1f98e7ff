"""The gate of a policy on less discriminatory alternatives: a search must have looked for them, and
must not have found one that is too much better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenhand.fairlib.catalogue import better, possible_gain
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.registry.client import ask_once, read_registry
from evenhand.tasks.registry.ledger import Chain, Record, read_chain
from evenhand.tasks.registry.policy_people import keys_of
from evenhand.tasks.registry.policy_terms import terms_of
from evenhand.tasks.registry.signed_records import signer
from evenhand.tasks.tuning.no_worse import NO_WORSE, check_once, read_no_worse

NO_WORSE_OPTION = "--alternative-no-worse"
# Models that a search has judged at least, by default.
MODELS = 50


def alternative_rules(
    gap: float | None,
    metric: str | None,
    models: int | None,
    no_worse: Sequence[str],
    share: float | None = None,
) -> dict[str, Any] | None:
    """Return the gate on alternatives as a policy keeps it; None without a largest gap.

    `share` is how large a share of random settings may still be better than the best alternative,
    by the bound of the search; None for any.

    Raises `InputError` for another option without the gap, a metric without a direction, and an
    entry of `no_worse` that is not of the form METRIC by NUMBER.
    """
    if gap is None:
        if metric is not None or models is not None or no_worse or share is not None:
            raise InputError(
                "--alternative-metric, --alternative-models, --alternative-no-worse and "
                "--alternative-share need --alternative-gap: the largest gap that a search may "
                "have found."
            )
        return None
    if metric is not None:
        with input_errors(f"--alternative-metric {metric!r}: ", end="."):
            better(metric)
        if "." not in metric:
            raise InputError(
                f"--alternative-metric {metric!r} is no disparity: name a metric of groups or "
                "copies."
            )
    if share is not None:
        _check_share(share)
    limits = list(no_worse or NO_WORSE)
    check_once([read_no_worse(text)[0] for text in limits if " by " in text], NO_WORSE_OPTION)
    for text in limits:
        name, _ = read_no_worse(text, NO_WORSE_OPTION)
        with input_errors(f"--alternative-no-worse {text!r}: ", end="."):
            better(name)
    rules = {"gap": gap, "metric": metric, "models": models or MODELS, "no_worse": limits}
    if share is not None:
        rules["share"] = share
    return rules


def _check_share(share: float) -> None:
    """Refuse a share that no search can show to be the largest one."""
    # imported lazily: most policies do not need it
    from evenhand.fairlib.tuning.further_search import MOST_SETTINGS, share_bound

    least = share_bound(MOST_SETTINGS)
    if share < least:
        raise InputError(
            f"--alternative-share {share:g}: no search can show that so few are better; give at "
            f"least {least:.1g}."
        )


def alternative_in_words(rules: Mapping[str, Any]) -> str:
    """Say in a few words what a policy asks of a search for alternatives.

    Examples
    --------
    >>> alternative_in_words({"gap": 0.1, "metric": None, "models": 9, "no_worse": ["auc by 0.2"]})
    'alternatives in any disparity, auc no worse by 0.2, in 9 models: a gap of 0.1 at most'
    """
    conditions = " and ".join(text.replace(" by ", " no worse by ") for text in rules["no_worse"])
    disparity = rules["metric"] or "any disparity"
    text = (
        f"alternatives in {disparity}, {conditions}, in {rules['models']} models: a gap of "
        f"{rules['gap']:g} at most"
    )
    if rules.get("share") is not None:
        text += f", and at most {rules['share']:g} of random settings better than the best"
    return text


def unmet_alternative(policy: Record, chain: Chain, version: str) -> str | None:
    """Say why the recorded searches for alternatives to a version do not allow its promotion; None
    if they do, or the policy asks for none.

    An alternative that any search has found counts, if it had to keep as much as the policy says or
    more, also one to the same model under another number. That there is none counts only by a
    search of the size that the policy asks for, whose alternatives had to keep no more than that,
    and which has not found a larger difference either.
    """
    rules = policy.content.get("alternative")
    if not rules:
        return None
    metric = rules["metric"]
    if metric is not None and "." not in metric:
        return f"its policy names {metric} for alternatives, which is no disparity: set it again"
    asked = _tolerances(rules["no_worse"])
    searches = _counted(policy, chain, version, metric)
    as_strict = [search for search in searches if search.keeps_as_much(asked)]
    worst = max(as_strict, key=lambda search: search.gap, default=None)
    if worst is not None and worst.gap > rules["gap"]:
        return (
            f"a search found a less discriminatory alternative (record {worst.number}): "
            f"{worst.metric} {worst.comparative} by {worst.gap:.3g}, and the policy allows "
            f"{rules['gap']:g}"
        )
    min_cell = int(terms_of(policy.content).settings["min_cell"])
    shortfalls = [_shortfall(rules, search, min_cell) for search in searches]
    if any(shortfall is None for shortfall in shortfalls):
        return None
    if shortfalls and shortfalls[-1] is not None and shortfalls[-1].has_cure:
        return f"its last search for alternatives does not count: {shortfalls[-1].reason}"
    cure = f"`evenhand tune JOB --alternative-to models:/{chain.name}/{version}` searches them"
    if shortfalls and shortfalls[-1] is not None:
        return f"its last search for alternatives does not count: {shortfalls[-1].reason}; {cure}"
    subject = "less discriminatory alternatives"
    if metric is not None:
        subject += f" in {metric}"
    return f"no search for {subject} to it is recorded; {cure}"


@dataclass(frozen=True)
class RecordedSearch:
    """What a record says of a search for alternatives."""

    number: int
    metric: str
    gap: float  # the difference that it found; infinite where the record has no such number
    models: int  # different models that it judged
    min_cell: int | None  # None in records of older versions
    share: float  # bound on the share of random settings that are better than the best found
    no_worse: Mapping[str, float]  # by metric how much of it an alternative could lose
    limits: Sequence[str] | None  # further limits; None in records of older versions
    value: float | None = None  # the model's own; None in records of older versions

    @property
    def comparative(self) -> str:
        """How the alternative's metric differs from the model's."""
        return {"lower": "smaller", "higher": "larger"}[better(self.metric)]

    def keeps_as_much(self, asked: Mapping[str, float]) -> bool:
        """Whether what was found had to keep all that is asked."""
        return all(name in self.no_worse and self.no_worse[name] <= asked[name] for name in asked)


def read_search(record: Record) -> RecordedSearch | None:
    """Read the record of a search; None for one that this tool has not written, or that was for no
    disparity, as older versions allowed.
    """
    content = record.content
    try:
        metric = str(content["metric"])
        better(metric)
        models = int(content.get("judged_models", content["models"]))
        # copies of a model are no further models
        models = min(models, int(content.get("distinct", models)))
        min_cell = content.get("min_cell")
        gap = float(content["alternative_gap"])
        search = RecordedSearch(
            record.number,
            metric,
            gap if math.isfinite(gap) and gap >= 0 else math.inf,
            models,
            None if min_cell is None else int(min_cell),
            float(content.get("share_bound", 1.0)),
            _tolerances(list(content.get("no_worse") or ())),
            None if content.get("where") is None else list(map(str, content["where"])),
            _number_in(content.get("value")),
        )
    except (KeyError, TypeError, ValueError, OverflowError, InputError):
        return None
    return search if "." in metric else None


def _number_in(value: Any) -> float | None:
    """Return a number of a record; None for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def search_for_alternatives(uri: str, name: str, version: str) -> dict[str, Any] | None:
    """Content of the record of a search for alternatives to a version, with its time; None without
    one. Of several that looked for the same as the last, it is the one that found the most. Models
    that are as good may be kept by another one, whose alternatives had to keep the same.
    """

    def look_up() -> dict[str, Any]:
        chain = read_registry(uri, lambda client: read_chain(client, name))
        searches = []
        for record in _searches_for(chain, version):
            search = read_search(record)
            if search is not None and math.isfinite(search.gap):
                searches.append((search, record))
        if not searches:
            return {}
        last = searches[-1][0]
        alike = []
        for search, record in reversed(searches):
            if _looked_for(search) == _looked_for(last):
                alike.append((search.gap, record))
        most = max(alike, key=lambda item: item[0])[1]
        content = {**most.content, "when": most.when}
        keeper = _last_with_models(searches, last)
        if not content.get("kept") and keeper is not None:
            # kept models and counts of decisions come from the same search
            content["kept"] = keeper.content["kept"]
            content["multiplicity"] = keeper.content.get("multiplicity")
        if not _is_multiplicity(content.get("multiplicity")):
            content["multiplicity"] = None
        return content

    return ask_once(uri, f"alternatives to {name}/{version}", look_up) or None


def _looked_for(search: RecordedSearch) -> tuple[Any, ...]:
    """What a search looked for: the metric, and what alternatives had to keep."""
    return search.metric, search.no_worse, search.limits


def _last_with_models(
    searches: Sequence[tuple[RecordedSearch, Record]], alike: RecordedSearch
) -> Record | None:
    """Return the last of these searches that kept models, if alternatives had to keep the same."""
    for search, record in reversed(searches):
        if record.content.get("kept") and search.no_worse == alike.no_worse:
            return record
    return None


def _is_multiplicity(counts: Any) -> bool:
    """Whether a record's counts of decisions are as this tool writes them."""
    if not isinstance(counts, Mapping):
        return False
    numbers = [counts.get(key) for key in ("models", "people", "ambiguity", "discrepancy")]
    if not all(isinstance(number, int | float) for number in numbers):
        return False
    by_group = counts.get("by_group", {})
    return isinstance(by_group, Mapping) and all(
        isinstance(groups, Mapping) for groups in by_group.values()
    )


def _tolerances(texts: Sequence[str]) -> dict[str, float]:
    """By metric how much of it an alternative may lose: of several numbers the smallest, as all
    count.
    """
    tolerances: dict[str, float] = {}
    for text in texts:
        metric, by = read_no_worse(text)
        tolerances[metric] = min(by, tolerances.get(metric, by))
    return tolerances


def _counted(
    policy: Record, chain: Chain, version: str, metric: str | None
) -> list[RecordedSearch]:
    """Return the searches for alternatives to a version in the policy's metric, by a key that may
    measure where the policy lists such keys.
    """
    keys = keys_of(policy.content, "measured_by")
    searches = []
    for record in _searches_for(chain, version):
        search = read_search(record)
        is_measurer = not keys or signer(chain.name, record) in keys
        if search is not None and is_measurer and metric in (None, search.metric):
            searches.append(search)
    return searches


def _searches_for(chain: Chain, version: str) -> list[Record]:
    """Return the records of searches for alternatives to a version, or to the same model under
    another number, in their order.
    """
    versions = chain.same_model(version)
    searches = []
    for record in chain.of("alternative"):
        # a record that was made by hand may have anything there
        number = record.content.get("version")
        if isinstance(number, str) and number in versions:
            searches.append(record)
    return searches


def _lacking_terms(search: RecordedSearch) -> str | None:
    """Say that a record does not say its terms; None if it does."""
    if search.min_cell is None or search.limits is None:
        return "its record of an older version does not say what it left out or had to keep"
    return None


def _other_groups(search: RecordedSearch, min_cell: int) -> str | None:
    """Say that other groups were measured than the policy measures; None if not.

    With a smaller `min_cell` the gap of a few people hides that of the others.
    """
    if search.min_cell == min_cell:
        return None
    return (
        f"it measured groups with min_cell {search.min_cell}, as the version's job has it, and "
        f"the policy pins {min_cell}: publish a version with evaluate.min_cell: {min_cell}, or "
        f"`evenhand policy set` with --set evaluate.min_cell={search.min_cell}"
    )


class Shortfall(NamedTuple):
    """In what a search falls short of what a policy asks for."""

    reason: str
    has_cure: bool  # whether the reason names a command that helps; elsewhere another search does


def _shortfall(rules: Mapping[str, Any], search: RecordedSearch, min_cell: int) -> Shortfall | None:
    """Say in what a search falls short of what a policy asks for; None if in nothing."""
    reasons = (
        (_too_small(rules, search), False),
        (_lacking_terms(search), False),
        (_other_groups(search, min_cell), True),
        (_nothing_to_find(rules, search), True),
        (_stricter_terms(rules, search), False),
        (_unsettled_gap(rules, search), False),
    )
    for reason, has_cure in reasons:
        if reason is not None:
            return Shortfall(reason, has_cure)
    return None


def _too_small(rules: Mapping[str, Any], search: RecordedSearch) -> str | None:
    """Say that a search was smaller than a policy asks for; None if it was not."""
    if search.models < rules["models"]:
        models = "1 different model"
        if search.models != 1:
            models = f"{search.models} different models"
        return f"it judged {models}, and the policy asks for {rules['models']}"
    most = rules.get("share")
    if most is not None and not search.share <= most:
        return (
            f"by its random settings up to {search.share:.2g} of them are better than the best "
            f"found, and the policy allows {most:g}"
        )
    return None


def _nothing_to_find(rules: Mapping[str, Any], search: RecordedSearch) -> str | None:
    """Say that a search was for a disparity of which the model has no more than the gap, where the
    policy leaves open for which: another one may be large.
    """
    if rules["metric"] is not None or search.value is None:
        return None
    possible = possible_gain(search.metric, search.value)
    if possible > rules["gap"]:
        return None
    return (
        f"{search.metric} of the model can be better by {possible:.3g} at most, so that there was "
        "nothing to find above the gap that the policy allows: search for another disparity, or "
        "name one by `evenhand policy set … --alternative-metric`"
    )


def _stricter_terms(rules: Mapping[str, Any], search: RecordedSearch) -> str | None:
    """Say what alternatives had to keep beyond what a policy asks for; None if nothing."""
    if search.limits:
        return f"its alternatives had to keep {search.limits[0]} as well"
    allowed = _tolerances(rules["no_worse"])
    for name, by in search.no_worse.items():
        if name not in allowed:
            return f"its alternatives had to keep {name}, which the policy does not ask for"
        if by < allowed[name]:
            return (
                f"its alternatives had to keep {name} within {by:g}, and the policy allows "
                f"{allowed[name]:g}"
            )
    return None


def _unsettled_gap(rules: Mapping[str, Any], search: RecordedSearch) -> str | None:
    """Say that what a search found may be worse than the policy allows, and hides what is not."""
    if search.gap <= rules["gap"]:
        return None
    return (
        f"it found a difference of {search.gap:.3g} with models that may be worse than the "
        f"policy allows ({' and '.join(rules['no_worse'])})"
    )
