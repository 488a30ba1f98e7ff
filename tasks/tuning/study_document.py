"""The results of a search as plain JSON, and what they say in words: ``tuning.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.tuning.space import Space
from evenhand.fairlib.tuning.study import (
    CONFIDENCE,
    MOST_COST,
    Aim,
    Limit,
    Trial,
    best,
    costs,
    front,
    is_share,
    nearest,
    probability_text,
    settled,
    shown_chance,
    standings,
)
from evenhand.tasks.pages.fronts.tune_front import asked_limits, holds, label_of, trial_of
from evenhand.tasks.tuning.trial_search import JOB


def study_document(
    identity: Mapping[str, Any],
    prefer: str | None,
    study: str,
    trials: Sequence[Trial],
    winner: Trial | None = None,
    *,
    confidence: float | None = None,
) -> dict[str, Any]:
    """Return the content of ``tuning.json``: plain JSON, with all trials.

    `identity` is what the study was begun with; `prefer` a metric to choose the winner by, unless a
    `winner` is given. Limits are said to be kept by the `confidence`, by default that of the study.
    """
    study_aim = aim_of(identity)
    # studies of older versions, and searches for no alternative, lack it
    of_model = identity.get("no_worse", 0)
    aim = settled(study_aim, trials)
    first = prefer or aim.objectives[0]
    winner = winner or best(aim, trials, prefer)
    close = nearest(aim, trials)
    chosen = winner
    if chosen is None:
        chosen = close
    chosen_standings: list[dict[str, Any]] = []
    if chosen is not None:
        stated_aim = study_aim
        if confidence is not None:
            stated_aim = replace(study_aim, confidence=confidence)
        chosen_standings = _standings(stated_aim, chosen, of_model)
    metrics = list(dict.fromkeys([*aim.metrics, first]))
    return {
        **{key: identity[key] for key in ("job", "level", "methods", "decisions", "halving")},
        "study": study,
        "aim": str(aim),
        "objectives": list(aim.objectives),
        "prefer": first,
        "limits": _limit_rows(aim, of_model),
        "confidence": aim.confidence_of_search,
        "confidence_asked": confidence or study_aim.confidence,
        "trials": [_trial_row(aim, trial, metrics) for trial in trials],
        "front": [trial.number for trial in front(aim, trials)],
        "winner": _number_of(winner),
        "nearest": _number_of(close),
        "within_limits": winner is not None,
        "standings": chosen_standings,
        "costs": costs(aim, trials, first),
        "test": None,
        "test_rows": None,
        "test_controls": {},
        "repeats": [],
        "unmeasured": None,
        "interrupted": False,
        "first_answer_seconds": None,
        "first_answer_cpu_seconds": None,
        "first_within_seconds": None,
        "first_within_cpu_seconds": None,
        "unrepeated": None,
        # a sentence of the tuned job's description, after how it stands to its limits
        "caveat": None,
        "gates": None,
        "notes": [],
        "seconds": round(sum(trial.seconds for trial in trials if trial.rule == 0), 1),
    }


def aim_of(identity: Mapping[str, Any]) -> Aim:
    """Return what a study looks for, by what it was begun with."""
    stored = identity["aim"]
    limits = tuple(Limit(**limit) for limit in stored["limits"])
    # studies of older versions have another key, and no confidence
    return Aim(tuple(stored["objectives"]), limits, stored.get("confidence"), identity["level"])


def _trial_row(aim: Aim, trial: Trial, metrics: Sequence[str]) -> dict[str, Any]:
    """Return a trial as plain JSON, with these metrics, its label, and by how much it misses."""
    row = vars(trial) | {"metrics": {name: trial.metrics.get(name, {}) for name in metrics}}
    row |= {"number": trial.number, "label": label_of(row)}
    row["miss"] = None
    if trial.metrics:
        row["miss"] = aim.miss(trial.metrics)
    return row


def _limit_rows(aim: Aim, of_model: int) -> list[dict[str, Any]]:
    """Return the limits as plain JSON; the first `of_model` are marked as following from the
    metrics of a model on these rows.
    """
    rows = []
    for place, limit in enumerate(aim.limits):
        rows.append(asdict(limit) | {"text": str(limit), "of_model": place < of_model})
    return rows


def _number_of(trial: Trial | None) -> str | None:
    if trial is None:
        return None
    return trial.number


def _standings(aim: Aim, chosen: Trial, of_model: int = 0) -> list[dict[str, Any]]:
    """Return how the chosen trial stands to each limit, as plain JSON.

    To the first `of_model` limits there is no chance: they are values of a model on these rows, and
    unseen rows would change both.
    """
    rows = []
    for place, standing in enumerate(standings(aim, chosen.metrics)):
        row = {
            "limit": str(standing.limit),
            "metric": standing.limit.metric,
            "value": standing.value,
            "end": standing.end,
            "chance": standing.chance,
            "kept_by": standing.kept_by,
            "missed_by": standing.missed_by,
            "text": str(standing),
        }
        if place < of_model and standing.kept_by is not None:
            row["chance"] = None
            row["kept_by"] = "model"
            value = f"value {standing.value:.3g}"
            row["text"] = f"{standing.limit}: kept, on the same rows as the model ({value})"
        rows.append(row)
    return rows


def caveats(document: Mapping[str, Any]) -> list[str]:
    """Return what the tuned job has to say of itself: how it stands to the limits, and what was not
    measured.
    """
    texts = []
    if not document["within_limits"]:
        texts.append("A compromise: no trial is within the limits, which are gates of this job.")
    if document["standings"]:
        rows = [row["text"] for row in document["standings"] if row["kept_by"] != "proof"]
        if rows:
            texts.append(f"On validation rows {'; '.join(rows)}.")
        proved = [row["text"] for row in document["standings"] if row["kept_by"] == "proof"]
        if proved:
            texts.append(f"Of the trained model {'; '.join(proved)}.")
    if document["caveat"] is not None:
        texts.append(document["caveat"])
    if document["unmeasured"] is not None:
        texts.append("Not measured on test rows yet.")
    return texts


def exit_code_of(document: Mapping[str, Any]) -> int:
    """Return 0 for an answer within the limits, 1 if its value misses one, 3 if the evidence is too
    thin.
    """
    if document["within_limits"]:
        return 0
    for row in document["standings"]:
        if row["value"] is not None and row["kept_by"] is None:
            return 1
    return 3


def compromise(document: Mapping[str, Any], target: Path) -> str:
    """Say in one line that the answer is not within the limits, by how much, and where it is."""
    count = len(document["trials"])
    misses = [row["text"] for row in document["standings"] if row["kept_by"] is None]
    advice = ""
    if not misses:
        # by their values they are kept, with a smaller chance than was asked for
        shown = ("chance", "model")
        misses = [row["text"] for row in document["standings"] if row["kept_by"] not in shown]
        advice = f"; no trial reaches --confidence {document['confidence']:g}"
    return (
        f"{_none_of(count)} within the limits: the best compromise, number "
        f"{document['nearest']}, is in {target}; {'; '.join(misses)}{advice}."
    )


def _none_of(count: int) -> str:
    """Begin a sentence on none of so many trials."""
    if count == 1:
        return "the only trial is not"
    return f"none of {count} trials is"


def interrupted_answer(target: Path) -> str:
    """Say in one line that the command was interrupted, where its answer is, and how to go on."""
    return (
        f"interrupted: the best so far is in {target}; the same command with --force goes on, the "
        "finished trials are kept."
    )


def failed_answer(reason: str, target: Path) -> str:
    """Say in one line why the command could not go on, where its answer is, and how to go on."""
    return (
        f"{reason.rstrip('.')}: the best so far is in {target}; the same command with --force goes "
        "on, the finished trials are kept."
    )


def nothing_judged(
    trials: Sequence[Trial], target: Path | None = None, *, is_kept: bool = False
) -> str:
    """Say in one line why no model could be judged, and which job is left in the `target`: one with
    default settings, or that of an earlier search, which `is_kept`.
    """
    errors = [trial.error for trial in trials if trial.error]
    text = f"no trial could be judged: {errors[0]}"
    if target is None:
        return text
    if is_kept:
        return f"{text.rstrip('.')}; {target} of an earlier search was kept"
    return (
        f"{text.rstrip('.')}; {target} has default settings that were not judged, with the limits "
        "as gates"
    )


def written_meanwhile(target: Path) -> str:
    """Say in one line that another command has written the job's file during the search."""
    return (
        f"{target} was written by another command during the search, and was not overwritten: the "
        "same command with --force overwrites it, the finished trials are kept."
    )


ONE_MODEL = "one model was judged"
READ = "the table was read, checked and encoded"


def no_time_for_champion(time_limit: str) -> str:
    """Say in one line that a search for alternatives ended before it knew what to compare with."""
    return (
        f"the {time_limit} ended before the champion was judged: run the same command again, which "
        "goes on from the finished steps, or give more --minutes."
    )


def no_time_and_kept(what: str, time_limit: str, target: Path) -> str:
    """Say in one line before what the search ended, and that the job of an earlier one is left."""
    return (
        f"the {time_limit} ended before {what}: {target} of an earlier search was kept; the same "
        "command with --force goes on from the finished steps, or give more --minutes."
    )


def no_time_for(what: str, time_limit: str, target: Path | None) -> str:
    """Say in one line before what the search ended, and which job is left."""
    if target is None:
        return "no model but the majority-class baseline was judged: give more --trials."
    return (
        f"the {time_limit} ended before {what}: {target} has default settings that "
        "were not judged, with the limits as gates; the same command with --force goes on from the "
        "finished steps, or give more --minutes."
    )


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Say what the reader must know of the answer: what had no time, what won, and what is not
    certain.
    """
    winner = trial_of(document, document["winner"])
    chosen = winner or trial_of(document, document["nearest"])
    notes = _notes_on_time(document, chosen)
    notes += _notes_on_untried(document) + _notes_on_failed_rules(document)
    notes += _notes_on_left_out(document, chosen)
    if winner is not None:
        notes += _notes_on_preference(document)
        if "alternative" not in document:
            # that leaving out columns is enough is no answer to whether there is an alternative
            notes += _notes_on_winner(document, winner)
        if winner["state"] == "judged":
            notes += _notes_on_evidence(document)
    return notes + _notes_on_test(document) + _notes_on_gates(document)


def _notes_on_time(document: Mapping[str, Any], chosen: Mapping[str, Any] | None) -> list[str]:
    notes = [document[key] for key in ("unmeasured", "unrepeated") if document[key] is not None]
    if chosen is not None and chosen["state"] == "partial":
        notes.append(
            "there was no time to judge this model on all folds: it was judged on a part of the "
            "training rows, without intervals; the same command goes on from there"
        )
    return notes


def _notes_on_left_out(document: Mapping[str, Any], chosen: Mapping[str, Any] | None) -> list[str]:
    """Name the groups that objectives and limits do not compare: on the validation rows, and those
    metrics that compare all there on the test rows.
    """
    if chosen is None:
        return []
    names = [*document["objectives"], *(limit["metric"] for limit in document["limits"])]
    on_test = document["test"] or {}
    notes = []
    for name in dict.fromkeys(names):
        left_out = chosen["metrics"].get(name, {}).get("left_out")
        left_out_of_test = on_test.get(name, {}).get("left_out")
        if left_out:
            notes.append(f"{name} does not compare {left_out}")
        elif left_out_of_test:
            notes.append(f"on the test rows {name} does not compare {left_out_of_test}")
    return notes


def _notes_on_untried(document: Mapping[str, Any]) -> list[str]:
    """Name the searched methods with mitigation of which no model was begun."""
    tried = {trial["method"] for trial in document["trials"]}
    has_job = any(trial["kind"] == JOB for trial in document["trials"])
    untried = []
    for name in document["methods"] or ():
        if METHODS[name].plain != name and name not in tried:
            untried.append(name)
    # the job as it is may be of any of them
    if not untried or has_job:
        return []
    return [
        f"no model of {' and '.join(untried)} was tried: the search ended before, or had no time "
        "for one (a method that is compiled takes longer once)"
    ]


def _notes_on_failed_rules(document: Mapping[str, Any]) -> list[str]:
    """Say of each rule of decisions that no model could be judged under, why that is so."""
    errors: dict[str, str] = {}
    judged = set()
    for trial in document["trials"]:
        if trial["error"] is None:
            judged.add(trial["decision"])
        else:
            errors.setdefault(trial["decision"], trial["error"])
    notes = []
    for decision, error in errors.items():
        if decision not in judged:
            name = decision.replace("_", " ")
            notes.append(f"no model could be judged under the rule {name}: {error.rstrip('.')}")
    return notes


def _notes_on_preference(document: Mapping[str, Any]) -> list[str]:
    """Say how many trials cannot win, as the metric that chooses was not measured of them."""
    missing = len(_without_preferred(document))
    if missing == 0:
        return []
    trials = "1 trial has"
    if missing > 1:
        trials = f"{missing} trials have"
    return [
        f"{trials} no number for {document['prefer']}, which was not asked for before, and could "
        "not be chosen: --study NAME with a limit of time begins a study that has it"
    ]


def _without_preferred(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the trials on all folds without a number for a preferred metric that is no objective
    or limit: those were judged before it was asked for.
    """
    name = document["prefer"]
    limited = [limit["metric"] for limit in document["limits"]]
    if name in document["objectives"] or name in limited:
        return []
    without = []
    for trial in document["trials"]:
        is_rival = trial["state"] == "judged" and trial["kind"] != "majority"
        # a metric that was measured and has no number, as of too few people, is there
        if is_rival and not trial["metrics"][name]:
            without.append(trial)
    return without


def _notes_on_winner(document: Mapping[str, Any], winner: Mapping[str, Any]) -> list[str]:
    """Say that no mitigation is needed, unless that was judged on a part of the rows only, or no
    other model was compared on all folds.
    """
    texts = {
        "plain": "no mitigation is needed: the control without it is the best within the limits",
        "blind": (
            "leaving out the sensitive columns is enough: no method does better within the limits, "
            "and the tuned job has them under leave_out"
        ),
    }
    if winner["state"] == "partial" or winner["kind"] not in texts:
        return []
    compared = [
        trial
        for trial in document["trials"]
        if trial["state"] == "judged" and trial["kind"] not in ("majority", *texts)
    ]
    if not compared or _without_preferred(document):
        return []
    return [texts[winner["kind"]]]


def _notes_on_evidence(document: Mapping[str, Any]) -> list[str]:
    """Say that limits are kept by less than was looked for."""
    if not document["limits"] or document["confidence_asked"] is not None:
        return []
    if document["confidence"] >= CONFIDENCE:
        return []
    chances = []
    for row in document["standings"]:
        if row["chance"] is None:
            chances.append(f"P({row['limit']}) is not known")
        else:
            chances.append(probability_text(row["limit"], row["chance"]))
    objective = document["objectives"][0]
    loss = ""
    cure = ""
    if is_share(objective):
        loss = f" and loses at most {MOST_COST:g} of {objective} for it"
        cure = f" (--confidence {CONFIDENCE:g} ignores the loss)"
    return [
        f"no trial keeps the limits on unseen rows with a chance of {shown_chance(CONFIDENCE)}"
        f"{loss}, which more rows would allow{cure}: of the winner {', '.join(chances)}"
    ]


def _notes_on_gates(document: Mapping[str, Any]) -> list[str]:
    """Say that limits are no gates, where an answer within them may miss them on the test rows."""
    if not document["within_limits"]:
        return []
    evidence = {row["limit"]: row["kept_by"] for row in document["standings"]}
    measured = document["test"] or {}
    gates = []
    for limit in asked_limits(document):
        kept_by = evidence.get(limit["text"])
        if kept_by in (None, "proof"):
            # what screens trials for a proof is no limit of the user's; a proved one is a gate
            continue
        value = measured.get(limit["metric"], {}).get("value")
        is_missed = value is not None and not holds(limit, measured)
        if is_missed or kept_by == "value":
            key = "min" if limit["sign"] == ">=" else "max"
            gates.append(f"{limit['metric']}: {{{key}: {limit['value']:.12g}}}")
    if not gates:
        return []
    those = "it" if len(gates) == 1 else "one of them"
    return [
        f"only a compromise has its limits as gates: write `{', '.join(gates)}` under gates of the "
        f"tuned job, and `evenhand run` publishes no model that misses {those} on the test rows"
    ]


def _notes_on_test(document: Mapping[str, Any]) -> list[str]:
    """Say which gates and limits the test rows miss."""
    notes = []
    if document["gates"] not in (None, "passed"):
        notes.append(
            "the job’s gates do not pass on the test rows: `evenhand run` would not publish it"
        )
    measured = document["test"] or {}
    for limit in asked_limits(document):
        if limit["metric"] not in measured:
            continue
        value = measured[limit["metric"]]["value"]
        if value is None:
            notes.append(
                f"whether the test rows keep {limit['text']} is not known: too few people are "
                "comparable there"
            )
        elif not holds(limit, measured):
            notes.append(
                f"on the test rows {limit['metric']} is {value:.3f}, which misses {limit['text']}"
            )
    return notes


def facts_of_space(methods: Mapping[str, Space]) -> list[list[str]]:
    """Return the searched parameters of each method, as names and values."""
    spaces = []
    for name, space in methods.items():
        ranges = []
        for key, dimension in space.items():
            text = f"{key}: {dimension}"
            if getattr(dimension, "log", False):
                text += " (logarithmic)"
            ranges.append(text)
        spaces.append([f"Space of {name}", "; ".join(ranges) or "nothing to search"])
    return spaces
