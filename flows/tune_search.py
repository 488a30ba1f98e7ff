"""The search of `tune`: it judges candidates on folds of the training rows until its time is up."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evenhand.fairlib.arrays import Bool
from evenhand.fairlib.catalogue import TOKEN_METRICS, describe
from evenhand.fairlib.execution import contention
from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.space import Choice
from evenhand.fairlib.tuning.study import (
    Aim,
    Trial,
    answer,
    best,
    out_of_reach,
    shown_chance,
    standings,
    within,
)
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Steps, duration_text
from evenhand.flows.tune_alternatives import decides_by_group, is_gain_reached
from evenhand.flows.tune_equally_good import keeping_seconds
from evenhand.flows.tune_first_models import FIRST_METHODS, compiling_seconds, plan_of_rows
from evenhand.flows.tune_plan import TunePlan
from evenhand.flows.tune_rules import decision_of
from evenhand.flows.tune_space import LEAVE_OUT, METRIC, with_metric, with_proxy_features
from evenhand.flows.workers import DaskPool, Pool, cores, make_pool, shared_address
from evenhand.tasks.errors import InputError, OutOfTime
from evenhand.tasks.evaluating.control_names import CONTROLS, MAJORITY
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.fingerprint import environment, now
from evenhand.tasks.execution.step import Report, Step, listen, run_step, step_key
from evenhand.tasks.execution.store import Artifact, StepRecord, Store
from evenhand.tasks.tuning.study_document import study_document
from evenhand.tasks.tuning.trial_search import (
    JOB,
    SCORES,
    Candidate,
    Judge,
    Judgement,
    Plan,
    Rule,
    Study,
)

JUDGE = Step("judge", home="tuning.judge")
# A page of the search is written after an improvement, at most so often.
PAGE_EVERY_S = 30.0
# Number of models where only the time limits a search.
NO_LIMIT = 10**9
# Seconds at the end that are kept for writing the job and the page: so many at least, and more on a
# busy machine, as it computes for so long, and so many for each trial; but no more than a part of
# the whole time.
WRITING_S = 6.0
WRITING_CPU_S = 3.0
WRITING_TRIAL_S = 5e-5
MOST_FOR_WRITING = 0.25
# Seconds that the first answer may take beyond the end.
LATE_S = 0.5
# Imported by the workers that judge, while the table is prepared.
JUDGING = (
    "evenhand.flows.tune_search",
    "evenhand.tasks.tuning.judge",
    "evenhand.tasks.steps.train_step",
    "xgboost",
)
# A judgement trains a model once a fold. After the search the chosen one is trained once on all
# rows, which may take more than in proportion to their number, for thresholds by group also once a
# fold; of a mitigated model four controls are trained too. The parts are expected to take so many
# times as long as so many trainings of a judgement. To that comes the evaluation: so many times as
# long as the judgement of the majority-class baseline, which is nearly all measuring, and some
# seconds at least, of a mitigated model with its controls twice as many. And the start of a
# process, as those that still judge at the end are killed; of the whole time at most a part.
TRAINING_ON_ALL = 2.5
TRAINING_ON_FOLDS = 1.25
TRAINING_OF_CONTROLS = 1.75
TRAINED_CONTROLS = 4
FINISHING_OF_MEASURING = 6.0
LEAST_MEASURING_S = 3.0
LEAST_MEASURING_OF_MITIGATED_S = 6.0
MOST_OF_THE_TIME = 0.5
# A proof, for more people and with more effort than the search that screens trials, takes so many
# times as long as the judgement that has this search.
PROVING_OF_CHOSEN = 20.0
STUDIES = "studies"


def finishing_seconds(
    trials: Sequence[Trial],
    chosen: Trial | None,
    budget: Budget,
    *,
    folds: int,
    has_group_rule: bool = False,
    is_proved: bool = False,
) -> float:
    """Return how many seconds are kept for what follows the search, by what judgements took.

    An answer that was judged on a part of the rows only is improved before it is measured on test
    rows. So is one whose measurement would take most of the time: it would hardly end, and the
    search would have lost that time. One that `is_proved` takes longer. A judgement is of so many
    `folds`; `has_group_rule` says that the job's own rule of decisions has thresholds by group.
    """
    if chosen is None:
        return -LATE_S
    if chosen.state == "partial":
        return budget.writing
    measuring = [
        trial.seconds for trial in trials if trial.kind == MAJORITY and trial.state == "judged"
    ]
    measuring_s = max(measuring, default=max(1.0, chosen.seconds / 2))
    least_s = LEAST_MEASURING_S
    expected_s = TRAINING_ON_ALL * chosen.seconds / folds + budget.start_seconds
    if decides_by_group(chosen, has_group_rule=has_group_rule):
        expected_s += TRAINING_ON_FOLDS * chosen.seconds
    if _is_mitigated(chosen):
        least_s = LEAST_MEASURING_OF_MITIGATED_S
        controls_s = _seconds_without_mitigation(trials, chosen)
        expected_s += TRAINING_OF_CONTROLS * TRAINED_CONTROLS * controls_s / folds
    expected_s += max(FINISHING_OF_MEASURING * measuring_s, least_s)
    # in seconds of one process, as the expected ones
    most_s = MOST_OF_THE_TIME * min(budget.seconds, budget.cpu_seconds / budget.share)
    if is_proved:
        expected_s += PROVING_OF_CHOSEN * chosen.seconds
    elif expected_s > most_s:
        return budget.writing
    return budget.writing + min(expected_s, most_s)


def _seconds_without_mitigation(trials: Sequence[Trial], chosen: Trial) -> float:
    """Return how long the judgement of the control without mitigation took, or else the chosen one,
    which is no shorter.
    """
    seconds = [
        trial.seconds for trial in trials if trial.kind == "plain" and trial.state == "judged"
    ]
    return min(max(seconds, default=chosen.seconds), chosen.seconds)


def _is_mitigated(trial: Trial) -> bool:
    """Whether a trial's model, or its decisions, differ from the learner's without mitigation; of
    the job as it is that is taken for granted.
    """
    if trial.tolerance is not None or trial.kind == JOB:
        return True
    return trial.method is not None and METHODS[trial.method].plain != trial.method


def writing_seconds(slowness: float, budget: Budget, trials: int = 0) -> float:
    """Return how many seconds are kept for writing the answer of so many trials, where computing
    takes so many times longer.
    """
    most = max(WRITING_S, MOST_FOR_WRITING * budget.total)
    cpu_seconds = WRITING_CPU_S + WRITING_TRIAL_S * trials
    return min(max(WRITING_S, cpu_seconds * slowness), most)


@dataclass(frozen=True)
class Rows:
    """What the search works on: the plan, the training rows and their number, the inputs of each
    method.
    """

    plan: Plan
    count: int
    identity: dict[str, Any]
    training: Mapping[str, tuple[dict[str, Any], dict[str, Artifact]]]
    metrics: Mapping[str, Artifact]  # fair metrics by kind
    encoder: Artifact
    checked: Artifact
    train: Artifact
    folds: int

    # sets of columns that an alternative may leave out
    proxy_features: Sequence[Sequence[str]] = ()

    @classmethod
    def read(
        cls,
        plan: TunePlan,
        steps: Steps,
        proxy_features: Sequence[Sequence[str]] | None = None,
    ) -> Rows:
        """Run the steps that all trials share, and check that the rows suffice for the folds.

        Sets of `proxy_features` that are known are not looked for again.
        """
        # imported lazily: `--status` needs no numeric library
        from evenhand.tasks.tuning.folds import check_folds, fold_numbers

        train, _ = classifier.training_rows(plan.resolved, steps)
        training = {
            name: classifier.training_step(variant, steps, train)
            for name, variant in plan.variants.items()
        }
        metrics = _learned_metrics(plan, steps, train)
        plan = _within_kinds(plan, metrics)
        data = read_dataset(steps.store.fetch(train))
        check_evidence(plan, data)
        if proxy_features is None:
            proxy_features = _proxy_features(plan, data)
        plan = with_proxy_features(plan, proxy_features)
        folds = plan.folds(len(data.y))
        check_folds(data, folds)
        if data.people is not None:
            fold_numbers(data, folds, plan.resolved.job.seed)
        searched = plan_of_rows(plan, len(data.y))
        # the keys of the job that a judgement depends on in addition to the training rows
        keys = {"method", "calibration", "decision", "fair_metric", "sensitive", "evaluate"}
        judged_by = plan.resolved.job.model_dump(mode="json", include=keys)
        if not judged_by["evaluate"]["adapted"]:
            # studies that began before there were adapted copies go on
            del judged_by["evaluate"]["adapted"]
        judged_rows: list[Any] = [train.sha256, folds, judged_by, describe_plan(searched)]
        if data.people is not None:
            # chances of older studies take rows of a place as independent
            judged_rows.append("whole people and places")
        identity = {
            "job": plan.resolved.job.name,
            "table": steps.output("ingest", "raw").sha256,
            "contract": plan.resolved.table_contract.digest,
            "aim": asdict(plan.aim),
            "level": plan.resolved.job.evaluate.level,
            "methods": list(searched.methods),
            "decisions": list(dict.fromkeys(rule.decision for rule in searched.judged_under)),
            "halving": bool(searched.parts),
            "search": _digest(judged_rows),
        }
        if plan.alternative is not None:
            # so many limits, the first ones, follow from the metrics of a model
            identity["no_worse"] = len(plan.alternative.no_worse)
        encoder = steps.output("preprocess", "encoder")
        checked = steps.output("contract", "checked")
        return cls(
            plan=searched,
            count=len(data.y),
            identity=identity,
            training=training,
            metrics=metrics,
            encoder=encoder,
            checked=checked,
            train=train,
            folds=folds,
            proxy_features=proxy_features,
        )


def _learned_metrics(plan: TunePlan, steps: Steps, train: Artifact) -> dict[str, Artifact]:
    """Return the fair metrics that are searched, by kind; one other than the job's that cannot be
    learned from these rows, or not in time, is left out.
    """
    resolved = plan.resolved
    kinds: list[str] = []
    if resolved.job.evaluate.adapted or plan.proofs:
        kinds.append(resolved.job.fair_metric.kind)
    for space in plan.methods.values():
        if METRIC in space:
            kinds += _values(space[METRIC])
    metrics: dict[str, Artifact] = {}
    for kind in dict.fromkeys(kinds):
        try:
            classifier.learn_metric(with_metric(resolved, kind), steps, train)
        except (InputError, OutOfTime):
            if kind == resolved.job.fair_metric.kind:
                raise
            continue
        metrics[kind] = steps.output("fair_metric", "metric")
    return metrics


def _proxy_features(plan: TunePlan, data: Dataset) -> list[tuple[str, ...]]:
    """Return sets of columns that predict a group, by the training rows without their labels; none
    where no alternative is searched.

    Columns that the contract calls legitimate stay. So does half of the encoded columns at least: a
    judgement has zeros in those that are left out, and boosting that samples columns would draw
    mostly these.
    """
    if plan.alternative is None:
        return []
    # imported lazily: other searches do not need it
    from evenhand.fairlib.execution import derive_seed
    from evenhand.fairlib.methods.proxy_features import nested_proxy_features

    legitimate = plan.resolved.legitimate
    inputs = {name: at for name, at in data.groups.items() if name not in legitimate}
    seed = derive_seed(plan.resolved.job.seed, "proxy-features")
    hidden = data.sensitive_positions()
    sets = []
    for columns in nested_proxy_features(data.X, inputs, data.sensitive, seed=seed):
        left_out = {*hidden, *data.positions_of(columns)}
        if 2 * len(left_out) <= data.X.shape[1]:
            sets.append(columns)
    return sets


def _within_kinds(plan: TunePlan, metrics: Mapping[str, Artifact]) -> TunePlan:
    """Return the plan without kinds of metrics that could not be learned."""
    methods = {}
    for name, space in plan.methods.items():
        methods[name] = dict(space)
        if METRIC not in space:
            continue
        kinds = tuple(kind for kind in _values(space[METRIC]) if kind in metrics)
        if kinds:
            methods[name][METRIC] = Choice(kinds, kinds[0])
        else:
            del methods[name][METRIC]
    return replace(plan, methods=methods)


def _values(dimension: Any) -> list[str]:
    """Return the values of a choice."""
    return list(dimension.values)


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return what identifies a search, as plain JSON."""
    methods = {}
    for name, space in plan.methods.items():
        methods[name] = {key: repr(dimension) for key, dimension in space.items()}
    return {
        "aim": [str(plan.aim), plan.aim.confidence],
        "methods": methods,
        "rules": [_description(rule) for rule in plan.judged_under],
        "seed": plan.seed,
        "sampler": plan.sampler,
    }


def _description(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain JSON; the job's calibration is not named."""
    content = asdict(rule)
    if rule.calibration is None:
        del content["calibration"]
    return content


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def check_evidence(plan: TunePlan, data: Dataset) -> None:
    """Refuse a search for a metric of groups where too few people of a group have a label, so that
    no model has a number for it. Raises `InputError`.

    Which groups a metric counts follows from labels and groups alone, so any decisions show it.
    """
    # imported lazily: `--status` needs no numeric library
    from evenhand.fairlib.evaluation.evaluate import evaluate
    from evenhand.fairlib.evaluation.outcomes import Outcomes

    label = plan.resolved.contract.label
    settings = plan.resolved.job.evaluate
    asked = [*plan.aim.metrics, *([plan.tune.prefer] if plan.tune.prefer else [])]
    names = [name for name in asked if describe(name)[0].of_groups]
    if label.classes or not names:
        return
    outcomes = Outcomes(
        data.y,
        data.y,
        data.y.astype(float),
        {name: values.astype(str) for name, values in data.sensitive.items()},
        people=data.people,
        favourable=label.favourable_code,
        counts_people=data.counts_people,
    )
    measured = evaluate(
        outcomes,
        draws=0,
        min_cell=settings.min_cell,
        intersections=settings.intersections,
        score_intervals=False,
    ).metrics
    for name in names:
        if name in measured and measured[name].value is None:
            raise InputError(
                f"no model can have a number for {name} on the training rows: "
                f"{measured[name].reason.rstrip('.')}. More rows, a smaller evaluate.min_cell, or "
                "a search without this metric would help."
            )


def open_study(study: Study, rows: Rows) -> None:
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
    progress: SearchProgress | None = None,
    on_best: Callable[[Sequence[Trial]], None] | None = None,
) -> None:
    """Judge candidates until the time is up, in the `pool`'s workers or in this process.

    ``report(done, total, values)`` is called after each model, and `on_best` with all trials when
    there is another answer.
    """
    limit = budget or Budget()
    workers = 1
    if pool is not None:
        # those of a running cluster are not limited by the cores of this machine
        workers = pool.processes

    judge = judge_in(plan, rows, store, pool, limit)

    def interrupt() -> None:
        if pool is not None:
            pool.close(kill=True)

    after_trial = _AfterTrial(plan, rows, study, store, report, limit, progress, on_best)
    known = study.answered(plan.aim)
    # the time kept for the end, and the answer so far, also where no further trial runs
    if known and after_trial(known):
        return
    study.search(
        rows.plan,
        judge,
        until=math.inf,
        most=plan.tune.trials or NO_LIMIT,
        workers=workers,
        on_trial=after_trial,
        interrupt=interrupt,
        budget=limit,
        once=compiling_seconds(plan.methods),
    )


def judge_in(plan: TunePlan, rows: Rows, store: Store, pool: Pool | None, limit: Budget) -> Judge:
    """Return what judges a candidate in the `pool`'s workers or in this process, within the time
    limit.

    Raises an error unless the workers of a running cluster have our versions, and see the store.
    """
    if isinstance(pool, DaskPool) and plan.tune.address is not None:
        pool.check(store)
    store_address = shared_address(store)

    def judge(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        parameters, inputs = judging(plan, rows, candidate, rules, part=part)
        arguments = (store_address, parameters, inputs, _modules(plan, candidate))
        judgement: Judgement
        if pool is None:
            judgement = judged(*arguments)
        elif limit.is_limited:
            judgement = pool.run_until(lambda: limit.search_left <= 0, judged, *arguments)
        else:
            judgement = pool.run(judged, *arguments)
        return judgement

    return judge


def decisions_of(plan: TunePlan, rows: Rows, store: Store, trials: Sequence[Trial]) -> list[Bool]:
    """Return the decisions of trials about the training rows, as their judgements kept them; those
    of lost judgements are left out.
    """
    # imported lazily: other searches do not need it
    from evenhand.tasks.tuning.judge import unpacked_decisions

    previous: dict[int, Any] = {}
    decisions = []
    for trial in trials:
        if trial.model not in previous:
            candidate = Candidate(trial.kind, trial.method, trial.arguments)
            record = None
            for variant in _by_preference(plan):
                record = record or _judgement_of(variant, rows, store, candidate)
            previous[trial.model] = []
            if record is not None:
                content = json.loads(store.fetch(record.outputs["judged"]).read_text())
                previous[trial.model] = content.get("decisions", [])
        texts = previous[trial.model]
        if trial.rule < len(texts) and texts[trial.rule] is not None:
            decisions.append(unpacked_decisions(texts[trial.rule], rows.count))
    return decisions


def _judgement_of(
    plan: TunePlan, rows: Rows, store: Store, candidate: Candidate
) -> StepRecord | None:
    """Return the record of a candidate's judgement on all folds; None if it is lost."""
    rules = rows.plan.rules(candidate)
    parameters, inputs = judging(plan, rows, candidate, rules, part=1)
    return store.find(JUDGE.name, step_key(JUDGE, parameters, inputs, _modules(plan, candidate)))


def _by_preference(plan: TunePlan) -> Iterator[TunePlan]:
    """Yield the plan, and those that choose the winner by another metric: models of the same study
    may have been judged when that was asked for, and then it was measured too.
    """
    yield plan
    job = plan.resolved.job
    evaluate = job.evaluate
    names = [f"consistency.{name}" for name in (*evaluate.counterfactuals, *evaluate.adapted)]
    names += [f"{kind}.{name}" for kind in TOKEN_METRICS for name in evaluate.terms]
    for prefer in (None, *names):
        tune = job.tune.model_copy(update={"prefer": prefer})
        changed = job.model_copy(update={"tune": tune})
        yield replace(plan, resolved=plan.resolved.model_copy(update={"job": changed}))


def _modules(plan: TunePlan, candidate: Candidate) -> list[str]:
    """Modules whose code decides what a judgement is."""
    spec = METHODS[candidate.method or plan.resolved.method]
    return list(dict.fromkeys([spec.module, METHODS[spec.plain].module]))


@dataclass
class SearchProgress:
    """What a search has so far, as a line for the terminal.

    A limit of `models` is shown where there is none of time.
    """

    aim: Aim
    budget: Budget
    prefer: str | None = None
    models: int | None = None
    stage: str = "reading and checking the table"
    best_text: str = "no answer yet"
    trials: int = 0
    judged_models: int = 0
    first_answer_seconds: float | None = None
    first_answer_cpu_seconds: float | None = None
    # of the first answer that keeps the limits by its values
    first_within_seconds: float | None = None
    first_within_cpu_seconds: float | None = None

    def update(self, trials: Sequence[Trial]) -> None:
        """Keep what is shown of the trials so far."""
        self.trials = len(trials)
        self.judged_models = len({trial.model for trial in trials})
        chosen = answer(self.aim, trials, self.prefer)
        if chosen is None:
            return
        if self.first_answer_seconds is None:
            self.first_answer_seconds = round(self.budget.spent, 1)
            self.first_answer_cpu_seconds = round(self.budget.cpu_spent, 1)
        if self.first_within_seconds is None and self.aim.by_value.miss(chosen.metrics) == 0:
            self.first_within_seconds = round(self.budget.spent, 1)
            self.first_within_cpu_seconds = round(self.budget.cpu_spent, 1)
        name = self.prefer or self.aim.objectives[0]
        value = chosen.metrics.get(name, {}).get("value")
        objective = name
        if value is not None:
            objective = f"{name} {value:.4f}"
        self.best_text = f"best so far {objective}"
        if self.aim.limits:
            self.best_text += f", {self._limits_text(chosen)}"

    def first_answers(self) -> dict[str, float | None]:
        """Return after how many seconds there was an answer, and one that keeps the limits."""
        return {
            "first_answer_seconds": self.first_answer_seconds,
            "first_answer_cpu_seconds": self.first_answer_cpu_seconds,
            "first_within_seconds": self.first_within_seconds,
            "first_within_cpu_seconds": self.first_within_cpu_seconds,
        }

    def _limits_text(self, chosen: Trial) -> str:
        """Say whether the limits are kept, with the smallest chance, or by how much they are
        missed.
        """
        rows = standings(self.aim, chosen.metrics)
        unknown = [row.limit.metric for row in rows if row.value is None]
        if unknown:
            return f"too few rows for {' and '.join(unknown)}"
        missed = sum(row.missed_by for row in rows)
        if missed > 0:
            return f"limits missed by {missed:.3g}"
        chances = [row.chance for row in rows if row.chance is not None]
        if len(chances) < len(rows):
            return "limits kept by the values"
        smallest = shown_chance(min(chances))
        if len(rows) > 1:
            return f"each limit kept with a chance of {smallest} or more"
        return f"limit kept with a chance of {smallest}"

    def line(self) -> str:
        """Return the present line."""
        parts = [f"tune  {self.stage}", self.best_text, _counted(self.trials, "trial")]
        if self.models is not None:
            text = f"{self.judged_models} of {self.models} models"
            if self.judged_models > self.models:
                # a study of more models that goes on
                text = f"{self.judged_models} models"
            parts.append(text)
        if self.budget.is_limited:
            parts.append(f"{duration_text(max(self.budget.left, 0.0))} left")
        return "; ".join(parts)


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


@dataclass
class _AfterTrial:
    """What is done after each trial: the time that is kept is set, and progress is reported."""

    plan: TunePlan
    rows: Rows
    study: Study
    store: Store
    report: Report
    budget: Budget
    progress: SearchProgress | None = None
    on_best: Callable[[Sequence[Trial]], None] | None = None
    winner: str | None = None  # of the page that was written last, at `page_at`
    page_at: float = field(default_factory=time.monotonic)
    has_checked_limits: bool = False
    prepared: Trial | None = None  # the answer that `on_best` was called with last

    def __call__(self, trials: list[Trial]) -> bool:
        """Use the trials so far, and return whether the search may end; `InputError` if the first
        of them show that a limit is out of reach.
        """
        self._check_limits(trials)
        if self.progress is not None:
            self.progress.update(trials)
        self._keep_time(trials)
        winner = best(self.plan.aim, trials, self.plan.tune.prefer)
        if winner is not None:
            self._write_page(winner, trials)
        self._report(winner, trials)
        return self.is_enough(trials)

    def is_enough(self, trials: Sequence[Trial]) -> bool:
        """Whether further random settings would gain no more than was asked for, by enough of them
        and after the models that come before the search.
        """
        wanted = self.plan.tune.until_gain
        finished = {trial.model for trial in trials if trial.state != "partial"}
        if wanted is None or len(finished) < len(self.rows.plan.fixed):
            return False
        return is_gain_reached(self.plan.aim, trials, len(self.study.stream()), wanted)

    def _check_limits(self, trials: list[Trial]) -> None:
        """Check once that no limit is out of reach, as soon as the quick methods have a model."""
        if self.has_checked_limits:
            return
        judged_methods = {trial.method for trial in trials if trial.error is None}
        quick = [name for name in FIRST_METHODS if name in self.plan.methods]
        if not quick or not judged_methods.issuperset(quick):
            return
        self.has_checked_limits = True
        limits = self.plan.aim.limits
        if self.plan.alternative is not None:
            # the model that alternatives are looked for to keeps the limits that follow from it
            limits = limits[len(self.plan.alternative.no_worse) :]
        unreachable = out_of_reach(self.plan.aim, trials, limits)
        if unreachable is not None:
            raise InputError(f"{unreachable}.")

    def _keep_time(self, trials: list[Trial]) -> None:
        """Set the seconds that are kept for what follows the search."""
        budget = self.budget
        if budget.is_limited:
            budget.writing = writing_seconds(contention(), budget, len(trials))
        chosen = answer(self.plan.aim, trials, self.plan.tune.prefer)
        if chosen is not None and self.on_best is not None and chosen != self.prepared:
            self.prepared = chosen
            self.on_best(trials)
        is_proved = bool(self.plan.proofs)
        budget.reserve = finishing_seconds(
            trials,
            chosen,
            budget,
            folds=self.rows.folds,
            has_group_rule=self.plan.resolved.job.decision.equal is not None,
            is_proved=is_proved,
        )
        budget.reserve += keeping_seconds(self.plan.alternative, chosen, budget)
        models = {trial.model for trial in trials}
        if not within(self.plan.aim.by_value, trials) and len(models) < len(self.rows.plan.fixed):
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
        document = study_document(self.rows.identity, prefer, self.study.folder.name, trials)
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
            total = self.budget.total
            passed = min(max(total - self.budget.left, 0.0), total)
            self.report(int(passed), max(int(total), 1), values)


def write_study_page(store: Store, document: dict[str, Any]) -> None:
    """Write the page of a study as far as it is, and its address as ``report`` into the
    document.
    """
    # imported lazily: the first answer comes before any page, and workers write none
    from evenhand.tasks.pages.build import write_page

    name = document["study"]
    run = {"id": name, "created": now(), "environment": environment(), "files": [], "made": []}
    page = write_page("tune", {"tuning": document, "run": run}, store)
    document["report"] = store.write_text(page, STUDIES, name, "report.html")


def _workers(plan: TunePlan) -> int:
    return plan.tune.workers or len(cores())


@contextlib.contextmanager
def worker_pool(plan: TunePlan, budget: Budget) -> Iterator[Pool | None]:
    """Start the workers that judge models; none where this process does.

    With a limit of time there is always a worker: this process could not stop a training of its
    own. Its first process also runs the steps that all trials share. The others start when they are
    needed, so they take no CPU time from these steps.
    """
    if plan.tune.engine == "processes" and _workers(plan) == 1 and not budget.is_limited:
        yield None
        return
    started = None
    if budget.is_limited:
        started = 1
    with make_pool(plan.tune, _workers(plan), JUDGING, started) as pool:
        yield pool
        if budget.is_limited:
            # what still runs is not waited for
            pool.close(kill=True)


_ONE_AT_A_TIME = threading.Lock()


def judged(
    store_url: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    modules: Sequence[str],
) -> Judgement:
    """Judge a candidate, or take its results from the cache if it was judged before.

    The durations are measured here, in the process that judges: for its caller the start of that
    process counts too. A judgement from the cache has the duration that it had, as what is trained
    next on these rows, such as the winner, takes about as long.
    """
    # a Dask worker may have several threads, and trainings share the generator of the process
    with _ONE_AT_A_TIME, listen(None):
        started = time.perf_counter()
        cpu_before = time.process_time()
        store = Store(store_url)
        record, was_known = run_step(
            store, JUDGE, step_key(JUDGE, parameters, inputs, modules), parameters, inputs
        )
        content = json.loads(store.fetch(record.outputs["judged"]).read_text())
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu_before
    if was_known:
        # of the CPU it is an estimate: a judgement computes all the time, with one thread
        seconds = max(seconds, record.seconds)
        cpu_seconds = max(cpu_seconds, record.seconds)
    return Judgement(content["rules"], seconds, cpu_seconds)


def judging(
    plan: TunePlan, rows: Rows, candidate: Candidate, rules: Sequence[Rule], *, part: int
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the step that judges a candidate: no test rows are among
    them.
    """
    resolved = plan.resolved
    job = resolved.job
    is_control = candidate.kind in CONTROLS
    searched = dict(candidate.arguments)
    leave_out = searched.pop(LEAVE_OUT, ())
    kind_of_metric = searched.pop(METRIC, None)
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
        if kind_of_metric is not None:
            inputs["metric"] = rows.metrics[kind_of_metric]
        kind = ""
    measure = _measuring(plan)
    if measure.get("adapted"):
        inputs["adapting"] = rows.metrics[job.fair_metric.kind]
    if plan.proofs and job.evaluate.certificate is not None:
        inputs["screening"] = rows.metrics[job.fair_metric.kind]
        parameters["certificate"] = job.evaluate.certificate.model_dump()
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
        "part": part,
        "measure": measure,
    }
    if plan.alternative is not None and part == 1:
        parameters["decisions"] = True
    return parameters, inputs


def _measuring(plan: TunePlan) -> dict[str, Any]:
    """Return the settings of the measurement: only copies that objectives or limits are about, or
    the metric that the winner is chosen by.
    """
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
    kind, _, subject = (plan.tune.prefer or "").partition(".")
    if kind in kinds:
        copy_names.add(subject)
    content = settings.model_dump()
    adapted = {}
    if copy_names.intersection(settings.adapted):
        adapted["adapted"] = [name for name in settings.adapted if name in copy_names]
    predicted: Sequence[str] = []
    if aim.limits:
        predicted = aim.metrics
    return {
        "counterfactuals": _only(content["counterfactuals"], copy_names),
        "terms": _only(content["terms"], copy_names),
        **adapted,
        **settings.model_dump(include={"draws", "level", "min_cell", "intersections"}),
        "test_share": plan.resolved.job.split.test,
        "predicted": predicted,
        "compared": aim.metrics,
        "score_intervals": has_score,
    }


def _only(mapping: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name in names}


def _rule(plan: TunePlan, rule: Rule, *, is_control: bool) -> dict[str, Any]:
    decision = decision_of(plan.resolved, plan.aim, rule.decision, rule.tolerance)
    if is_control:
        decision = decision.model_copy(update={"equal": None})
    content: dict[str, Any] = {"decision": decision.model_dump()}
    if rule.calibration is not None:
        content["calibration"] = rule.calibration
    if decision.equal is None:
        return content
    changed = plan.resolved.job.model_copy(update={"decision": decision})
    attribute = classifier.attribute(plan.resolved.model_copy(update={"job": changed}))
    return {**content, "attribute": attribute}
