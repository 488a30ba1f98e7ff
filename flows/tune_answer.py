"""The answer of a search: it is proved, measured on the test rows, and its job is written."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenhand.fairlib.evaluation.group_selection import MOST_NAMED, left_out_text
from evenhand.fairlib.tuning.study import Trial, answer
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Steps
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.run import run_to_gate
from evenhand.flows.tune_champion import HeldSearch, chosen_alternative, stated_confidence
from evenhand.flows.tune_deadline import PAGELESS, Deadline, PreparedAnswer, write_whole
from evenhand.flows.tune_equally_good import keeping_seconds
from evenhand.flows.tune_job import tuned_text, unjudged_text
from evenhand.flows.tune_plan import TunePlan
from evenhand.flows.tune_proofs import NO_TIME, NOT_PROVED, Proofs, proved_answer
from evenhand.flows.tune_search import Rows
from evenhand.flows.tune_shared import Command, Searched
from evenhand.tasks.errors import NotCarriedOut, OutOfTime
from evenhand.tasks.tuning.study_document import (
    ONE_MODEL,
    caveats,
    compromise,
    exit_code_of,
    no_time_and_kept,
    no_time_for,
    no_time_for_champion,
    nothing_judged,
    study_document,
    written_meanwhile,
)
from evenhand.tasks.tuning.trial_search import Study

# Of the alternative that is left where the time ends before it is compared with the model.
UNEXAMINED = "Not examined: whether it is no worse than the model on unseen rows too."
UNMEASURED = (
    "the {} before the model was trained on all training rows and measured on the test rows: "
    "`evenhand run` does both"
)

UNREPEATED = "{} of {} repeats with other seeds were not run: the command ended before them"


def unjudged_answer(plan: TunePlan, what: str = ONE_MODEL) -> PreparedAnswer:
    """Return the job that is written if the time ends before `what`."""
    if plan.alternative is not None:
        return PreparedAnswer(plan.target, None, 4, no_time_for_champion(plan.time_limit))
    if plan.target.exists():
        # of an earlier search, which may have judged it
        message = no_time_and_kept(what, plan.time_limit, plan.target)
        return PreparedAnswer(plan.target, None, 4, message)
    message = no_time_for(what, plan.time_limit, plan.target)
    return PreparedAnswer(plan.target, unjudged_text(plan), 4, message, plan.overwrites)


def write_unjudged(plan: TunePlan, what: str, deadline: Deadline | None) -> str:
    """Write that job, where the time is limited; return the line for the reader."""
    if not plan.time_limit:
        return no_time_for(what, "", None)
    prepared = unjudged_answer(plan, what)
    _write(prepared, deadline)
    return prepared.message


def left_unjudged(command: Command, plan: TunePlan, trials: Sequence[Trial]) -> str:
    """Write the job that is left where no model could be judged in a limited time; return the line
    for the reader.
    """
    if not plan.time_limit or plan.alternative is not None:
        return nothing_judged(trials)
    message = nothing_judged(trials, plan.target, is_kept=plan.target.exists())
    prepared = replace(unjudged_answer(plan), exit_code=3, message=message)
    _write(prepared, command.deadline)
    return message


def prepare_best(
    plan: TunePlan, rows: Rows, study: Study, deadline: Deadline, trials: Sequence[Trial]
) -> None:
    """Let the deadline write the job of the best trial so far."""
    alternative = chosen_alternative(plan, trials, HeldSearch())
    chosen = alternative or answer(plan.aim, trials, plan.tune.prefer)
    assert chosen is not None, "there is another answer"
    document = study_document(
        rows.identity,
        plan.tune.prefer,
        study.folder.name,
        trials,
        alternative,
        confidence=stated_confidence(plan),
    )
    if plan.alternative is not None:
        document["caveat"] = UNEXAMINED
    document["unmeasured"] = UNMEASURED.format("time ended")
    if plan.proofs:
        Proofs(plan.proofs, chosen, reason=NO_TIME).add_to(document)
    message = f"the {plan.time_limit} ended: the best so far is in {plan.target}, without a page."
    text = _job_text(plan, chosen, rows, document)
    code = prepared_code(plan, document)
    deadline.prepare(PreparedAnswer(plan.target, text, code, message, plan.overwrites))


def prepared_code(plan: TunePlan, document: Mapping[str, Any]) -> int:
    """Return the exit code where the time ends after the answer is known: where an alternative is
    searched, it was not compared with the model yet.
    """
    if plan.alternative is not None:
        return 4
    return exit_code_of(document)


def _job_text(plan: TunePlan, chosen: Trial, rows: Rows, document: Mapping[str, Any]) -> str:
    """Return the content of the tuned job."""
    content = json.dumps([rows.identity, document["trials"]])
    digest = hashlib.sha256(content.encode()).hexdigest()
    made = {"study": document["study"], "digest": digest}
    is_compromise = not document["within_limits"]
    return tuned_text(
        plan, chosen, rows.count, made, caveats(document), is_compromise=is_compromise
    )


def write_job(
    command: Command, searched: Searched, chosen: Trial, document: dict[str, Any]
) -> None:
    """Write the job of the answer, and put its file and the exit code into the verdict."""
    plan = searched.plan
    ending = command.ending
    verdict = command.verdict
    if ending.error is not None:
        document["interrupted"] = True
    if ending.error is not None and document["test"] is None:
        document["unmeasured"] = UNMEASURED.format(ending.event())
    text = _job_text(plan, chosen, searched.rows, document)
    code = prepared_code(plan, document)
    message = PAGELESS.format(plan.target)
    _write(PreparedAnswer(plan.target, text, code, message, plan.overwrites), command.deadline)
    ending.written = plan.target
    verdict.artifacts["tuned"] = str(plan.target)
    verdict.exit_code = exit_code_of(document)
    if verdict.exit_code:
        verdict.error = compromise(document, plan.target)
    if ending.error is not None:
        verdict.exit_code = 4
        verdict.error = ending.message(plan.target)
    if command.deadline is not None:
        command.deadline.written(max(verdict.exit_code, prepared_code(plan, document)))


def _write(prepared: PreparedAnswer, deadline: Deadline | None) -> None:
    """Write the job of an answer, which the deadline then has not to write any more.

    Raises `NotCarriedOut` where another command has written the file meanwhile.
    """
    if deadline is not None:
        deadline.prepare(prepared)
    try:
        write_whole(prepared)
    except FileExistsError:
        raise NotCarriedOut(written_meanwhile(prepared.target)) from None
    if deadline is not None:
        deadline.prepare(replace(prepared, text=None))


def prove_and_measure(
    command: Command, searched: Searched, chosen: Trial, document: dict[str, Any]
) -> Trial:
    """Prove the answer where there are limits on proved certificates, and measure it on the test
    rows, unless the command ends before; return it.
    """
    plan = searched.plan
    budget = command.budget
    ending = command.ending
    budget.reserve = budget.writing
    if plan.proofs:
        command.progress.stage = "proving the answer"
        is_proved = False
        with ending.kept():
            chosen = _prove(command, searched, document)
            is_proved = True
        if not is_proved:
            reason = NOT_PROVED.format(ending.event())
            Proofs(plan.proofs, chosen, reason=reason).add_to(document)
    if ending.error is None:
        command.progress.stage = "measuring the answer on the test rows"
        with ending.kept():
            _measure_in_time(command, searched, chosen, document)
    return chosen


def _prove(command: Command, searched: Searched, document: dict[str, Any]) -> Trial:
    """Prove the best trials until one keeps the limits on certificates; return the answer, and put
    how it stands to them into the document.
    """
    plan = searched.plan
    rows = searched.rows
    ended = command.ending.event() if command.ending.error is not None else ""
    proofs = proved_answer(
        plan, searched.trials, rows.count, command.engine, command.store, ended=ended
    )
    study = searched.study.folder.name
    # how the trial that was proved stands to the other limits
    changed = study_document(rows.identity, plan.tune.prefer, study, searched.trials, proofs.trial)
    for key in ("winner", "standings", "within_limits"):
        document[key] = changed[key]
    proofs.add_to(document)
    return proofs.trial


def _measure_in_time(
    command: Command, searched: Searched, chosen: Trial, document: dict[str, Any]
) -> None:
    """Measure the chosen model on the test rows, and repeat that; say so where the time ended
    before it.
    """
    resolved = searched.plan.tuned(chosen, searched.rows.count)
    repeats = searched.plan.tune.repeats
    try:
        steps = _measure(command, resolved, document)
    except OutOfTime:
        document["unmeasured"] = UNMEASURED.format("time ended")
        if repeats:
            document["unrepeated"] = UNREPEATED.format(repeats, repeats)
        return
    budget = command.budget
    # the repeats leave the time for equally good models
    budget.reserve += keeping_seconds(searched.plan.alternative, chosen, budget)
    try:
        with contextlib.suppress(OutOfTime):
            _repeat(command, resolved, repeats, steps, document)
    finally:
        budget.reserve = budget.writing
        left_out = repeats - len(document["repeats"])
        if left_out:
            document["unrepeated"] = UNREPEATED.format(left_out, repeats)


def _measure(command: Command, resolved: ResolvedJob, document: dict[str, Any]) -> Steps:
    """Train the chosen model on all training rows, and measure it on the test rows; return the
    steps.
    """
    verdict = command.verdict
    steps = Steps(command.store, command.engine)
    decision = run_to_gate(resolved, steps).decision
    measured = steps.read("evaluate", "metrics")
    metrics = measured["metrics"]
    controls = steps.read("evaluate", "controls")["controls"]
    document["test"] = _short(metrics)
    unit = measured.get("settings", {}).get("unit", "rows")
    for name, groups in measured.get("groups", {}).items():
        if groups["left_out"]:
            document["test"][name]["left_out"] = left_out_text(
                groups["left_out"], unit, most=MOST_NAMED
            )
    document["test_rows"] = measured["n"]
    document["test_controls"] = {name: control["metrics"] for name, control in controls.items()}
    verdict.gates = decision
    document["gates"] = decision["verdict"]
    verdict.add_metrics(metrics)
    verdict.seconds |= {name: round(value, 3) for name, value in steps.seconds.items()}
    return steps


def _repeat(
    command: Command, resolved: ResolvedJob, repeats: int, steps: Steps, document: dict[str, Any]
) -> None:
    """Train and measure the chosen model with other seeds, as often as there is time."""
    for number in range(1, repeats + 1):
        if command.budget.search_left <= 0:
            return
        seed = resolved.job.seed + number
        job = resolved.job.model_copy(update={"seed": seed})
        # the same split: rows that the search saw stay out of the measurement
        again = Steps(command.store, command.engine, dict(steps.finished))
        classifier.train_and_measure(resolved.model_copy(update={"job": job}), again)
        metrics = again.read("evaluate", "metrics")["metrics"]
        document["repeats"].append({"seed": seed, "metrics": _short(metrics)})


def _short(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values and intervals of metrics, without their other fields."""
    short = {}
    for name, metric in metrics.items():
        short[name] = {key: metric[key] for key in ("value", "low", "high")}
    return short
