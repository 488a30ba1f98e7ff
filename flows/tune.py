"""Tune: search methods and their parameters on folds of the training rows, and measure the winner
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import TOKEN_METRICS
from evenhand.fairlib.execution import contention
from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import (
    Aim,
    Limit,
    Trial,
    answer,
    best,
    costs,
    front,
    nearest,
    settled,
    standings,
    within,
)
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Engine, RunFolder, Steps, Verdict, recorded_verdict
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.run import prepare, run_to_gate
from evenhand.flows.tune_plan import (
    LEAVE_OUT,
    MINUTES,
    TunePlan,
    compiling_seconds,
    decision_of,
    plan_of_rows,
    tuned_text,
)
from evenhand.flows.workers import Pool, WorkerPool, cores, make_pool, steps_until
from evenhand.tasks.errors import InputError, NotCarriedOut, OutOfTime
from evenhand.tasks.evaluating.measured_controls import CONTROLS, MAJORITY
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.fingerprint import environment, now
from evenhand.tasks.execution.step import (
    IN_THIS_PROCESS,
    ExecutionContext,
    Report,
    Step,
    listen,
    report_progress,
    run_step,
    step_key,
)
from evenhand.tasks.execution.store import Artifact, Store
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.pages.fronts.tune_front import holds, label_of, trial_of
from evenhand.tasks.tuning.trial_search import SCORES, Candidate, Plan, Rule, Study

JUDGE = Step("judge", home="tuning.judge")
# A page of the search is written after an improvement, at most so often.
PAGE_EVERY_S = 30.0
# Number of models where only the time limits a search.
NO_LIMIT = 10**9
# Seconds at the end that are kept for writing the job and the page: so many at least, and more on a
# busy machine, as it computes for so long; but no more than a part of the whole time.
WRITING_S = 4.0
WRITING_CPU_S = 2.0
MOST_FOR_WRITING = 0.25
# Seconds that the first answer may take beyond the end: a command that is a little late is better
# than one without an answer.
LATE_S = 3.0
# Imported while the table is read, and by the workers that judge while it is prepared.
CHECKING = ("great_expectations",)
JUDGING = (
    "evenhand.flows.tune",
    "evenhand.tasks.tuning.judge",
    "evenhand.tasks.steps.train_step",
    "xgboost",
)
# What follows the search is expected to take so many times as long as the judgement of the chosen
# model, and of the majority-class baseline, which is nearly all measuring; of the whole time at
# most a part.
FINISHING_OF_CHOSEN = 1.0
FINISHING_OF_MEASURING = 6.0
MOST_OF_THE_TIME = 0.5


def execute(
    plan: TunePlan,
    store: Store,
    run_id: str,
    engine: Engine,
    *,
    prefect: bool = False,
    started: float | None = None,
) -> Verdict:
    """Search until the time is up, then train the chosen model on all training rows and measure it.

    The search gets the training rows, the fair metric and the encoder; the steps that read the test
    rows run after it. The tuned job is that of the best trial within the limits, or of the best
    compromise, and then it says by how much it misses which limit.

    With a limit of time everything ends within it, counted from `started` (of ``time.monotonic``;
    default: now): steps and judgements run in processes that are killed when their time is up. Then
    the job is written without a measurement on the test rows. Raises `EvenhandError` after the
    verdict was written.
    """
    if not store.is_local:
        raise InputError(
            f"a study is kept in a folder, and the store {store.url} is remote: use --store FOLDER."
        )
    if started is None:
        started = time.monotonic()
    budget = Budget(plan.seconds, started, reserve=-LATE_S, writing=WRITING_S)
    steps = Steps(store, engine)
    with (
        recorded_verdict(store, run_id, steps) as verdict,
        _steps_within(budget, store) as (runner, execution),
    ):
        engine = engine.executing_in(execution)
        steps.engine = engine
        rows, study, trials = _searched(plan, store, steps, budget, runner, prefect=prefect)
        document = tuning(rows.identity, plan.tune.prefer, study.folder.name, trials)
        verdict.status = "evaluated"
        verdict.exit_code = 0
        documents: dict[str, Any] = {"tuning": document}
        chosen = answer(plan.aim, trials, plan.tune.prefer)
        if chosen is None and not any(trial.error for trial in trials):
            raise NotCarriedOut(no_time_for_one(budget))
        if chosen is None:
            verdict.exit_code = 3
            verdict.error = nothing_judged(trials)
        else:
            _measure_in_time(plan, chosen, rows, document, verdict, engine, store, budget=budget)
            digest = hashlib.sha256(
                json.dumps([rows.identity, document["trials"]]).encode()
            ).hexdigest()
            made = {"study": study.folder.name, "digest": digest}
            text = tuned_text(plan, chosen, rows.count, made, caveats(document))
            plan.target.write_text(text, encoding="utf-8")
            verdict.artifacts["tuned"] = str(plan.target)
            verdict.exit_code = exit_code_of(document)
            if verdict.exit_code:
                verdict.error = compromise(document, plan.target)
        document["seconds"] = round(budget.spent, 1)
        document["notes"] = notes_of(document)
        folder = RunFolder(store, verdict)
        folder.write_json("tuning", "tuning.json", document, "the study as JSON")
        verdict.notes += document["notes"]
        folder.write_report("tune", documents, {"made": [["The search", facts(plan, document)]]})
    return verdict


def _searched(
    plan: TunePlan,
    store: Store,
    steps: Steps,
    budget: Budget,
    runner: WorkerPool | None,
    *,
    prefect: bool,
) -> tuple[Rows, Study, list[Trial]]:
    """Prepare the rows and search; return them, the study, and the trials that the answer is chosen
    from.
    """
    # its processes start while the steps run that all trials share
    with contextlib.ExitStack() as stack:
        pool: Pool | None = None
        if plan.searches(True):
            pool = stack.enter_context(_pool(plan, budget))
        try:
            prepare(plan.resolved, steps)
            rows = Rows.read(plan, steps)
        except OutOfTime:
            raise NotCarriedOut(
                f"the {plan.tune.minutes or MINUTES:g} minutes ended before the table was read, "
                "checked and encoded: run the same command again, which goes on from the finished "
                "steps, or give more --minutes."
            ) from None
        default = f"{plan.resolved.job.name}-{rows.identity['search'][:10]}"
        study = Study(Path(store.local, STUDIES, plan.tune.study or default))
        with study.held():
            _open(study, rows)
            if plan.searches(bool(study.trials())):
                pool = pool or stack.enter_context(_pool(plan, budget))
                report = report_progress("tune", prefect=prefect)
                on_answer = None
                if runner is not None:
                    # for the steps after the search; not before, as the first answer is waited for
                    on_answer = runner.warm_up
                search(
                    plan,
                    rows,
                    study,
                    store,
                    report,
                    pool=pool,
                    budget=budget,
                    on_answer=on_answer,
                )
            return rows, study, study.answered(plan.aim)


@contextlib.contextmanager
def _steps_within(
    budget: Budget, store: Store
) -> Iterator[tuple[WorkerPool | None, ExecutionContext]]:
    """Yield a process that is killed in time for writing the answer, and the execution context of
    steps that it runs; without a limit there is no such process, and steps run here.
    """
    if not budget.is_limited:
        yield None, IN_THIS_PROCESS
        return
    # they have nothing to finish in the end, and the command must not wait for them
    with contextlib.ExitStack() as stack:
        runner = WorkerPool(1, modules=())
        stack.callback(runner.close, kill=True)

        def pool_of(step: str) -> Pool:
            if step != "ingest":
                return runner
            # the libraries that check a contract take seconds to import: while the table is read
            runner.warm_up(CHECKING)
            reader = WorkerPool(1, modules=())
            stack.callback(reader.close, kill=True)
            return reader

        yield runner, steps_until(lambda: budget.search_left <= 0, pool_of, store)


def finishing_seconds(trials: Sequence[Trial], chosen: Trial | None, budget: Budget) -> float:
    """Return how many seconds are kept for what follows the search, by what judgements took.

    An answer that was judged on a part of the rows only is improved before it is measured on test
    rows.
    """
    if chosen is None:
        return -LATE_S
    if chosen.state == "partial":
        return budget.writing
    measuring = [
        trial.seconds for trial in trials if trial.kind == MAJORITY and trial.state == "judged"
    ]
    measuring_s = max(measuring, default=1.0)
    expected_s = FINISHING_OF_CHOSEN * chosen.seconds + FINISHING_OF_MEASURING * measuring_s
    return budget.writing + min(expected_s, MOST_OF_THE_TIME * budget.seconds)


def writing_seconds(slowness: float, budget: Budget) -> float:
    """Return how many seconds are kept for writing the answer, where computing takes so many times
    longer.
    """
    most = max(WRITING_S, MOST_FOR_WRITING * budget.seconds)
    return min(max(WRITING_S, WRITING_CPU_S * slowness), most)


def _measure_in_time(
    plan: TunePlan,
    chosen: Trial,
    rows: Rows,
    document: dict[str, Any],
    verdict: Verdict,
    engine: Engine,
    store: Store,
    *,
    budget: Budget,
) -> None:
    """Measure the chosen model on the test rows, and repeat that; say so where the time ended
    before it.
    """
    budget.reserve = budget.writing
    try:
        steps = _measure(plan, chosen, rows, document, verdict, engine, store)
    except OutOfTime:
        document["unmeasured"] = (
            "the time ended before the model was trained on all training rows and measured on the "
            "test rows: `evenhand run` does both"
        )
        return
    with contextlib.suppress(OutOfTime):
        _repeat(
            plan.tuned(chosen, rows.count),
            plan.tune.repeats,
            steps,
            document,
            engine,
            store,
            budget,
        )
    left_out = plan.tune.repeats - len(document["repeats"])
    if left_out:
        document["unrepeated"] = (
            f"there was no time for {left_out} of {plan.tune.repeats} repeats with other seeds"
        )


@dataclass(frozen=True)
class Rows:
    """What the search works on: the plan, the training rows and their number, the inputs of each
    method.
    """

    plan: Plan
    count: int
    identity: dict[str, Any]
    training: Mapping[str, tuple[dict[str, Any], dict[str, Artifact]]]
    encoder: Artifact
    checked: Artifact
    train: Artifact
    folds: int

    @classmethod
    def read(cls, plan: TunePlan, steps: Steps) -> Rows:
        """Run the steps that all trials share, and check that the rows suffice for the folds."""
        # imported lazily: `--status` needs no numeric library
        from evenhand.tasks.tuning.judge import check_folds

        train, _ = classifier.training_rows(plan.resolved, steps)
        training = {
            name: classifier.training_step(variant, steps, train)
            for name, variant in plan.variants.items()
        }
        data = read_dataset(steps.store.fetch(train))
        folds = plan.folds(len(data.y))
        check_folds(data, folds)
        searched = plan_of_rows(plan, len(data.y))
        # the keys of the job that a judgement depends on in addition to the training rows
        keys = {"method", "calibration", "decision", "fair_metric", "sensitive", "evaluate"}
        judged_by = plan.resolved.job.model_dump(mode="json", include=keys)
        identity = {
            "job": plan.resolved.job.name,
            "table": steps.output("ingest", "raw").sha256,
            "contract": plan.resolved.table_contract.digest,
            "aim": asdict(plan.aim),
            "level": plan.resolved.job.evaluate.level,
            "methods": list(searched.methods),
            "decisions": list(dict.fromkeys(rule.decision for rule in searched.judged_under)),
            "halving": searched.halving,
            "search": _digest([train.sha256, folds, judged_by, describe_plan(searched)]),
        }
        encoder = steps.output("preprocess", "encoder")
        checked = steps.output("contract", "checked")
        return cls(searched, len(data.y), identity, training, encoder, checked, train, folds)


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return what identifies a search, as plain JSON."""
    methods = {}
    for name, space in plan.methods.items():
        methods[name] = {key: repr(dimension) for key, dimension in space.items()}
    return {
        "aim": [str(plan.aim), plan.aim.bound],
        "methods": methods,
        "rules": [asdict(rule) for rule in plan.judged_under],
        "seed": plan.seed,
        "sampler": plan.sampler,
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _open(study: Study, rows: Rows) -> None:
    """Open the study, or begin it; an `InputError` if it is of another table, contract or
    search.
    """
    identity = None
    if study.exists:
        identity = study.identity()
    if identity is None:
        study.clear()
        study.create(rows.plan, rows.identity)
        return
    for key in ("table", "contract", "search"):
        if identity[key] != rows.identity[key]:
            raise InputError(
                f"the study {study.folder.name!r} is of another {key}: choose another name with "
                "--study, or leave it out."
            )


def search(
    plan: TunePlan,
    rows: Rows,
    study: Study,
    store: Store,
    report: Report,
    *,
    pool: Pool | None = None,
    budget: Budget | None = None,
    on_answer: Callable[[], None] | None = None,
) -> None:
    """Judge candidates until the time is up, in the `pool`'s workers or in this process.

    ``report(done, total, values)`` is called after each model, and `on_answer` once, when there is
    an answer.
    """
    limit = budget or Budget()
    workers = 1
    if pool is not None:
        workers = _workers(plan)

    def judge(
        candidate: Candidate, rules: Sequence[Rule], first: bool
    ) -> Sequence[Mapping[str, Any]]:
        parameters, inputs = judging(plan, rows, candidate, rules, first=first)
        spec = METHODS[candidate.method or plan.resolved.method]
        modules = list(dict.fromkeys([spec.module, METHODS[spec.plain].module]))
        arguments = (store.url, parameters, inputs, modules)
        results: Sequence[Mapping[str, Any]]
        if pool is None:
            results = judged(*arguments)
        elif limit.is_limited:
            results = pool.run_until(lambda: limit.search_left <= 0, judged, *arguments)
        else:
            results = pool.run(judged, *arguments)
        return results

    def interrupt() -> None:
        if pool is not None:
            pool.close(kill=True)

    study.search(
        rows.plan,
        judge,
        until=math.inf,
        most=plan.tune.trials or NO_LIMIT,
        workers=workers,
        on_trial=_AfterTrial(plan, rows, study, store, report, limit, on_answer),
        interrupt=interrupt,
        budget=limit,
        once=compiling_seconds(plan.methods),
    )


@dataclass
class _AfterTrial:
    """What is done after each trial: the time that is kept is set, and progress is reported."""

    plan: TunePlan
    rows: Rows
    study: Study
    store: Store
    report: Report
    budget: Budget
    on_answer: Callable[[], None] | None
    winner: str | None = None  # of the page that was written last, at `page_at`
    page_at: float = field(default_factory=time.monotonic)
    has_answer: bool = False

    def __call__(self, trials: list[Trial]) -> None:
        """Use the trials so far."""
        self._keep_time(trials)
        winner = best(self.plan.aim, trials, self.plan.tune.prefer)
        if winner is not None:
            self._write_page(winner, trials)
        self._report(winner, trials)

    def _keep_time(self, trials: list[Trial]) -> None:
        """Set the seconds that are kept for what follows the search."""
        budget = self.budget
        if budget.is_limited:
            budget.writing = writing_seconds(contention(), budget)
        chosen = answer(self.plan.aim, trials, self.plan.tune.prefer)
        if chosen is not None and self.on_answer is not None and not self.has_answer:
            self.has_answer = True
            self.on_answer()
        budget.reserve = finishing_seconds(trials, chosen, budget)
        models = {trial.model for trial in trials}
        by_values = replace(self.plan.aim, bound="point")
        if not within(by_values, trials) and len(models) < len(self.rows.plan.fixed):
            # the models before the search come first: most limits are kept by one of them
            budget.reserve = min(budget.reserve, budget.writing)

    def _write_page(self, winner: Trial, trials: list[Trial]) -> None:
        """Write the study's page after an improvement, if that is due and there is time for it."""
        is_due = time.monotonic() - self.page_at >= PAGE_EVERY_S
        has_time = self.budget.search_left > PAGE_EVERY_S
        if winner.number == self.winner or not is_due or not has_time:
            return
        self.winner = winner.number
        self.page_at = time.monotonic()
        prefer = self.plan.tune.prefer
        document = tuning(self.rows.identity, prefer, self.study.folder.name, trials)
        write_study_page(self.store, document)

    def _report(self, winner: Trial | None, trials: list[Trial]) -> None:
        """Report the models of a limited number, or else the seconds, and the winner's metric."""
        values: dict[str, float] = {"trials": len(trials)}
        if winner is not None:
            first = self.plan.first
            values[first] = winner.metrics[first]["value"] or 0.0
        most = self.plan.tune.trials
        if most is not None:
            models = {trial.model for trial in trials}
            self.report(min(len(models), most), most, values)
        else:
            passed = min(self.budget.spent, self.plan.seconds)
            self.report(int(passed), max(int(self.plan.seconds), 1), values)


def _workers(plan: TunePlan) -> int:
    return plan.tune.workers or len(cores())


@contextlib.contextmanager
def _pool(plan: TunePlan, budget: Budget) -> Iterator[Pool | None]:
    """Start the workers that judge models; none where this process does.

    With a limit of time there is always a worker: this process could not stop a training of its
    own.
    """
    if plan.tune.engine == "processes" and _workers(plan) == 1 and not budget.is_limited:
        yield None
        return
    with make_pool(plan.tune, _workers(plan), JUDGING) as pool:
        yield pool
        if budget.is_limited:
            # what still runs is not waited for
            pool.close(kill=True)


def judged(
    store_url: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    modules: Sequence[str],
) -> Sequence[Mapping[str, Any]]:
    """Return the results of a candidate by rule, from the cache if it was judged before."""
    store = Store(store_url)
    with listen(None):
        record, _ = run_step(
            store, JUDGE, step_key(JUDGE, parameters, inputs, modules), parameters, inputs
        )
    content = json.loads(store.fetch(record.outputs["judged"]).read_text())
    results: Sequence[Mapping[str, Any]] = content["rules"]
    return results


def judging(
    plan: TunePlan, rows: Rows, candidate: Candidate, rules: Sequence[Rule], *, first: bool
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the step that judges a candidate: no test rows are among
    them.
    """
    resolved = plan.resolved
    job = resolved.job
    is_control = candidate.kind in CONTROLS
    searched = dict(candidate.arguments)
    leave_out = searched.pop(LEAVE_OUT, ())
    if is_control:
        parameters = {
            "method": resolved.method,
            "arguments": classifier.shared_arguments(resolved.method, resolved.arguments),
            "seed": job.seed,
        }
        inputs = {"train": rows.train}
        kind = candidate.kind
    else:
        training, artifacts = rows.training[candidate.method or resolved.method]
        parameters = {**training, "arguments": {**plan.base(candidate), **searched}}
        inputs = dict(artifacts)
        kind = ""
    measure = _measuring(plan)
    if measure["counterfactuals"] or measure["terms"]:
        inputs["encoder"] = rows.encoder
    if measure["terms"]:
        inputs["checked"] = rows.checked
    label = resolved.contract.label
    if label.classes:
        parameters["classes"] = list(map(str, label.classes))
    else:
        parameters["favourable"] = label.favourable_code
    parameters |= {
        "kind": kind,
        "leave_out": list(leave_out),
        "calibration": job.calibration,
        "rules": [_rule(plan, rule, is_control=is_control) for rule in rules],
        "min_cell": job.evaluate.min_cell,
        "folds": rows.folds,
        "fold_seed": job.seed,
        "first": first,
        "measure": measure,
    }
    return parameters, inputs


def _measuring(plan: TunePlan) -> dict[str, Any]:
    """Return the settings of the measurement: only copies that objectives or limits are about."""
    aim = plan.aim
    settings = plan.resolved.job.evaluate
    kinds = ("consistency", *TOKEN_METRICS)
    copy_names = set()
    has_score = False
    for metric in aim.metrics:
        kind, _, subject = metric.partition(".")
        if kind in kinds:
            copy_names.add(subject)
        if kind in SCORES:
            has_score = True
    content = settings.model_dump()
    predicted: Sequence[str] = []
    if aim.bound in ("auto", "prediction"):
        predicted = aim.metrics
    return {
        "counterfactuals": _only(content["counterfactuals"], copy_names),
        "terms": _only(content["terms"], copy_names),
        **settings.model_dump(include={"draws", "level", "min_cell", "intersections"}),
        "test_share": plan.resolved.job.split.test,
        "predicted": predicted,
        "score_intervals": has_score,
    }


def _only(mapping: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name in names}


def _rule(plan: TunePlan, rule: Rule, *, is_control: bool) -> dict[str, Any]:
    decision = decision_of(plan, rule.decision, rule.tolerance)
    if is_control:
        decision = decision.model_copy(update={"equal": None})
    if decision.equal is None:
        return {"decision": decision.model_dump()}
    changed = plan.resolved.job.model_copy(update={"decision": decision})
    attribute = classifier.attribute(plan.resolved.model_copy(update={"job": changed}))
    return {"decision": decision.model_dump(), "attribute": attribute}


def _measure(
    plan: TunePlan,
    chosen: Trial,
    rows: Rows,
    document: dict[str, Any],
    verdict: Verdict,
    engine: Engine,
    store: Store,
) -> Steps:
    """Train the chosen model on all training rows, and measure it on the test rows; return the
    steps.
    """
    resolved = plan.tuned(chosen, rows.count)
    steps = Steps(store, engine)
    decision = run_to_gate(resolved, steps).decision
    metrics = steps.read("evaluate", "metrics")["metrics"]
    document["test"] = _short(metrics)
    document["test_rows"] = steps.read("evaluate", "metrics")["n"]
    controls = steps.read("evaluate", "controls")["controls"]
    document["test_controls"] = {name: control["metrics"] for name, control in controls.items()}
    verdict.gates = decision
    document["gates"] = decision["verdict"]
    verdict.add_metrics(metrics)
    verdict.seconds |= {name: round(value, 3) for name, value in steps.seconds.items()}
    return steps


def _repeat(
    resolved: ResolvedJob,
    repeats: int,
    steps: Steps,
    document: dict[str, Any],
    engine: Engine,
    store: Store,
    budget: Budget,
) -> None:
    """Train and measure the chosen model with other seeds, as often as there is time."""
    for number in range(1, repeats + 1):
        if budget.search_left <= 0:
            return
        seed = resolved.job.seed + number
        job = resolved.job.model_copy(update={"seed": seed})
        # the same split: rows that the search saw stay out of the measurement
        again = Steps(store, engine, dict(steps.finished))
        classifier.train_and_measure(resolved.model_copy(update={"job": job}), again)
        metrics = again.read("evaluate", "metrics")["metrics"]
        document["repeats"].append({"seed": seed, "metrics": _short(metrics)})


def _short(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values and intervals of metrics, without their other fields."""
    short = {}
    for name, metric in metrics.items():
        short[name] = {key: metric[key] for key in ("value", "low", "high")}
    return short


# what the page shows in addition to the results


def facts(plan: TunePlan, document: Mapping[str, Any]) -> list[list[str]]:
    """Return what the page shows of this search next to its results, as names and values."""
    spaces = []
    for name, space in plan.methods.items():
        ranges = []
        for key, dimension in space.items():
            text = f"{key}: {dimension}"
            if getattr(dimension, "log", False):
                text += " (logarithmic)"
            ranges.append(text)
        spaces.append([f"Space of {name}", "; ".join(ranges) or "nothing to search"])
    return [
        ["Job", document["job"]],
        ["Study", document["study"]],
        *spaces,
        ["Rules of decisions", ", ".join(document["decisions"])],
        ["Seed", str(plan.resolved.job.seed)],
        ["Seconds", f"{document['seconds']:.1f}"],
    ]


STUDIES = "studies"


def tuning(
    identity: Mapping[str, Any], prefer: str | None, study: str, trials: Sequence[Trial]
) -> dict[str, Any]:
    """Return the content of ``tuning.json``: plain JSON, with all trials.

    `identity` is what the study was begun with; `prefer` a metric to choose the winner by.
    """
    stored_aim = identity["aim"]
    limits = tuple(Limit(**limit) for limit in stored_aim["limits"])
    study_aim = Aim(tuple(stored_aim["objectives"]), limits, stored_aim["bound"])
    aim = settled(study_aim, trials)
    first = prefer or aim.objectives[0]
    winner = best(aim, trials, prefer)
    close = nearest(aim, trials)
    chosen = winner
    if chosen is None:
        chosen = close
    chosen_standings: list[dict[str, Any]] = []
    if chosen is not None:
        chosen_standings = _standings(aim, chosen)
    metrics = list(dict.fromkeys([*aim.metrics, first]))
    return {
        **{key: identity[key] for key in ("job", "level", "methods", "decisions", "halving")},
        "study": study,
        "aim": str(aim),
        "objectives": list(aim.objectives),
        "prefer": first,
        "limits": [asdict(limit) | {"text": str(limit)} for limit in aim.limits],
        "bound": aim.bound,
        "bound_asked": study_aim.bound,
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
        "unrepeated": None,
        "gates": None,
        "notes": [],
        "seconds": round(sum(trial.seconds for trial in trials if trial.rule == 0), 1),
    }


def _trial_row(aim: Aim, trial: Trial, metrics: Sequence[str]) -> dict[str, Any]:
    """Return a trial as plain JSON, with these metrics, its label, and by how much it misses."""
    row = vars(trial) | {"metrics": {name: trial.metrics.get(name, {}) for name in metrics}}
    row |= {"number": trial.number, "label": label_of(row)}
    row["miss"] = None
    if trial.metrics:
        row["miss"] = aim.miss(trial.metrics)
    return row


def _number_of(trial: Trial | None) -> str | None:
    if trial is None:
        return None
    return trial.number


def _standings(aim: Aim, chosen: Trial) -> list[dict[str, Any]]:
    """Return how the chosen trial stands to each limit, as plain JSON."""
    rows = []
    for standing in standings(aim, chosen.metrics):
        row = {
            "limit": str(standing.limit),
            "metric": standing.limit.metric,
            "value": standing.value,
            "end": standing.end,
            "kept_by": standing.kept_by,
            "missed_by": standing.missed_by,
            "text": str(standing),
        }
        rows.append(row)
    return rows


def caveats(document: Mapping[str, Any]) -> list[str]:
    """Return what the tuned job has to say of itself: limits that it misses, or is not shown to
    keep.
    """
    texts = []
    if not document["within_limits"]:
        texts.append("A compromise: no trial is within the limits.")
    weak = [row["text"] for row in document["standings"] if row["kept_by"] in (None, "value")]
    if weak:
        texts.append(f"On validation rows {'; '.join(weak)}.")
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
        # by their values they are kept, and another bound was asked for
        misses = [
            row["text"] for row in document["standings"] if row["kept_by"] != document["bound"]
        ]
        advice = f"; --bound {document['bound']} asks for more evidence than the values are"
    return (
        f"none of {count} trials is within the limits: the best compromise, number "
        f"{document['nearest']}, is in {target}; {'; '.join(misses)}{advice}."
    )


def nothing_judged(trials: Sequence[Trial]) -> str:
    """Say in one line why no model could be judged."""
    errors = [trial.error for trial in trials if trial.error]
    return f"no trial could be judged: {errors[0]}"


def no_time_for_one(budget: Budget) -> str:
    """Say in one line that the search ended before one model was judged."""
    if not budget.is_limited:
        return "no model but the majority-class baseline was judged: give more --trials."
    return (
        f"the {budget.seconds / 60:g} minutes ended before one model was judged: run the same "
        "command again, which goes on from the finished steps, or give more --minutes."
    )


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Say what the reader must know of the answer: what had no time, what won, and what is not
    certain.
    """
    winner = trial_of(document, document["winner"])
    chosen = winner or trial_of(document, document["nearest"])
    notes = _notes_on_time(document, chosen)
    if winner is not None:
        notes += [*_notes_on_winner(winner), *_notes_on_evidence(document)]
    return notes + _notes_on_test(document)


def _notes_on_time(document: Mapping[str, Any], chosen: Mapping[str, Any] | None) -> list[str]:
    notes = [document[key] for key in ("unmeasured", "unrepeated") if document[key] is not None]
    if chosen is not None and chosen["state"] == "partial":
        notes.append(
            "there was no time to judge this model on all folds: it was judged on a part of the "
            "training rows, without intervals; the same command goes on from there"
        )
    return notes


def _notes_on_winner(winner: Mapping[str, Any]) -> list[str]:
    """Say that no mitigation is needed, unless that was judged on a part of the rows only."""
    texts = {
        "plain": "no mitigation is needed: the control without it is the best within the limits",
        "blind": (
            "leaving out the sensitive columns is enough: no method does better within the limits, "
            "and the tuned job has them under leave_out"
        ),
    }
    if winner["state"] == "partial" or winner["kind"] not in texts:
        return []
    return [texts[winner["kind"]]]


def _notes_on_evidence(document: Mapping[str, Any]) -> list[str]:
    """Say that limits are kept by less than was looked for."""
    if not document["limits"] or document["bound_asked"] != "auto":
        return []
    if document["bound"] == "interval":
        return [
            "no trial keeps the limits with the margin that the test rows call for: the winner "
            "keeps them on the interval of the validation rows, and the test rows may miss them"
        ]
    weak = [row["limit"] for row in document["standings"] if row["kept_by"] == "value"]
    if not weak:
        return []
    verb = "hold"
    if len(weak) == 1:
        verb = "holds"
    return [
        "the winner’s values on validation rows keep the limits, but its intervals do not show "
        f"that {' and '.join(weak)} {verb}: new rows may miss them"
    ]


def _notes_on_test(document: Mapping[str, Any]) -> list[str]:
    """Say which gates and limits the test rows miss."""
    notes = []
    if document["gates"] not in (None, "passed"):
        notes.append(
            "the job’s gates do not pass on the test rows: `evenhand run` would not publish it"
        )
    measured = document["test"] or {}
    for limit in document["limits"]:
        value = measured.get(limit["metric"], {}).get("value")
        if value is not None and not holds(limit, measured):
            notes.append(
                f"on the test rows {limit['metric']} is {value:.3f}, which misses {limit['text']}"
            )
    return notes


def write_study_page(store: Store, document: dict[str, Any]) -> None:
    """Write the page of a study as far as it is, and its address as ``report`` into the
    document.
    """
    name = document["study"]
    run = {"id": name, "created": now(), "environment": environment(), "files": [], "made": []}
    page = write_page("tune", {"tuning": document, "run": run}, store)
    document["report"] = store.write_text(page, STUDIES, name, "report.html")


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
        document = tuning(identity, None, path.parent.name, study.trials())
        write_study_page(store, document)
        return document
    raise InputError(f"there is no study of {job!r} in this store: run without --status first.")
