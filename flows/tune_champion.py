"""The search for an alternative to a model, from the judgement of that model to the record of the
result in its chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import BY_VALUE, CONFIDENCE, Trial
from evenhand.flows.engine import Steps, Verdict, describe_fault
from evenhand.flows.tune_alternatives import (
    MOST_EXAMINED,
    UTILITY_CONFIDENCE,
    HeldAlternative,
    against_champion,
    better_alternatives,
    certificate,
    compared,
    equally_good,
    has_chance,
    held_alternative,
    is_gain_reached,
    judged_champion,
    multiplicity_document,
    record_content,
)
from evenhand.flows.tune_equally_good import (
    different_settings,
    keep_models,
    keeps_models,
    time_for_keeping,
)
from evenhand.flows.tune_plan import TunePlan
from evenhand.flows.tune_search import Rows, decisions_of, judge_in
from evenhand.flows.tune_shared import Command, Searched
from evenhand.flows.workers import Pool
from evenhand.tasks.errors import EvenhandError, InputError
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.step import described
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.alternatives_text import NOT_ALL_SOUGHT, NOT_HELD, UNSURE_LIMITS
from evenhand.tasks.tuning.study_document import facts_of_space
from evenhand.tasks.tuning.trial_search import ALL, JOB, Candidate, Rule, rounded_metrics

# Of the time that is kept for the measurement on test rows, so much may go to the search for an
# alternative that keeps its utility on unseen rows.
HOLDING_SHARE = 0.25


def judge_champion(
    plan: TunePlan, rows: Rows, steps: Steps, store: Store, pool: Pool | None, budget: Budget
) -> tuple[TunePlan, Rows]:
    """Judge the champion, and return the plan and the rows with limits by its metrics."""
    assert plan.alternative is not None, "an alternative is searched"
    champion = Candidate(JOB)
    model = plan.alternative.model
    if model is not None and model["fingerprint"] != steps.output("ingest", "raw").sha256:
        raise InputError(
            f"alternative_to {plan.alternative.to!r} was trained on another table than that of the "
            "job: give the job the table that it was trained on."
        )
    judge = judge_in(plan, rows, store, pool, budget)
    result = judge(champion, rows.plan.rules(champion), ALL).results[0]
    if "error" in result:
        raise InputError(f"alternative_to {plan.alternative.to!r}: {result['error']}")
    aim = against_champion(plan.aim, plan.alternative, rounded_metrics(result["metrics"]))
    plan = replace(plan, aim=aim)
    return plan, Rows.read(plan, steps, rows.proxy_features)


@dataclass(frozen=True)
class HeldSearch:
    """The search for an alternative that keeps its utility on unseen rows."""

    alternative: HeldAlternative | None = None
    is_complete: bool = False  # whether there was time for all that may be one


def held_in_time(command: Command, searched: Searched) -> HeldSearch:
    """Search that alternative, unless the command has ended, or ends before it is found."""
    if command.ending.error is None:
        with command.ending.kept():
            return _held_alternative(searched, command.store, command.budget)
    return HeldSearch()


def seconds_for_holding(budget: Budget) -> float:
    """Return how long to look for an alternative that keeps its utility: what the search has left,
    and a part of what is kept for what follows; infinite without a limit.

    The measurement on test rows and the page are to end in time too.
    """
    kept_s = max(budget.writing / 2, HOLDING_SHARE * (budget.reserve - budget.writing))
    most_s = budget.left - budget.writing / 2
    return max(0.0, min(max(0.0, budget.search_left) + kept_s, most_s))


def _held_alternative(searched: Searched, store: Store, budget: Budget) -> HeldSearch:
    """Search the alternative with the least disparity that keeps its utility on unseen rows; there
    is none where the values decide, or a model is searched for something else.
    """
    plan = searched.plan
    alternative = plan.alternative
    level = plan.confidence or UTILITY_CONFIDENCE
    champion = judged_champion(searched.trials)
    if alternative is None or champion is None or not has_chance(alternative, level):
        return HeldSearch(is_complete=True)
    candidates = better_alternatives(
        plan.aim, searched.trials, len(alternative.no_worse), plan.confidence
    )
    reference = decisions_of(plan, searched.rows, store, [champion])
    if not reference:
        return HeldSearch()
    is_complete = len(candidates) <= MOST_EXAMINED
    ends_at = budget.spent + seconds_for_holding(budget)

    def decided_by(trial: Trial) -> Any:
        nonlocal is_complete
        if budget.spent >= ends_at:
            is_complete = False
            return None
        found = decisions_of(plan, searched.rows, store, [trial])
        if not found:
            is_complete = False
        return found[0] if found else None

    test_share = plan.resolved.job.split.test
    data = read_dataset(store.fetch(searched.rows.train))
    held = held_alternative(
        alternative,
        candidates[:MOST_EXAMINED],
        decided_by,
        reference[0],
        data.y,
        level=level,
        unseen=test_share / (1 - test_share),
        favourable=plan.resolved.contract.label.favourable_code,
        people=data.people,
        seed=plan.resolved.job.seed,
    )
    return HeldSearch(held, is_complete)


def stated_confidence(plan: TunePlan) -> float | None:
    """The confidence by which limits are said to be kept; None for that of the search."""
    if plan.alternative is None:
        return None
    # values decide what an alternative is, but not what is shown to hold
    return plan.confidence or CONFIDENCE


def chosen_alternative(plan: TunePlan, trials: Sequence[Trial], held: HeldSearch) -> Trial | None:
    """Return the alternative that is preferred to the best one by the values: the one that keeps
    its utility on unseen rows, or the best that keeps the limits of ``where`` with the confidence
    that was asked for; None without either.
    """
    if held.alternative is not None:
        return held.alternative.trial
    confidence = plan.confidence
    if confidence is None or confidence == BY_VALUE:
        return None
    candidates = _candidates(plan, trials, confidence)
    return candidates[0] if candidates else None


def why_not_held(searched: Searched, held: HeldSearch) -> str | None:
    """Say why the alternative by the values is not shown to keep on unseen rows what it keeps on
    these; None where it is, where there is none, or where only values count.
    """
    plan = searched.plan
    if held.alternative is not None or not _candidates(plan, searched.trials):
        return None
    if not _candidates(plan, searched.trials, plan.confidence):
        return UNSURE_LIMITS.format(confidence=plan.confidence)
    assert plan.alternative is not None, "there are candidates"
    if not has_chance(plan.alternative, plan.confidence or UTILITY_CONFIDENCE):
        return None
    return NOT_HELD if held.is_complete else NOT_ALL_SOUGHT


def _candidates(
    plan: TunePlan, trials: Sequence[Trial], confidence: float | None = None
) -> list[Trial]:
    """Return the alternatives by the values; with a `confidence` those that keep the limits of
    ``where`` with it.
    """
    if plan.alternative is None or judged_champion(trials) is None:
        return []
    kept = len(plan.alternative.no_worse)
    return better_alternatives(plan.aim, trials, kept, confidence)


def keep_equally_good(
    command: Command, searched: Searched, steps: Steps, document: dict[str, Any]
) -> dict[str, Any] | None:
    """Keep models that are as good as a published one, so that cases can ask them; return their
    number and digest. `steps` are those of the search.
    """
    plan = searched.plan
    ending = command.ending
    champion = judged_champion(searched.trials)
    if not keeps_models(plan.alternative) or champion is None or ending.error is not None:
        return None
    assert plan.alternative is not None, "an alternative is searched"
    good = equally_good(plan.aim, searched.trials, len(plan.alternative.no_worse))
    is_over = time_for_keeping(command.budget)
    command.progress.stage = "training equally good models"
    kept = None
    with ending.kept(), described(command.progress.line):
        try:
            kept = keep_models(plan, champion, good, searched.rows.count, steps, ending, is_over)
        except Exception as error:  # noqa: BLE001 - an extra: the answer has been written
            reason = str(describe_fault(error) if not isinstance(error, EvenhandError) else error)
            command.verdict.notes.append(f"no equally good models were kept: {reason}")
    if ending.error is not None:
        document["interrupted"] = True
        command.verdict.exit_code = 4
        command.verdict.error = ending.message(plan.target)
    ending.heed_interrupts()
    return kept


def add_certificate(
    searched: Searched, store: Store, document: dict[str, Any], held: HeldSearch
) -> None:
    """Add what the search shows about alternatives; nothing where it is for other models, or the
    champion was not judged.
    """
    plan = searched.plan
    alternative = plan.alternative
    champion = judged_champion(searched.trials)
    if alternative is None or champion is None:
        return
    content = certificate(
        plan.aim,
        alternative,
        searched.trials,
        searched.stream,
        seed=plan.resolved.job.seed,
        has_group_rule=plan.resolved.job.decision.equal is not None,
    )
    level = plan.confidence or UTILITY_CONFIDENCE
    content["held_sought"] = has_chance(alternative, level) and held.is_complete
    if held.alternative is not None:
        content["held"] = held.alternative.to_json(plan.aim, champion)
        content["held_sought"] = True
    content["not_held"] = why_not_held(searched, held)
    as_good = equally_good(plan.aim, searched.trials, len(alternative.no_worse))
    good = different_settings(plan, champion, as_good, searched.rows.count)
    reference = decisions_of(plan, searched.rows, store, [champion])
    if reference:
        data = read_dataset(store.fetch(searched.rows.train))
        content["multiplicity"] = multiplicity_document(
            reference[0],
            decisions_of(plan, searched.rows, store, compared(good, plan.resolved.job.seed)),
            data.sensitive,
            plan.resolved.job.evaluate.min_cell,
            len(good),
            data.people if data.counts_people else None,
        )
    content["space"] = facts_of_space(searched.rows.plan.methods)
    content["table"] = searched.rows.identity["table"]
    content["study"] = searched.study.folder.name
    content["rows"] = searched.rows.count
    content["folds"] = searched.rows.folds
    content["rules"] = names_of_rules(searched.rows.plan.judged_under)
    content["min_cell"] = plan.resolved.job.evaluate.min_cell
    content["allowed"] = plan.tune.alternative_gap
    wanted = plan.tune.until_gain
    content["until_gain"] = None
    if wanted is not None:
        settings = len(searched.stream)
        is_reached = is_gain_reached(plan.aim, searched.trials, settings, wanted)
        content["until_gain"] = {"asked": wanted, "is_reached": is_reached}
    document["alternative"] = content


def record_alternative(document: Mapping[str, Any], store: Store) -> None:
    """Add the result to the chain of the published model that it is about, if it is about one."""
    model = document["alternative"]["model"]
    if model is None or model["version"] is None:
        return
    # imported lazily: other searches need no registry
    from evenhand.tasks.registry.client import registry_client, tracking_uri
    from evenhand.tasks.registry.ledger import append

    text = json.dumps(document["alternative"], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    with registry_client(tracking_uri(store)) as client:
        append(client, model["name"], "alternative", record_content(document, digest))


def names_of_rules(rules: Sequence[Rule]) -> list[str]:
    """Return the rules of decisions with their tolerances, and the calibrations that were tried."""
    tolerances: dict[str, list[float]] = {}
    calibrations = set()
    for rule in rules:
        of_rule = tolerances.setdefault(rule.decision, [])
        if rule.tolerance is not None and rule.tolerance not in of_rule:
            of_rule.append(rule.tolerance)
        if rule.calibration is not None:
            calibrations.add(f"calibration {rule.calibration}")
    names = []
    for decision in sorted(tolerances):
        numbers = [f"{tolerance:g}" for tolerance in sorted(tolerances[decision])]
        names.append(f"{decision} within {', '.join(numbers)}" if numbers else decision)
    return [*names, *sorted(calibrations)]


def judge_gap(content: Mapping[str, Any], verdict: Verdict) -> None:
    """Let the verdict refuse a champion whose best alternative has too much less disparity."""
    allowed = content["allowed"]
    if allowed is None or content["alternative_gap"] <= allowed or verdict.exit_code in (2, 4):
        return
    verdict.exit_code = 1
    verdict.error = (
        f"alternative_gap is {content['alternative_gap']:.3g}, above {allowed:g}: {content['to']} "
        f"has {content['metric']} {content['champion']['value']:.3g}, and number "
        f"{content['best']['number']}, which is no worse on the same rows, "
        f"{content['best']['value']:.3g}{_held_words(content)}."
    )


def _held_words(content: Mapping[str, Any]) -> str:
    """Say how far the alternative is that is no worse on unseen rows, where one is known."""
    held = content["held"]
    if held is None:
        return ""
    return f" (of those that are no worse on unseen rows too, at best {held['value']:.3g})"
