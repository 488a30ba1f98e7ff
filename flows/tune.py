"""Tune: search methods and their parameters on folds of the training rows, and measure the winner
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.fairlib.tuning.budget import Budget, cpu_seconds_of_processes
from evenhand.fairlib.tuning.space import Space
from evenhand.fairlib.tuning.study import CONFIDENCE, Trial, answer
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import (
    Engine,
    RunFolder,
    Steps,
    Verdict,
    recorded_verdict,
)
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.run import prepare, run_to_gate
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
    judged_champion,
    multiplicity_document,
    people_per_row,
    record_content,
)
from evenhand.flows.tune_deadline import PAGELESS, Deadline, PreparedAnswer, write_whole
from evenhand.flows.tune_ending import Ending
from evenhand.flows.tune_equally_good import keep_models, keeps_models, time_for_keeping
from evenhand.flows.tune_plan import TunePlan, notes_of_plan, tuned_text, unjudged_text
from evenhand.flows.tune_proofs import NO_TIME, NOT_PROVED, Proofs, proved_answer
from evenhand.flows.tune_search import (
    LATE_S,
    STUDIES,
    WRITING_S,
    Rows,
    SearchProgress,
    decisions_of,
    judge_in,
    open_study,
    search,
    worker_pool,
    write_study_page,
)
from evenhand.flows.workers import Pool, WorkerPool, cores, steps_until
from evenhand.tasks.errors import InputError, NotCarriedOut, OutOfTime
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.step import (
    IN_THIS_PROCESS,
    ExecutionContext,
    described,
    report_progress,
)
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.alternatives_text import NOT_ALL_SOUGHT, NOT_HELD
from evenhand.tasks.tuning.study_document import (
    ONE_MODEL,
    READ,
    aim_of,
    caveats,
    compromise,
    exit_code_of,
    no_time_for,
    no_time_for_champion,
    notes_of,
    nothing_judged,
    study_document,
    written_meanwhile,
)
from evenhand.tasks.tuning.trial_search import ALL, JOB, Candidate, Study, rounded_metrics

# Imported while the table is read.
CHECKING = ("great_expectations",)
UNMEASURED = (
    "the {} before the model was trained on all training rows and measured on the test rows: "
    "`evenhand run` does both"
)


def execute(
    plan: TunePlan,
    store: Store,
    run_id: str,
    engine: Engine,
    *,
    prefect: bool = False,
    started: float | None = None,
    cpu_before: float | None = None,
    deadline: Deadline | None = None,
) -> Verdict:
    """Search until the time is up, then train the chosen model on all training rows and measure it.

    The search gets the training rows, the fair metric and the encoder; the steps that read the test
    rows run after it. The tuned job is that of the best trial within the limits, or of the best
    compromise, and then it says by how much it misses which limit.

    With a limit of time everything ends within it, counted from `started` (of ``time.monotonic``;
    default: now): steps and judgements run in processes that are killed when their time is up. Then
    the job is written without a measurement on the test rows. CPU seconds are counted from
    `cpu_before` (default: those of this process now). A `deadline` gets the best answer so far.
    Raises `EvenhandError` after the verdict was written.
    """
    if not store.is_local:
        raise InputError(
            f"a study is kept in a folder, and the store {store.url} is remote: use --store FOLDER."
        )
    if started is None:
        started = time.monotonic()
    budget = budget_of(plan, started, cpu_before)
    if deadline is not None:
        deadline.prepare(unjudged_answer(plan))
    steps = Steps(store, engine)
    with (
        Ending() as ending,
        recorded_verdict(store, run_id, steps) as verdict,
        _workers_within(plan, budget, store) as (pool, execution),
    ):
        engine = engine.executing_in(execution)
        steps.engine = engine
        progress = SearchProgress(plan.aim, budget, plan.tune.prefer, plan.tune.trials)
        command = Command(store, engine, verdict, budget, progress, ending, deadline)
        with described(progress.line):
            searched = _searched(command, plan, steps, pool, prefect=prefect)
            progress.stage = "choosing the answer"
            held = _held_in_time(command, searched)
        document = command.ending.finished(partial(_document, searched, held))
        document |= progress.first_answers()
        verdict.status = "evaluated"
        verdict.exit_code = 0
        chosen = _answer(command, searched, held, document)
        command.ending.heed_interrupts()
        kept = None
        if chosen is not None:
            kept = _keep_models(command, searched, steps, document)
        progress.stage = "writing the page"
        with _naming_the_job_file(command, plan), described(progress.line):
            _write_page(command, searched, chosen, held, kept, document)
    if prefect and command.ending.error is not None:
        # the flow run is cancelled, not completed
        raise command.ending.described() from None
    return verdict


@dataclass(frozen=True)
class Command:
    """What the parts of a command share."""

    store: Store
    engine: Engine
    verdict: Verdict
    budget: Budget
    progress: SearchProgress
    ending: Ending
    deadline: Deadline | None


def _answer(
    command: Command, searched: Searched, held: HeldSearch, document: dict[str, Any]
) -> Trial | None:
    """Choose the answer, prove and measure it, and write its job; return its trial.

    Where no model was judged, it is None, and the job has default settings. Raises `NotCarriedOut`
    where there was no time for any.
    """
    plan = searched.plan
    chosen = answer(plan.aim, searched.trials, plan.tune.prefer)
    if held.alternative is not None:
        chosen = held.alternative.trial
    if chosen is None:
        # not of models that were judged on a part of the rows: on all they may have what they lack
        finished = searched.study.trials()
        if not any(trial.error for trial in finished):
            raise NotCarriedOut(_write_unjudged(plan, ONE_MODEL, command.deadline))
        command.verdict.exit_code = 3
        command.verdict.error = _left_unjudged(command, plan, finished)
        return None
    with described(command.progress.line):
        chosen = _prove_and_measure(command, searched, chosen, document)
    command.ending.finished(partial(_write_job, command, searched, chosen, document))
    return chosen


def _keep_models(
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
        kept = keep_models(plan, champion, good, searched.rows.count, steps, ending, is_over)
    if ending.error is not None:
        document["interrupted"] = True
        command.verdict.exit_code = 4
        command.verdict.error = ending.message(plan.target)
    ending.heed_interrupts()
    return kept


def _write_page(
    command: Command,
    searched: Searched,
    chosen: Trial | None,
    held: HeldSearch,
    kept: dict[str, Any] | None,
    document: dict[str, Any],
) -> None:
    """Add what the search shows about alternatives, and write the study and its page."""
    documents: dict[str, Any] = {"tuning": document}
    if chosen is not None:
        _add_certificate(searched, command.store, document, held)
    if "alternative" in document:
        document["alternative"]["kept"] = kept
        documents["alternative"] = document["alternative"]
        _judge_gap(document["alternative"], command.verdict)
    document["seconds"] = round(command.budget.spent, 1)
    methods = searched.rows.plan.methods
    _write_study(searched.plan, methods, documents, command.store, command.verdict)
    if "alternative" in document:
        _record_alternative(document, command.store)
        if command.deadline is not None:
            command.deadline.written(command.verdict.exit_code)


@contextlib.contextmanager
def _naming_the_job_file(command: Command, plan: TunePlan) -> Iterator[None]:
    """After an interrupt or a failure let the verdict name the job file, if it was written."""
    verdict = command.verdict
    ending = command.ending
    if ending.written is None:
        yield
        return
    with ending.kept():
        yield
        return
    verdict.exit_code = 4
    verdict.error = ending.message(plan.target)


def _document(searched: Searched, held: HeldSearch) -> dict[str, Any]:
    """Return what the study has so far, with the answer of its trials."""
    plan = searched.plan
    document = study_document(
        searched.rows.identity,
        plan.tune.prefer,
        searched.study.folder.name,
        searched.trials,
        None if held.alternative is None else held.alternative.trial,
        confidence=_stated_confidence(plan),
    )
    if _is_unheld(searched, held):
        text = NOT_HELD if held.is_complete else NOT_ALL_SOUGHT
        document["caveat"] = f"{text[0].upper()}{text[1:]}."
    return document


def _stated_confidence(plan: TunePlan) -> float | None:
    """The confidence by which limits are said to be kept; None for that of the search."""
    if plan.alternative is None:
        return None
    # values decide what an alternative is, but not what is shown to hold
    return plan.tune.confidence or CONFIDENCE


def _is_unheld(searched: Searched, held: HeldSearch) -> bool:
    """Whether there are alternatives by the values, and none is known that keeps its utility on
    unseen rows.
    """
    alternative = searched.plan.alternative
    if alternative is None or held.alternative is not None:
        return False
    level = searched.plan.tune.confidence or UTILITY_CONFIDENCE
    is_found = bool(
        judged_champion(searched.trials)
        and better_alternatives(searched.plan.aim, searched.trials, len(alternative.no_worse))
    )
    return is_found and has_chance(alternative, level)


def _write_study(
    plan: TunePlan,
    methods: Mapping[str, Space],
    documents: Mapping[str, Any],
    store: Store,
    verdict: Verdict,
) -> None:
    """Write the study as JSON and its page, and put its notes into the verdict; `methods` are those
    that were searched, with their spaces.
    """
    document = documents["tuning"]
    document["notes"] = [*notes_of_plan(plan), *notes_of(document)]
    folder = RunFolder(store, verdict)
    folder.write_json("tuning", "tuning.json", document, "the study as JSON")
    verdict.notes += document["notes"]
    made = [["The search", facts(plan, methods, document)]]
    folder.write_report("tune", documents, {"made": made})


def budget_of(plan: TunePlan, started: float, cpu_before: float | None) -> Budget:
    """Return the time that a search has, counted from its start on both clocks."""
    before = cpu_before
    if before is None:
        before = cpu_seconds_of_processes()
    workers = 1
    if plan.tune.engine == "processes":
        workers = plan.tune.workers or len(cores())
    return Budget(
        plan.seconds,
        started,
        reserve=-LATE_S,
        writing=WRITING_S,
        cpu_seconds=plan.cpu_seconds,
        cpu_clock=lambda: cpu_seconds_of_processes() - before,
        workers=workers,
    )


def unjudged_answer(plan: TunePlan, what: str = ONE_MODEL) -> PreparedAnswer:
    """Return the job that is written if the time ends before `what`."""
    if plan.alternative is not None:
        return PreparedAnswer(plan.target, None, 4, no_time_for_champion(plan.time_limit))
    message = no_time_for(what, plan.time_limit, plan.target)
    return PreparedAnswer(plan.target, unjudged_text(plan), 4, message, plan.overwrites)


def _write_unjudged(plan: TunePlan, what: str, deadline: Deadline | None) -> str:
    """Write that job, where the time is limited; return the line for the reader."""
    if not plan.time_limit:
        return no_time_for(what, "", None)
    prepared = unjudged_answer(plan, what)
    _write(prepared, deadline)
    return prepared.message


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


def _left_unjudged(command: Command, plan: TunePlan, trials: Sequence[Trial]) -> str:
    """Write the job that is left where no model could be judged in a limited time; return the line
    for the reader.
    """
    if not plan.time_limit or plan.alternative is not None:
        return nothing_judged(trials)
    message = nothing_judged(trials, plan.target)
    prepared = replace(unjudged_answer(plan), exit_code=3, message=message)
    _write(prepared, command.deadline)
    return message


@dataclass(frozen=True)
class Searched:
    """A search that has ended: its rows, its study, the trials that the answer is chosen from, and
    the models of the stream of random settings that count.
    """

    plan: TunePlan  # with limits by the champion, where an alternative to one is searched
    rows: Rows
    study: Study
    trials: list[Trial]
    stream: list[int]


def _searched(
    command: Command,
    plan: TunePlan,
    steps: Steps,
    pool: Pool | None,
    *,
    prefect: bool,
) -> Searched:
    """Prepare the rows and search.

    What ends the search early is kept, and the answer is chosen from the trials so far; without any
    it is raised.
    """
    store = command.store
    budget = command.budget
    progress = command.progress
    with contextlib.ExitStack() as stack:
        try:
            prepare(plan.resolved, steps, with_profile=False)
            rows = Rows.read(plan, steps)
            if plan.alternative is not None:
                progress.stage = "judging the champion"
                plan, rows = _against_champion(plan, rows, steps, store, pool, budget)
                progress.aim = plan.aim
        except OutOfTime:
            raise NotCarriedOut(_write_unjudged(plan, READ, command.deadline)) from None
        default = f"{plan.resolved.job.name}-{rows.identity['search'][:10]}"
        study = Study(Path(store.local, STUDIES, plan.tune.study or default))
        progress.stage = "searching"
        with study.held():
            open_study(study, rows)
            _check_preferred(plan, study.trials())
            if plan.searches(bool(study.trials())):
                pool = pool or stack.enter_context(worker_pool(plan, budget))
                on_best = None
                if command.deadline is not None:
                    on_best = partial(_prepare_best, plan, rows, study, command.deadline)
                with command.ending.kept(InputError, OutOfTime):
                    search(
                        plan,
                        rows,
                        study,
                        store,
                        report_progress("tune", prefect=prefect),
                        pool=pool,
                        budget=budget,
                        progress=progress,
                        on_best=on_best,
                    )
            trials = study.answered(plan.aim)
            error = command.ending.error
            if error is not None and answer(plan.aim, trials, plan.tune.prefer) is None:
                raise error
            # while the study is held: another command might go on with it
            return Searched(plan, rows, study, trials, study.stream())


def _check_preferred(plan: TunePlan, trials: Sequence[Trial]) -> None:
    """Refuse to choose by a metric that no trial of the study has: its best ones could not win."""
    name = plan.tune.prefer
    judged = [trial for trial in trials if trial.state == "judged"]
    has_values = [trial.metrics.get(name or "", {}).get("value") is not None for trial in judged]
    if name is not None and judged and not any(has_values):
        raise InputError(
            f"prefer {name}: no trial of this study has a number for it; give --study NAME, and "
            "--minutes, for a study of their own."
        )


def _against_champion(
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


def _held_in_time(command: Command, searched: Searched) -> HeldSearch:
    """Search that alternative, unless the command has ended, or ends before it is found."""
    if command.ending.error is None:
        with command.ending.kept():
            return _held_alternative(searched, command.store, command.budget)
    return HeldSearch()


def _held_alternative(searched: Searched, store: Store, budget: Budget) -> HeldSearch:
    """Search the alternative with the least disparity that keeps its utility on unseen rows; there
    is none where the values decide, or a model is searched for something else.
    """
    plan = searched.plan
    alternative = plan.alternative
    level = plan.tune.confidence or UTILITY_CONFIDENCE
    champion = judged_champion(searched.trials)
    if alternative is None or champion is None or not has_chance(alternative, level):
        return HeldSearch(is_complete=True)
    candidates = better_alternatives(
        plan.aim, searched.trials, len(alternative.no_worse), plan.tune.confidence
    )
    reference = decisions_of(plan, searched.rows, store, [champion])
    if not reference:
        return HeldSearch()
    is_complete = True

    def decided_by(trial: Trial) -> Any:
        nonlocal is_complete
        # the page is not worth more than half of what is kept for it
        if budget.left <= budget.writing / 2:
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
        weight=people_per_row(data.people) if data.counts_people else 1.0,
        seed=plan.resolved.job.seed,
    )
    return HeldSearch(held, is_complete)


def _add_certificate(
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
        plan.aim, alternative, searched.trials, searched.stream, seed=plan.resolved.job.seed
    )
    level = plan.tune.confidence or UTILITY_CONFIDENCE
    content["held_sought"] = has_chance(alternative, level) and held.is_complete
    if held.alternative is not None:
        content["held"] = held.alternative.to_json(plan.aim, champion)
        content["held_sought"] = True
    good = equally_good(plan.aim, searched.trials, len(alternative.no_worse))
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
    content["rules"] = sorted({rule.decision for rule in searched.rows.plan.judged_under})
    content["min_cell"] = plan.resolved.job.evaluate.min_cell
    content["allowed"] = plan.tune.alternative_gap
    document["alternative"] = content


def _record_alternative(document: Mapping[str, Any], store: Store) -> None:
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


def _judge_gap(content: Mapping[str, Any], verdict: Verdict) -> None:
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
    return f" (the best that is shown to be no worse on unseen rows: {held['value']:.3g})"


def _prepare_best(
    plan: TunePlan, rows: Rows, study: Study, deadline: Deadline, trials: Sequence[Trial]
) -> None:
    """Let the deadline write the job of the best trial so far."""
    document = study_document(rows.identity, plan.tune.prefer, study.folder.name, trials)
    chosen = answer(plan.aim, trials, plan.tune.prefer)
    assert chosen is not None, "there is another answer"
    document["unmeasured"] = UNMEASURED.format("time ended")
    if plan.proofs:
        Proofs(plan.proofs, chosen, reason=NO_TIME).add_to(document)
    message = f"the {plan.time_limit} ended: the best so far is in {plan.target}, without a page."
    text = _job_text(plan, chosen, rows, document)
    code = _prepared_code(plan, document)
    deadline.prepare(PreparedAnswer(plan.target, text, code, message, plan.overwrites))


def _prepared_code(plan: TunePlan, document: Mapping[str, Any]) -> int:
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


def _write_job(
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
    code = _prepared_code(plan, document)
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
        command.deadline.written(max(verdict.exit_code, _prepared_code(plan, document)))


@contextlib.contextmanager
def _workers_within(
    plan: TunePlan, budget: Budget, store: Store
) -> Iterator[tuple[Pool | None, ExecutionContext]]:
    """Yield the workers that judge models, if any, and the execution context of steps.

    With a limit of time the workers run the steps too, and are killed in time for writing the
    answer; without one, steps run in this process. On a Dask cluster there is one more process for
    the steps.
    """
    with contextlib.ExitStack() as stack:
        pool: Pool | None = None
        if budget.is_limited or plan.searches(True):
            pool = stack.enter_context(worker_pool(plan, budget))
        if not budget.is_limited:
            yield pool, IN_THIS_PROCESS
            return
        assert pool is not None, "a time limit needs a worker"
        runner = pool
        if plan.tune.engine == "dask":
            runner = WorkerPool(1, modules=())
            # the command must not wait for it
            stack.callback(runner.close, kill=True)
        checkers: list[WorkerPool] = []

        def pool_of(step: str) -> Pool:
            if step not in ("ingest", "contract"):
                return runner
            if not checkers:
                # these libraries take seconds to import: while the table is read
                checkers.append(WorkerPool(1, CHECKING))
                stack.callback(checkers[0].close, kill=True)
            if step == "ingest":
                return runner
            return checkers[0]

        yield pool, steps_until(lambda: budget.search_left <= 0, pool_of, store)


def _prove_and_measure(
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
    try:
        steps = _measure(command, resolved, document)
    except OutOfTime:
        document["unmeasured"] = UNMEASURED.format("time ended")
        return
    repeats = searched.plan.tune.repeats
    try:
        with contextlib.suppress(OutOfTime):
            _repeat(command, resolved, repeats, steps, document)
    finally:
        left_out = repeats - len(document["repeats"])
        if left_out:
            document["unrepeated"] = (
                f"{left_out} of {repeats} repeats with other seeds were not run: the command ended "
                "before them"
            )


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


def facts(
    plan: TunePlan, methods: Mapping[str, Space], document: Mapping[str, Any]
) -> list[list[str]]:
    """Return what the page shows of this search next to its results, as names and values."""
    return [
        ["Job", document["job"]],
        ["Study", document["study"]],
        *facts_of_space(methods),
        ["Rules of decisions", ", ".join(document["decisions"])],
        ["Seed", str(plan.resolved.job.seed)],
        ["Seconds", f"{document['seconds']:.1f}"],
    ]


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


def status(job: str, named: str | None, store: Store) -> dict[str, Any]:
    """Read the newest study of a job, or the named one, and write its page; `InputError` if there
    is none.
    """
    root = Path(store.local, STUDIES)
    newest_first = sorted(
        root.glob("*/journal.log"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in newest_first:
        study = Study(path.parent)
        identity = study.identity()
        if identity is None or identity["job"] != job or named not in (None, path.parent.name):
            continue
        # its own aim: the command may have been given another
        trials = study.answered(aim_of(identity))
        document = study_document(identity, None, path.parent.name, trials)
        write_study_page(store, document)
        return document
    raise InputError(f"there is no study of {job!r} in this store: run without --status first.")
