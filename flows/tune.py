"""Tune: search methods and their parameters on folds of the training rows, and measure the winner
once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.fairlib.tuning.budget import Budget, cpu_seconds_of_processes
from evenhand.fairlib.tuning.space import Space
from evenhand.fairlib.tuning.study import Trial, answer
from evenhand.flows.engine import (
    Engine,
    RunFolder,
    Steps,
    Verdict,
    recorded_verdict,
)
from evenhand.flows.run import prepare
from evenhand.flows.tune_answer import (
    left_unjudged,
    prepare_best,
    prove_and_measure,
    unjudged_answer,
    write_job,
    write_unjudged,
)
from evenhand.flows.tune_champion import (
    HeldSearch,
    add_certificate,
    chosen_alternative,
    held_in_time,
    judge_champion,
    judge_gap,
    keep_equally_good,
    record_alternative,
    stated_confidence,
    why_not_held,
)
from evenhand.flows.tune_deadline import Deadline
from evenhand.flows.tune_ending import Ending
from evenhand.flows.tune_plan import TunePlan, notes_of_plan
from evenhand.flows.tune_search import (
    LATE_S,
    STUDIES,
    WRITING_S,
    Rows,
    SearchProgress,
    open_study,
    search,
    worker_pool,
    write_study_page,
)
from evenhand.flows.tune_shared import Command, Searched
from evenhand.flows.workers import Pool, WorkerPool, cores, steps_until
from evenhand.tasks.errors import InputError, NotCarriedOut, OutOfTime
from evenhand.tasks.execution.step import (
    IN_THIS_PROCESS,
    ExecutionContext,
    described,
    report_progress,
)
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.study_document import (
    ONE_MODEL,
    READ,
    aim_of,
    facts_of_space,
    notes_of,
    study_document,
)
from evenhand.tasks.tuning.trial_search import Study

# Imported while the table is read.
CHECKING = ("great_expectations",)


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
            held = held_in_time(command, searched)
        document = command.ending.finished(partial(_document, searched, held))
        document |= progress.first_answers()
        verdict.status = "evaluated"
        verdict.exit_code = 0
        chosen = _answer(command, searched, held, document)
        command.ending.heed_interrupts()
        kept = None
        if chosen is not None:
            kept = keep_equally_good(command, searched, steps, document)
        progress.stage = "writing the page"
        with _naming_the_job_file(command, plan), described(progress.line):
            _write_page(command, searched, chosen, held, kept, document)
    if prefect and command.ending.error is not None:
        # the flow run is cancelled, not completed
        raise command.ending.described() from None
    return verdict


def _answer(
    command: Command, searched: Searched, held: HeldSearch, document: dict[str, Any]
) -> Trial | None:
    """Choose the answer, prove and measure it, and write its job; return its trial.

    Where no model was judged, it is None, and the job has default settings. Raises `NotCarriedOut`
    where there was no time for any.
    """
    plan = searched.plan
    chosen = command.ending.finished(partial(_chosen, searched, held))
    if chosen is None:
        # not of models that were judged on a part of the rows: on all they may have what they lack
        finished = searched.study.trials()
        if not any(trial.error for trial in finished):
            raise NotCarriedOut(write_unjudged(plan, ONE_MODEL, command.deadline))
        command.verdict.exit_code = 3
        command.verdict.error = left_unjudged(command, plan, finished)
        return None
    with described(command.progress.line):
        chosen = prove_and_measure(command, searched, chosen, document)
    command.ending.finished(partial(write_job, command, searched, chosen, document))
    return chosen


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
        add_certificate(searched, command.store, document, held)
    if "alternative" in document:
        document["alternative"]["kept"] = kept
        documents["alternative"] = document["alternative"]
        judge_gap(document["alternative"], command.verdict)
    document["seconds"] = round(command.budget.spent, 1)
    methods = searched.rows.plan.methods
    try:
        if "alternative" in document:
            # before the page, which takes longer: what was found is to be on record
            record_alternative(document, command.store)
    finally:
        _write_study(searched.plan, methods, documents, command.store, command.verdict)
    if "alternative" in document and command.deadline is not None:
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
        chosen_alternative(plan, searched.trials, held),
        confidence=stated_confidence(plan),
    )
    reason = why_not_held(searched, held)
    if reason is not None:
        document["caveat"] = f"{reason[0].upper()}{reason[1:]}."
    return document


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
                plan, rows = judge_champion(plan, rows, steps, store, pool, budget)
                progress.aim = plan.aim
        except OutOfTime:
            raise NotCarriedOut(write_unjudged(plan, READ, command.deadline)) from None
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
                    on_best = partial(prepare_best, plan, rows, study, command.deadline)
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
            # while the study is held: another command might go on with it
            searched = command.ending.finished(partial(_read_study, plan, rows, study))
            error = command.ending.error
            if error is not None and _chosen(searched, HeldSearch()) is None:
                raise error
            return searched


def _read_study(plan: TunePlan, rows: Rows, study: Study) -> Searched:
    """Return what a study has so far."""
    return Searched(plan, rows, study, study.answered(plan.aim), study.stream())


def _chosen(searched: Searched, held: HeldSearch) -> Trial | None:
    """Return the answer of the trials; None without one."""
    chosen = chosen_alternative(searched.plan, searched.trials, held)
    if chosen is None:
        chosen = answer(searched.plan.aim, searched.trials, searched.plan.tune.prefer)
    return chosen


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


def status(job: str, named: str | None, store: Store, prefer: str | None = None) -> dict[str, Any]:
    """Read the newest study of a job, or the named one, and write its page; `InputError` if there
    is none. `prefer` is the metric by which the winner is chosen.
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
        document = study_document(identity, prefer, path.parent.name, trials)
        write_study_page(store, document)
        return document
    if named is not None:
        raise InputError(f"there is no study {named!r} of {job!r} in this store: see --study.")
    raise InputError(f"there is no study of {job!r} in this store: run without --status first.")
