"""The search for a less discriminatory alternative: to which model, what it must keep, and what the
search shows about models that it did not try.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.catalogue import better, describe, possible_gain
from evenhand.fairlib.tuning.quantiles import chance_smaller
from evenhand.fairlib.tuning.study import (
    BY_VALUE,
    UNSEEN,
    Aim,
    Limit,
    Trial,
    answer,
    is_candidate,
)
from evenhand.flows.job import Job
from evenhand.flows.job_file import job_path, load_job, shipped_jobs
from evenhand.flows.resolved_job import ResolvedJob, content_of_proxy, model_digest, resolve
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.tuning.alternatives_text import MOST_SHARE
from evenhand.tasks.tuning.no_worse import NO_WORSE, check_once, read_no_worse
from evenhand.tasks.tuning.trial_search import SCORES

# The metric that an alternative makes smaller by default, of the first sensitive column.
DISPARITY = "gap_max"
# Models without mitigation, and without thresholds by group.
CONTROL_KINDS = ("majority", "plain", "blind")
# Levels of both bounds, and the length of the longer search that the second one is about.
SHARE_LEVEL = 0.95
GAIN_LEVEL = 0.9
LONGER = 10.0
# Most settings whose decisions are counted person by person, and most that are examined for one
# that keeps its utility on unseen rows.
MOST_COMPARED = 300
# Attributes of more groups are in no record.
MOST_RECORDED = 30
MOST_EXAMINED = 3000
# Chance that unseen rows keep the utility, which the alternative of the tuned job has.
UTILITY_CONFIDENCE = 0.9


@dataclass(frozen=True)
class NoWorse:
    """A metric that an alternative keeps, but for so much."""

    metric: str
    by: float

    def limit(self, value: float) -> Limit:
        """The limit on an alternative, where the champion has this value."""
        if better(self.metric) == "higher":
            return Limit(self.metric, ">=", round(value - self.by, 9))
        return Limit(self.metric, "<=", round(value + self.by, 9))

    @property
    def widest(self) -> Limit:
        """A limit that every model keeps, until the champion was judged."""
        low, high = describe(self.metric)[0].domain
        if better(self.metric) == "higher":
            return Limit(self.metric, ">=", -1e9 if low is None else low)
        return Limit(self.metric, "<=", 1e9 if high is None else high)


@dataclass(frozen=True)
class Alternative:
    """To what an alternative is looked for, and what it must keep."""

    to: str  # the job or the model, as the user named it
    job: str  # name of the champion's job
    no_worse: tuple[NoWorse, ...]
    model: Mapping[str, Any] | None = None  # of a published model: name, version, uri, fingerprint


def parse_no_worse(text: str) -> NoWorse:
    """Read ``METRIC by NUMBER``; `InputError` for another form."""
    metric, by = read_no_worse(text)
    return NoWorse(metric, by)


def with_champion(
    job: Job,
    folder: str,
    store_url: str | None,
    given: str = "",
    overrides: Sequence[str] = (),
) -> tuple[Job, str, Alternative | None]:
    """Return the job whose model is the champion, with the search of this one; and its folder.

    `given` is the name or the file by which the user named this job: the same name is this job.
    The champion's job gets the `overrides` of this one too, such as its seed.

    A published model is looked up in the registry of the store at `store_url`, and the searched job
    must have trained it. The champion's job must be of the same table and contract. Raises
    `InputError` if the champion cannot be loaded.
    """
    tune = job.tune
    if tune.alternative_to is None:
        if tune.no_worse or tune.alternative_gap is not None or tune.until_gain is not None:
            raise InputError(
                "no_worse, alternative_gap and until_gain need alternative_to: a job or a model."
            )
        return job, folder, None
    if tune.prefer is not None:
        raise InputError(
            "prefer chooses the winner by a metric, and in a search for alternatives it is the one "
            "with the smallest disparity: leave prefer out, or name another metric by minimize."
        )
    no_worse = tuple(parse_no_worse(text) for text in tune.no_worse or NO_WORSE)
    check_once([item.metric for item in no_worse])
    name = tune.alternative_to
    is_job = job_path(name) is not None or name in shipped_jobs() or name == job.name
    if not is_job:
        model = _published_by(resolve(job, folder), name, store_url)
        return job, folder, Alternative(name, job.name, no_worse, model)
    champion = job
    champion_folder = folder
    if name not in (job.name, given):
        with input_errors(f"alternative_to {name!r} cannot be loaded: ", InputError):
            champion, champion_folder = load_job(name, overrides)
    searched = resolve(job, folder)
    compared_job = resolve(champion, champion_folder)
    same_table = searched.source() == compared_job.source()
    if not same_table or searched.table_contract.digest != compared_job.table_contract.digest:
        raise InputError(
            f"alternative_to {name!r} is a job of another table or contract: an alternative is "
            "measured on the same rows."
        )
    changes: dict[str, Any] = {"tune": tune, "name": job.name}
    changed = champion
    if champion_folder != folder:
        # the tuned job is written next to the searched one: its files are named from there
        changed = compared_job.job
        changes |= {"table": job.table, "contract": job.contract}
    changed = changed.model_copy(update=changes)
    return changed, folder, Alternative(name, champion.name, no_worse)


def _published_by(resolved: ResolvedJob, name: str, store_url: str | None) -> dict[str, Any]:
    """Return the published model of that name, which must be of the job as it is now."""
    # imported lazily: other searches need no registry
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.registry.bundle import open_bundle

    store = Store(store_url)
    with (
        tempfile.TemporaryDirectory() as scratch,
        input_errors(f"alternative_to {name!r} cannot be loaded: ", InputError),
    ):
        bundle = open_bundle(name, store, Path(scratch))
    facts = bundle.evaluation
    if bundle.is_proxy:
        raise InputError(f"alternative_to {name!r} is a proxy, and no classifier.")
    job = resolved.job
    if facts.get("job") != job.name:
        raise InputError(
            f"alternative_to {name!r} was trained by the job {facts.get('job')!r}, and this is "
            f"{job.name!r}: give the job that trained it."
        )
    if _is_of_another_job(facts, resolved, content_of_proxy(resolved, store)):
        raise InputError(
            f"alternative_to {name!r} was trained by another state of the job {job.name!r}, with "
            "another method, parameters, decision, seed, copies, proxy or contract: give the job "
            "file that trained it (JOB.tuned.yaml if that was run), with the overrides of that run."
        )
    return {
        "name": bundle.name,
        "version": bundle.version,
        "uri": bundle.uri,
        "fingerprint": facts.get("data_fingerprint"),
        "method": facts.get("method"),
    }


def _is_of_another_job(facts: Mapping[str, Any], resolved: ResolvedJob, proxy: str | None) -> bool:
    """Whether a published model has other settings than those of the job, or another proxy."""
    if "model_digest" in facts:
        return bool(facts["model_digest"] != model_digest(resolved, proxy))
    # a model of an older version, of which less is known
    known = {
        "method": resolved.method,
        "contract": json.loads(json.dumps(resolved.table_contract.to_dict())),
        "seed": resolved.job.seed,
    }
    return any(facts.get(key) != value for key, value in known.items())


def objectives_of(resolved: ResolvedJob) -> list[str]:
    """Return the disparity that an alternative makes smaller."""
    tune = resolved.job.tune
    if tune.maximize or tune.minimize:
        return [*tune.maximize, *tune.minimize]
    sensitive = list(resolved.contract.sensitive)
    if not sensitive:
        raise InputError("an alternative needs a metric of groups: give --minimize METRIC.")
    return [f"{DISPARITY}.{sensitive[0].name}"]


def provisional(aim: Aim, alternative: Alternative) -> Aim:
    """Return the aim of the search until the champion was judged: the limits are its metrics.

    Values decide, as both models are compared on the same rows, whose noise they share. A
    confidence is asked of the alternative that :func:`held_alternative` chooses.
    """
    limits = tuple(item.widest for item in alternative.no_worse)
    return replace(aim, limits=(*limits, *aim.limits), confidence=BY_VALUE)


def against_champion(aim: Aim, alternative: Alternative, metrics: Mapping[str, Any]) -> Aim:
    """Return the aim with limits by what the champion has; `InputError` without a number."""
    further_limits = aim.limits[len(alternative.no_worse) :]
    objective = aim.objectives[0]
    if metrics.get(objective, {}).get("value") is None:
        raise InputError(
            f"minimize {objective}: there is not enough evidence for this metric of "
            f"{alternative.to}."
        )
    limits = []
    for item in alternative.no_worse:
        value = metrics.get(item.metric, {}).get("value")
        if value is None:
            raise InputError(
                f"no_worse {item.metric}: there is not enough evidence for this metric of "
                f"{alternative.to}."
            )
        limits.append(item.limit(value))
    return replace(aim, limits=(*limits, *further_limits))


# what the search shows


def certificate(
    aim: Aim,
    alternative: Alternative,
    trials: Sequence[Trial],
    stream: Sequence[int],
    *,
    seed: int,
    has_group_rule: bool = False,
) -> dict[str, Any]:
    """Return what was found, and what a longer search of the same space could still gain.

    `stream` are the models of the stream of random settings that count. A setting is a model under
    its best rule of decisions. `has_group_rule` says that the job's own rule of decisions has
    thresholds by group.
    """
    # imported lazily: other searches do not need it
    from evenhand.fairlib.tuning.further_search import gain_bound, share_bound

    metric = aim.objectives[0]
    sign = 1.0 if better(metric) == "higher" else -1.0
    champion = champion_of(trials)
    best = _best_alternative(aim, trials, champion)
    value = champion.metrics[metric]["value"]
    best_value = best.metrics[metric]["value"]
    merits = merits_of(aim.by_value, trials, stream)
    most = possible_gain(metric, best_value)
    gain = gain_bound(merits, sign * best_value, LONGER, most=most, level=GAIN_LEVEL, seed=seed)
    judged = [trial for trial in trials if trial.state == "judged"]
    judged_models = {trial.model for trial in judged}
    with_one_rule = [
        trial
        for trial in trials
        if trial is champion or not decides_by_group(trial, has_group_rule=has_group_rule)
    ]
    best_with_one_rule = _best_alternative(aim, with_one_rule, champion)
    return {
        "to": alternative.to,
        "job": alternative.job,
        "model": alternative.model,
        "metric": metric,
        "no_worse": _kept(aim, alternative, champion),
        "where": [str(limit) for limit in aim.limits[len(alternative.no_worse) :]],
        "methods": sorted({trial.method for trial in judged if trial.method is not None}),
        "champion": {"number": champion.number, "value": value},
        "best": {
            "number": best.number,
            "value": best_value,
            "label": _label(best),
            "by_group": decides_by_group(best, has_group_rule=has_group_rule),
            "chance": chance_of_less(metric, best, champion),
        },
        # the best without thresholds by group; the model itself where there is none
        "best_with_one_rule": {
            "number": best_with_one_rule.number,
            "value": best_with_one_rule.metrics[metric]["value"],
            "label": _label(best_with_one_rule),
        },
        "utility_by_decisions": not all(map(is_of_scores, alternative.no_worse)),
        "seed": seed,
        "alternative_gap": round(abs(best_value - value), 9),
        "models": len({trial.model for trial in trials}),
        "judged_models": len(judged_models),
        "settings": len(judged),
        "distinct": distinct_models(judged),
        "random": len(stream),
        "random_failed": len(set(stream) - judged_models),
        "random_as_good": int(np.isfinite(merits).sum()),
        "share_level": SHARE_LEVEL,
        "share_bound": share_bound(len(stream), SHARE_LEVEL),
        "mean_gain_bound": bound_on_mean_gain(aim, trials, len(stream)),
        "longer": LONGER,
        "gain_level": GAIN_LEVEL,
        "gain_bound": gain.gain,
        "gain_possible": most if math.isfinite(most) else None,
        "gain_reason": gain.reason,
        "tail": gain.tail,
        "shape": gain.shape,
        "p_value": gain.p_value,
        "held": None,
        # whether an alternative that keeps its utility on unseen rows was looked for
        "held_sought": False,
        "multiplicity": None,
    }


def bound_on_mean_gain(aim: Aim, trials: Sequence[Trial], settings: int) -> float | None:
    """Return how much one further random setting would gain at most on average, over the best found
    alternative; None where the metric has no end, or the champion was not judged.

    `settings` is the number of random settings that count.
    """
    # imported lazily: other searches do not need it
    from evenhand.fairlib.tuning.further_search import mean_gain_bound

    champion = judged_champion(trials)
    if champion is None:
        return None
    metric = aim.objectives[0]
    best = _best_alternative(aim, trials, champion)
    most = possible_gain(metric, best.metrics[metric]["value"])
    if not math.isfinite(most):
        return None
    return mean_gain_bound(settings, most, SHARE_LEVEL)


def is_gain_reached(aim: Aim, trials: Sequence[Trial], settings: int, wanted: float) -> bool:
    """Whether one further random setting would gain at most so much on average, by so many random
    settings that they bound the share of better ones at all.
    """
    # imported lazily: other searches do not need it
    from evenhand.fairlib.tuning.further_search import share_bound

    gain = bound_on_mean_gain(aim, trials, settings)
    return gain is not None and gain <= wanted and share_bound(settings, SHARE_LEVEL) < MOST_SHARE


def _label(trial: Trial) -> str:
    """Name a trial, as pages do."""
    # imported lazily: a plan needs no pages
    from evenhand.tasks.pages.fronts.tune_front import label_of

    return label_of(vars(trial))


def decides_by_group(trial: Trial, *, has_group_rule: bool) -> bool:
    """Whether a trial has thresholds by group, so that its decisions depend on the group of a
    person; `has_group_rule` says that the job's own rule has some.
    """
    is_own_rule = trial.decision == "job" and trial.kind not in CONTROL_KINDS
    return trial.tolerance is not None or (is_own_rule and has_group_rule)


def chance_of_less(metric: str, trial: Trial, champion: Trial) -> float | None:
    """Return the chance that a trial has less disparity than the champion on unseen rows, as if the
    two were independent; None where what the metric may be on unseen rows is not known.

    Much of their noise is the same on the same rows, which would move the chance away from a half.
    Of the best of many trials it is too high.
    """
    if trial is champion:
        return None
    quantiles = trial.metrics[metric].get(UNSEEN)
    champion_quantiles = champion.metrics[metric].get(UNSEEN)
    if not quantiles or not champion_quantiles:
        return None
    if better(metric) == "higher":
        return round(chance_smaller(champion_quantiles, quantiles), 4)
    return round(chance_smaller(quantiles, champion_quantiles), 4)


def distinct_models(trials: Sequence[Trial]) -> int:
    """Return how many different models some trials are of: by their values under all rules.

    Settings that hardly differ, such as 5 and 5.0000001, make the same model, and are one.
    """
    values_of: dict[int, list[Any]] = {}
    for trial in sorted(trials, key=lambda item: (item.model, item.rule)):
        values = sorted((name, metric.get("value")) for name, metric in trial.metrics.items())
        values_of.setdefault(trial.model, []).append([trial.rule, values])
    return len({json.dumps(values) for values in values_of.values()})


@dataclass(frozen=True)
class HeldAlternative:
    """An alternative that keeps its utility on unseen rows with a chance of at least the level."""

    trial: Trial
    chance: float
    level: float
    metrics: tuple[str, ...] = ()  # that the chance is of; others are kept by the value

    def to_json(self, aim: Aim, champion: Trial) -> dict[str, Any]:
        """Return its number, its disparity, and its distance to the champion's."""
        metric = aim.objectives[0]
        value = self.trial.metrics[metric]["value"]
        gap = abs(value - champion.metrics[metric]["value"])
        return {
            "number": self.trial.number,
            "value": value,
            "alternative_gap": round(gap, 9),
            "chance": round(self.chance, 4),
            "level": self.level,
            "metrics": list(self.metrics),
            "label": _label(self.trial),
            "chance_of_less": chance_of_less(metric, self.trial, champion),
        }


def better_alternatives(
    aim: Aim, trials: Sequence[Trial], no_worse: int, confidence: float | None = None
) -> list[Trial]:
    """Return the trials within the limits by their values that have less disparity than the
    champion, the least first.

    The first `no_worse` limits are those by the champion's metrics. With a `confidence` the others
    are kept on unseen rows with this chance.
    """
    further = replace(aim, limits=aim.limits[no_worse:], confidence=confidence or BY_VALUE)
    by_value = aim.by_value
    worst = aim.losses(champion_of(trials).metrics)[0]
    alternatives = []
    for trial in trials:
        is_judged = trial.state == "judged" and is_candidate(trial)
        is_within = by_value.miss(trial.metrics) == 0 and further.miss(trial.metrics) == 0
        if is_judged and is_within:
            alternatives.append(trial)
    alternatives = [trial for trial in alternatives if aim.losses(trial.metrics)[0] < worst]
    return sorted(alternatives, key=lambda trial: (aim.losses(trial.metrics), trial.model))


def held_alternative(
    alternative: Alternative,
    trials: Sequence[Trial],
    decisions_of: Callable[[Trial], Bool | None],
    champion: Bool,
    y: np.ndarray,
    *,
    level: float,
    unseen: float,
    favourable: int,
    people: np.ndarray | None = None,
    seed: int,
) -> HeldAlternative | None:
    """Return the first of `trials`, in their order, that is no worse than the champion on unseen
    rows with a chance of at least the `level`.

    `decisions_of` gives a trial's decisions, about the same people as those of the `champion`; None
    where they are lost. A metric that does not follow from decisions counts by its value. `people`
    is the person or place of each row where one may have several. None if there is no such trial.
    """
    # imported lazily: other searches do not need it
    from evenhand.fairlib.execution import generator
    from evenhand.fairlib.tuning.paired_rows import chance_no_worse

    tolerances = {item.metric: item.by for item in alternative.no_worse}
    for trial in trials:
        decisions = decisions_of(trial)
        if decisions is None:
            continue
        chance = chance_no_worse(
            y,
            champion,
            decisions,
            tolerances,
            unseen=unseen,
            favourable=favourable,
            people=people,
            rng=generator(seed, "alternative"),
        )
        if chance is not None and chance >= level:
            return HeldAlternative(trial, chance, level, tuple(counted_metrics(alternative)))
    return None


def has_chance(alternative: Alternative, level: float) -> bool:
    """Whether there is a chance that unseen rows keep the utility: not where the values decide, or
    no metric that is kept follows from decisions.
    """
    return level != BY_VALUE and bool(counted_metrics(alternative))


def counted_metrics(alternative: Alternative) -> list[str]:
    """Return the metrics that an alternative keeps which follow from the decisions about all
    people.
    """
    # imported lazily: other searches do not need it
    from evenhand.fairlib.evaluation.metrics import OVERALL_METRICS

    return [item.metric for item in alternative.no_worse if item.metric in OVERALL_METRICS]


def is_of_scores(item: NoWorse) -> bool:
    """Whether a metric that an alternative keeps follows from scores alone, whatever is decided."""
    return item.metric.partition(".")[0] in SCORES


def _best_alternative(aim: Aim, trials: Sequence[Trial], champion: Trial) -> Trial:
    """Return the trial within the limits by its value that has less disparity than all others and
    the champion; the champion if there is none.
    """
    by_value = aim.by_value
    judged = [trial for trial in trials if trial.state == "judged"]
    best = answer(by_value, judged)
    if best is None or by_value.miss(best.metrics) > 0:
        return champion
    if aim.losses(best.metrics)[0] < aim.losses(champion.metrics)[0]:
        return best
    return champion


def _kept(aim: Aim, alternative: Alternative, champion: Trial) -> list[dict[str, Any]]:
    """Return what an alternative keeps: the champion's value, and the limit that follows."""
    rows = []
    for item, limit in zip(alternative.no_worse, aim.limits, strict=False):
        value = champion.metrics[item.metric]["value"]
        rows.append({"metric": item.metric, "by": item.by, "value": value, "limit": str(limit)})
    return rows


def champion_of(trials: Sequence[Trial]) -> Trial:
    """Return the champion: the job as it is, under its own rule of decisions."""
    champion = judged_champion(trials)
    assert champion is not None, "the champion is the first model"
    return champion


def judged_champion(trials: Sequence[Trial]) -> Trial | None:
    """Return the champion; None where it was not judged."""
    for trial in trials:
        if trial.kind == "job" and trial.rule == 0 and trial.state == "judged":
            return trial
    return None


def merits_of(aim: Aim, trials: Sequence[Trial], models: Sequence[int]) -> np.ndarray:
    """Return the merit of each model under its best rule, larger is better; NaN if it keeps the
    limits under none.
    """
    merits = dict.fromkeys(models, np.nan)
    for trial in trials:
        is_counted = trial.model in merits and trial.state == "judged"
        if not is_counted or aim.miss(trial.metrics) > 0:
            continue
        merit = -aim.losses(trial.metrics)[0]
        if np.isfinite(merit):
            merits[trial.model] = float(np.fmax(merits[trial.model], merit))
    return np.array([merits[model] for model in models], dtype=np.float64)


def equally_good(aim: Aim, trials: Sequence[Trial], count: int) -> list[Trial]:
    """Return the trials that are no worse than the champion: they keep the first `count` limits by
    the value.
    """
    no_worse = replace(aim, limits=aim.limits[:count]).by_value
    champion = champion_of(trials)
    result = []
    for trial in trials:
        is_compared = trial.state == "judged" and is_candidate(trial) and trial is not champion
        if is_compared and no_worse.miss(trial.metrics) == 0:
            result.append(trial)
    return result


def compared(good: Sequence[Trial], seed: int) -> list[Trial]:
    """Return the trials whose decisions are counted: of very many a random part, in their order."""
    # imported lazily: other searches do not need it
    from evenhand.fairlib.execution import generator

    if len(good) <= MOST_COMPARED:
        return list(good)
    drawn = generator(seed, "compared").choice(len(good), MOST_COMPARED, replace=False)
    return [good[place] for place in sorted(drawn.tolist())]


def multiplicity_document(
    reference: Bool,
    decisions: Sequence[Bool],
    groups: Mapping[str, Any],
    min_cell: int,
    as_good: int,
    people: Int | None = None,
) -> dict[str, Any] | None:
    """Return how many of the equally good models decide otherwise, in all and by group; None
    without such a model.

    `decisions` are those of the models that are compared, of which there are `as_good` in all.
    `people` is the person of each row where a person may have several.
    """
    from evenhand.fairlib.tuning.further_search import multiplicity

    if not decisions:
        return None
    columns = {name: np.asarray(values).astype(str) for name, values in groups.items()}
    result = multiplicity(reference, np.stack(decisions), columns, min_cell, people)
    count = len(reference) if people is None else len(np.unique(people))
    return {
        "models": result.models,
        "as_good": max(as_good, result.models),
        "people": count,
        "ambiguity": round(result.ambiguity, 6),
        "discrepancy": round(result.discrepancy, 6),
        "mean": round(result.mean, 6),
        "by_group": result.by_group,
        "min_cell": min_cell,
    }


def record_content(document: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """Return what the chain of a published model keeps of a search for alternatives to it."""
    result = document["alternative"]
    keys = ["metric", "alternative_gap", "models", "judged_models", "random", "methods", "where"]
    keys += ["share_bound", "mean_gain_bound", "gain_bound", "held", "random_failed"]
    content = {key: result[key] for key in keys}
    content["until_gain"] = result.get("until_gain")
    content |= {
        "better": better(result["metric"]),
        "distinct": result["distinct"],
        "min_cell": result["min_cell"],
        "by_group": result["best"]["by_group"],
        "best_with_one_rule": result["best_with_one_rule"]["value"],
        "seed": result["seed"],
        "folds": result["folds"],
        "space": result["space"],
        "rules": result["rules"],
        "version": str(result["model"]["version"]),
        "no_worse": [f"{item['metric']} by {item['by']:g}" for item in result["no_worse"]],
        "value": result["champion"]["value"],
        "best": result["best"]["value"],
        "share_level": result["share_level"],
        "gain_level": result["gain_level"],
        "study": document["study"],
        "digest": digest,
        "kept": result.get("kept"),
    }
    counts = result.get("multiplicity")
    if counts is not None:
        shown = ("models", "as_good", "people", "ambiguity", "discrepancy", "mean", "min_cell")
        content["multiplicity"] = {key: counts[key] for key in shown}
        content["multiplicity"]["by_group"] = _recorded_groups(counts["by_group"])
    return dict(json.loads(json.dumps(content)))


def _recorded_groups(by_group: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the groups that a record names: not those of too few people, and of an attribute with
    very many none.
    """
    recorded = {}
    for attribute, groups in by_group.items():
        shown = {name: group for name, group in groups.items() if group is not None}
        if len(groups) <= MOST_RECORDED:
            recorded[attribute] = shown
    return recorded
