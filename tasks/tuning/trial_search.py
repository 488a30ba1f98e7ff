"""Search: an Optuna study in the store, whose trials are candidates judged on folds of the training
rows.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import better
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.tuning.budget import Budget, Work
from evenhand.fairlib.tuning.space import Choice, Dimension, Space, Whole
from evenhand.fairlib.tuning.study import (
    Aim,
    Estimates,
    Trial,
    beats,
    is_candidate,
    is_kept,
    leading,
    within,
)
from evenhand.tasks.errors import (
    EvenhandError,
    InputError,
    OutOfTime,
    ProcessLost,
    disk_is_full,
    internal_fault,
)
from evenhand.tasks.evaluating.control_names import CONTROLS, MAJORITY
from evenhand.tasks.execution.store import acquired

JOB = "job"
SEARCH = "search"
DEFAULT = "default"
# One of a stream of independent random settings, which the guided search does not choose.
RANDOM = "random"
METHOD = "method"
# After so many models in a row whose process was lost, the search ends: the machine is at fault. Of
# several workers one event may take all, so it is twice their number if that is more.
MOST_LOST = 5
# Kinds of metrics that depend on the probabilities alone: they are the same under every rule.
SCORES = ("auc", "log_loss", "log_loss_gain", "brier", "ece", "calibration_gap")


@dataclass(frozen=True)
class Rule:
    """A rule of decisions: its name, the tolerance of thresholds by group, and the kind of
    calibration before it; None is the job's.
    """

    decision: str = JOB
    tolerance: float | None = None
    calibration: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A model that is tried: a kind, and but for controls a method and its arguments."""

    kind: str
    method: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """How good a model is: by rule ``metrics`` or ``error``, and how long it took to judge.

    The seconds are those of the judgement itself: the start of its process, which imports
    libraries, is not among them. None where they were not measured.
    """

    results: Sequence[Mapping[str, Any]]
    seconds: float | None = None
    cpu_seconds: float | None = None


Judge = Callable[[Candidate, Sequence[Rule], int], Judgement]
"""``judge(candidate, rules, part)``: on all folds where the part is 1, and else on one fold by a
model of the rows divided by it.
"""
ALL = 1


@dataclass(frozen=True)
class Plan:
    """What a study searches."""

    aim: Aim
    methods: Mapping[str, Space]  # the space of each method
    judged_under: Sequence[Rule]  # rules that every model is judged under
    fixed: Sequence[
        Candidate
    ]  # models before the search: controls, and defaults with their arguments
    seed: int
    # by which the rows are divided, for models that are pruned on growing parts of them; falling
    parts: Sequence[int]
    sampler: str = "tpe"
    # whether every second model is one of a stream of independent random settings: so it is in a
    # search for an alternative to the job as it is, the champion
    has_stream: bool = False
    # by which the rows are divided for the very first look at a model
    first_part: int = 3

    def rules(self, candidate: Candidate) -> Sequence[Rule]:
        """Rules that a model is judged under.

        A control has the job's alone, and a champion has it first, also where it is not searched.
        """
        own = Rule()
        if candidate.kind in CONTROLS:
            return [own]
        if candidate.kind == JOB and self.has_stream:
            return [own, *(rule for rule in self.judged_under if rule != own)]
        return self.judged_under


def optuna_quietly() -> Any:
    """Import Optuna, which prints nothing from then on."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna


# parameters of trials: those of a method are named METHOD.PARAMETER, and values of a choice are
# JSON


def drawn(trial: Any, plan: Plan) -> Candidate:
    """Draw the candidate of a trial."""
    kind = trial.user_attrs.get("kind", SEARCH)
    if kind not in (SEARCH, DEFAULT, RANDOM):
        return Candidate(kind)
    method = trial.suggest_categorical(METHOD, list(plan.methods))
    arguments = {
        name: _suggest(trial, f"{method}.{name}", dimension)
        for name, dimension in plan.methods[method].items()
    }
    return Candidate(kind, method, arguments)


def distribution(dimension: Dimension) -> Any:
    """Optuna's distribution of a dimension; the values of a choice are JSON."""
    kinds = optuna_quietly().distributions
    if isinstance(dimension, Choice):
        return kinds.CategoricalDistribution([json.dumps(value) for value in dimension.values])
    if isinstance(dimension, Whole):
        return kinds.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _suggest(trial: Any, name: str, dimension: Dimension) -> Any:
    bounds = distribution(dimension)
    if isinstance(dimension, Choice):
        return json.loads(trial.suggest_categorical(name, bounds.choices))
    if isinstance(dimension, Whole):
        return trial.suggest_int(name, bounds.low, bounds.high, log=bounds.log)
    return trial.suggest_float(name, bounds.low, bounds.high, log=bounds.log)


def random_candidate(plan: Plan, place: int) -> Candidate:
    """Draw a setting of the stream by its place alone: independent of all others and of results.

    The method is uniform among all, and so is every parameter on its scale.
    """
    rng = generator(plan.seed, f"stream-{place}")
    methods = list(plan.methods)
    method = methods[int(rng.integers(len(methods)))]
    arguments = {}
    for name, dimension in plan.methods[method].items():
        arguments[name] = _random_value(dimension, rng)
    return Candidate(RANDOM, method, arguments)


def _random_value(dimension: Dimension, rng: Any) -> Any:
    """A uniform value of a dimension, of its logarithm where that is searched."""
    if isinstance(dimension, Choice):
        return dimension.values[int(rng.integers(len(dimension.values)))]
    low = dimension.low
    high = dimension.high
    if isinstance(dimension, Whole):
        # each whole number has the same width
        low -= 0.5
        high += 0.5
    if dimension.log:
        value = math.exp(rng.uniform(math.log(max(low, 1e-300)), math.log(high)))
    else:
        value = rng.uniform(low, high)
    if isinstance(dimension, Whole):
        return int(min(max(round(value), dimension.low), dimension.high))
    return float(min(max(value, dimension.low), dimension.high))


def parameters_of(candidate: Candidate, plan: Plan) -> dict[str, Any]:
    """Give the parameters of a candidate as a trial has them; none for a control and for the job as
    it is.
    """
    if candidate.method is None:
        return {}
    parameters: dict[str, Any] = {METHOD: candidate.method}
    for name, value in candidate.arguments.items():
        if isinstance(plan.methods[candidate.method][name], Choice):
            value = json.dumps(value)
        parameters[f"{candidate.method}.{name}"] = value
    return parameters


JOURNAL = "journal.log"
STUDY = "study"
# One in so many models goes on after each part of the rows.
FACTOR = 4.0
# Part of the rows of the first look at a model, of a table that is not divided further.
FIRST_PART = 3
# The part of the rows that a model was looked at, as an attribute of the study.
LOOKED_AT = "looked_at"
# A look at fewer rows than this part of those of another look is no answer: 3 for a third.
FEWER_ROWS = 3
# A judgement on all folds takes as long as so many folds at least.
LEAST_FOLDS = 2
# A thread that waits for the first result looks at the time so often.
LOOK_EVERY_S = 0.25
# A look at all trials after a model holds up the others, and takes the longer the more there are:
# of more trials than these, looks take this share of the time.
MANY_TRIALS = 1000
SHARE_OF_LOOKS = 0.05
# Random models before the search learns from those that were judged.
STARTUP = 16
# Constraint of a trial that failed: worse than missing a limit on shares by all that is possible.
FAILED = 2.0
# Metrics are written to so many digits.
DIGITS = 6
# Models that were drawn one after another and would not end in time; after so many a search ends.
MOST_POSTPONED = 20
# A model that was stopped is run again where there is so many times as much time as it had: nearly
# all of a call of the same length, if it was begun late.
TIME_TO_GO_ON = 1.1
STOPPED_AFTER = "stopped_after"
# State of a model that the sampler drew, and for which there was no time.
DROPPED = "dropped"


class Study:
    """A study in a folder, which has ``journal.log``, to which every event is appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._study: Any = None

    @property
    def exists(self) -> bool:
        """Whether the study has been begun."""
        return (self.folder / JOURNAL).is_file()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the study alone, and mend what a killed process left; `NotCarriedOut` if another
        holds it.
        """
        busy = (
            "is being searched by another process: wait for its end, or look at it with --status."
        )
        with acquired(self.folder / "held.lock", f"the study {self.folder.name} {busy}"):
            self._mend()
            yield

    def _mend(self) -> None:
        """Remove a last line that a killed process did not finish."""
        journal = self.folder / JOURNAL
        if journal.is_file():
            content = journal.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with journal.open("r+b") as stream:
                    stream.truncate(whole)

    def create(self, plan: Plan, identity: Mapping[str, Any]) -> None:
        """Begin the study, with the trials before the search waiting in their order."""
        optuna = optuna_quietly()
        directions = []
        for name in plan.aim.objectives:
            directions.append("maximize" if better(name) == "higher" else "minimize")
        self._study = optuna.create_study(
            storage=self._storage(), study_name=STUDY, directions=directions
        )
        for candidate in plan.fixed:
            self._study.enqueue_trial(
                parameters_of(candidate, plan), user_attrs={"kind": candidate.kind}
            )
        # last: a study without it has not begun
        self._study.set_user_attr("identity", dict(identity))

    def open(self) -> None:
        """Open a study that exists."""
        if self._study is None:
            self._study = optuna_quietly().load_study(storage=self._storage(), study_name=STUDY)

    def identity(self) -> dict[str, Any] | None:
        """What the study was begun with; None if it was not fully begun."""
        try:
            self.open()
        except KeyError:
            return None
        identity: dict[str, Any] | None = self._study.user_attrs.get("identity")
        return identity

    def clear(self) -> None:
        """Remove a journal that was not fully begun."""
        self._study = None
        (self.folder / JOURNAL).unlink(missing_ok=True)

    def _storage(self) -> Any:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        path = self.folder / JOURNAL

        class Journal(JournalFileBackend):  # type: ignore[misc]
            """A journal that one process writes.

            What a process has written survives its death, so nothing waits for the disk; that would
            take longer than many a trial.
            """

            def append_logs(self, logs: list[dict[str, Any]]) -> None:
                lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in logs)
                with path.open("ab") as stream:
                    stream.write(lines.encode())

        return JournalStorage(Journal(str(path)))

    def trials(self) -> list[Trial]:
        """Finished trials, by the number of their model and the place of their rule."""
        trials = []
        for item in self.finished():
            trials += _trials(item)
        return trials

    def answered(self, aim: Aim) -> list[Trial]:
        """Return the trials that an answer is chosen from.

        These are the finished ones. If none of them keeps all limits by its value, trials that were
        judged on a part of the rows only are among them. Their models had no time for all folds:
        they are open, and run again when the study goes on.
        """
        trials = self.trials()
        if within(aim.by_value, trials):
            return trials
        return [*trials, *self._partial()]

    def _partial(self) -> list[Trial]:
        """Trials of a part of the rows, without those of far fewer rows than others."""
        looked = []
        for item in self._items():
            if not item.state.is_finished() and "results" in item.user_attrs:
                # studies of older versions lack the part
                looked.append((item.user_attrs.get(LOOKED_AT, FIRST_PART), item))
        most = FEWER_ROWS * min((part for part, _ in looked), default=ALL)
        trials = []
        for part, item in looked:
            if part <= most:
                trials += _trials(item)
        return trials

    def finished(self) -> list[Any]:
        """Optuna's finished trials, one for each model; without dropped ones."""
        self.open()
        finished = []
        for item in self._items():
            if item.state.is_finished() and item.user_attrs.get("state") != DROPPED:
                finished.append(item)
        return finished

    def _items(self) -> list[Any]:
        items: list[Any] = self._study.get_trials(deepcopy=False)
        return items

    def search(
        self,
        plan: Plan,
        judge: Judge,
        *,
        until: float,
        most: int,
        workers: int = 1,
        on_trial: Callable[[list[Trial]], bool] | None = None,
        interrupt: Callable[[], None] = lambda: None,
        budget: Budget | None = None,
        once: Mapping[str, float] | None = None,
    ) -> None:
        """Judge candidates until a time or a number of models; those that were running are run
        again.

        - `until`: time of ``time.monotonic``, after which no further model starts; the controls
          always run
        - `budget`: a limit for everything, in place of `until`. A model starts only if it would end
          in time by the durations that were measured; `judge` raises `OutOfTime` when the time is
          up, and the model stays open. Until a trial is within the limits, the models before the
          search are judged on a part of the rows first.
        - `once`: seconds that the first model of a method takes longer than the others
        - `most`: number of models of the whole study
        - `workers`: models at a time; each waits in a thread for `judge`
        - `on_trial`: called after each model with the trials that an answer is chosen from; no
          further model starts after it returned True
        - `interrupt`: called after an exception such as Ctrl-C; it ends the calls of `judge` that
          run
        """
        optuna = optuna_quietly()
        running = [item for item in self._items() if item.state == optuna.trial.TrialState.RUNNING]
        time_limit = budget or Budget()
        running_search = _Search(
            study=self,
            plan=plan,
            judge=judge,
            budget=time_limit,
            pace=_Pace(plan, time_limit, once or {}),
            until=until,
            most=most,
            on_trial=on_trial,
            interrupted=running,
            workers=workers,
        )
        with warnings.catch_warnings():
            # its grouping of parameters by method is called experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # a model whose process was killed during its report is reported again
            warnings.filterwarnings("ignore", "The reported value is ignored")
            if workers == 1:
                running_search.work()
            else:
                _on_threads(running_search.work, workers, running_search.stopped, interrupt)
            running_search.look_last()

    def stream(self) -> list[int]:
        """Return the numbers of the finished models of the stream of random settings, in its order,
        up to the first one that is not finished.

        Those after it do not count: which of them ended in time depends on how long they took. A
        setting that cannot be trained is finished; one whose process was killed is not.
        """
        self.open()
        numbers = []
        for item in self._items():
            if item.user_attrs.get("kind") != RANDOM:
                continue
            if not item.state.is_finished():
                break
            numbers.append(item.number)
        return numbers

    def _extend_stream(self, plan: Plan) -> None:
        """Let the next model be a random one, unless another one waits or the last one was."""
        kinds = []
        for item in self._items():
            if item.state.name == "WAITING":
                return
            kinds.append(item.user_attrs.get("kind", SEARCH))
        places = kinds.count(RANDOM)
        if kinds.count(SEARCH) < places:
            return
        candidate = random_candidate(plan, places)
        self._study.enqueue_trial(parameters_of(candidate, plan), user_attrs={"kind": RANDOM})

    def _ask(self, plan: Plan) -> Any:
        """Begin the next model."""
        if plan.has_stream:
            self._extend_stream(plan)
        self._study.sampler = self._sampler(plan, len(self._items()))
        return self._study.ask()

    def _reopened(self, item: Any, plan: Plan) -> Any:
        """Continue a model that was begun by a search that ended."""
        self._study.sampler = self._sampler(plan, item.number)
        return optuna_quietly().trial.Trial(self._study, item._trial_id)

    def _begun(self) -> int:
        """Return the number of models that are finished or running, without dropped ones."""
        begun = 0
        for item in self._items():
            is_dropped = item.user_attrs.get("state") == DROPPED
            begun += item.state.name != "WAITING" and not is_dropped
        return begun

    def _propose(self, method: str) -> None:
        """Let the next model have this method; the sampler draws its parameters."""
        self._study.enqueue_trial({METHOD: method}, user_attrs={"kind": SEARCH})

    def _drop(self, trial: Any, candidate: Candidate) -> None:
        """End a model that the sampler drew, and for which there is no time: it is not run when the
        study goes on, as there may be very many.
        """
        _describe(trial, candidate, [], 0.0, DROPPED)
        self._avoid(trial)

    def _avoid(self, trial: Any) -> None:
        """End a model without results, as one that misses its limits: the sampler would take no
        notice of a failed one.
        """
        trial.set_constraint("failed", FAILED)
        self._study.tell(trial, state=optuna_quietly().trial.TrialState.PRUNED)

    def _sampler(self, plan: Plan, number: int) -> Any:
        """Build the sampler of a trial: seeded by its number, as if no process had been killed.

        Models that are judged at a time, or that are open, get others each: not by the number of
        those that ended.
        """
        seed = derive_seed(plan.seed, plan.sampler, str(number))
        if plan.sampler != "tpe":
            return genetic_sampler(plan, seed)
        tpe = optuna_quietly().samplers.TPESampler
        return tpe(seed=seed, n_startup_trials=STARTUP, multivariate=True, group=True)

    def _passes_rung(
        self, trial: Any, results: Sequence[Mapping[str, Any]], aim: Aim, part: int
    ) -> bool:
        """Whether a model goes on after a part of the rows, by what other models had there.

        Its own results of the rung are kept with the trial.
        """
        metrics = [result["metrics"] for result in results if "metrics" in result]
        rung = leading(aim, metrics)
        key = f"rung_{part}"
        rungs = []
        for item in self._items():
            if item.number != trial.number and key in item.user_attrs:
                rungs.append(item.user_attrs[key])
        passes = is_kept(aim, rung, rungs, FACTOR)
        content = []
        for estimates in rung:
            content.append(rounded_metrics({name: estimates.get(name, {}) for name in aim.metrics}))
        trial.set_user_attr(key, content)
        return passes

    def _tell(
        self,
        trial: Any,
        candidate: Candidate,
        results: list[dict[str, Any]],
        plan: Plan,
        seconds: float,
        *,
        kept: bool,
    ) -> None:
        """Record the results of a model, and report one of them to Optuna.

        It is the best one; where there are several objectives, one at random of those that no other
        beats.
        """
        aim = plan.aim
        states = optuna_quietly().trial.TrialState
        _describe(trial, candidate, results, seconds, "judged" if kept else "pruned")
        best = leading(aim, [result["metrics"] for result in results if "metrics" in result])
        if not best:
            self._avoid(trial)
            return
        chosen = generator(plan.seed, f"told-{trial.number}").integers(len(best))
        metrics = best[int(chosen)]
        for limit in aim.limits:
            trial.set_constraint(str(limit), aim.shortfall(limit, metrics))
        values = [metrics[name]["value"] for name in aim.objectives]
        if kept:
            self._study.tell(trial, values)
            return
        if len(values) == 1:
            trial.report(values[0], step=0)
        self._study.tell(trial, state=states.PRUNED)


@dataclass
class _Search:
    """A search that runs: what its threads share, and what each of them does."""

    study: Study
    plan: Plan
    judge: Judge
    budget: Budget
    pace: _Pace
    until: float  # no further model starts after this time of ``time.monotonic``
    most: int  # number of models of the whole study
    on_trial: Callable[[list[Trial]], bool] | None
    interrupted: list[Any]  # models of Optuna that were begun and did not end
    workers: int = 1
    # held by the thread that reads or writes the study
    guard: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    # set when there is a first result: until then one thread works, as the start of another worker
    # takes a second of CPU time from it
    has_result: threading.Event = field(default_factory=threading.Event)
    has_begun: bool = False
    is_enough: bool = False  # what was found suffices the caller
    next_look: float = -math.inf  # time of ``time.monotonic`` from which trials are looked at again
    has_skipped_look: bool = False
    # numbers of models whose process was lost, and of those that were lost one after another
    lost: set[int] = field(default_factory=set)
    lost_in_a_row: set[int] = field(default_factory=set)

    def work(self) -> None:
        """Judge one model after another until no further one starts."""
        with self.guard:
            is_first = not self.has_begun
            self.has_begun = True
            if self.study.finished() or not self.budget.is_limited:
                self.has_result.set()
        try:
            if not is_first:
                self._await_first_result()
            self._work()
        finally:
            self.has_result.set()

    def _await_first_result(self) -> None:
        """Wait until there is a result, or no time for any."""
        while not self.has_result.wait(LOOK_EVERY_S):
            if self.stopped.is_set() or self.budget.search_left <= 0:
                return

    def _work(self) -> None:
        """Judge one model after another."""
        while not self.stopped.is_set():
            trial = self._next_trial()
            if trial is None:
                return
            with self.guard:
                candidate = drawn(trial, self.plan)
                is_admitted = self.pace.admits(candidate)
                if not is_admitted and candidate.kind == SEARCH:
                    self.study._drop(trial, candidate)
                    self._steer(trial)
            if is_admitted and self._carry_out(trial, candidate):
                self._show()

    def _next_trial(self) -> Any:
        """Begin the next model, or one that was interrupted; None if no further one starts."""
        with self.guard:
            if self.is_enough or self.budget.search_left <= 0 or self.pace.is_over:
                return None
            while self.interrupted:
                trial = self.study._reopened(self.interrupted.pop(0), self.plan)
                if self._may_go_on(trial):
                    return trial
            begun = self.study._begun()
            is_late = time.monotonic() >= self.until
            if begun >= self.most or (begun >= len(CONTROLS) and is_late):
                return None
            return self.study._ask(self.plan)

    def _steer(self, dropped: Any) -> None:
        """Let the next model of the guided search have a method for which there is time: the
        sampler prefers methods that it knows nothing of, and would draw the same one again.
        """
        fitting = []
        for method in self.plan.methods:
            if self.pace.fits(Candidate(SEARCH, method)):
                fitting.append(method)
        if fitting:
            rng = generator(self.plan.seed, f"steered-{dropped.number}")
            self.study._propose(fitting[int(rng.integers(len(fitting)))])

    def _may_go_on(self, trial: Any) -> bool:
        """Whether a model that was stopped has a chance to end now; else it stays open, and leaves
        its time to others. How long it takes is not known: for longer than it had.
        """
        if not self.budget.is_limited:
            return True
        needed = TIME_TO_GO_ON * trial.user_attrs.get(STOPPED_AFTER, 0.0)
        return self.budget.search_left >= needed and self.pace.fits(drawn(trial, self.plan))

    def _keep_stopped(self, trial: Any, started: float) -> None:
        """Keep with a model that did not end in time how long it had."""
        with self.guard:
            seconds = self.budget.clock() - started
            longest = max(seconds, trial.user_attrs.get(STOPPED_AFTER, 0.0))
            trial.set_user_attr(STOPPED_AFTER, round(longest, 3))

    def _show(self) -> None:
        """Pass the trials that an answer is chosen from to the caller."""
        self.has_result.set()
        if self.on_trial is None:
            return
        with self.guard:
            if time.monotonic() >= self.next_look:
                self._look()
            else:
                self.has_skipped_look = True

    def _look(self) -> None:
        """Pass all trials to the caller."""
        assert self.on_trial is not None, "somebody looks"
        began = time.monotonic()
        trials = self.study.answered(self.plan.aim)
        self.is_enough = self.on_trial(trials)
        self.has_skipped_look = False
        if len(trials) > MANY_TRIALS:
            self.next_look = began + (time.monotonic() - began) / SHARE_OF_LOOKS

    def look_last(self) -> None:
        """Pass all trials to the caller at the end, if it has not seen the last ones."""
        if self.has_skipped_look:
            self._look()

    def _carry_out(self, trial: Any, candidate: Candidate) -> bool:
        """Judge a model under all rules, and report it to the study; an error makes it a failure.

        Returns whether it was reported: a stopped model stays open, and is run again.
        """
        # not among what is caught below: an error of the caller's, such as a limit that this look
        # shows to be out of reach, ends the search
        if not self._has_time_after_first_look(trial, candidate):
            return False
        started = time.perf_counter()
        clock_started = self.budget.clock()
        try:
            judgement, goes_on = self._judgement(trial, candidate)
            self._machine_works()
        except OutOfTime:
            self._keep_stopped(trial, clock_started)
            return False
        except Exception as caught:  # noqa: BLE001 - the other models go on
            if self.stopped.is_set() or self._stays_open(trial, candidate, caught):
                return False
            if trial.number not in self.lost:
                self._machine_works()
            judgement = Judgement([{"error": _reason(caught)}], time.perf_counter() - started)
            goes_on = True
        rules = self.plan.rules(candidate)
        with self.guard:
            checked = _checked(self.plan.aim, rules, judgement.results)
            seconds = judgement.seconds or 0.0
            self.study._tell(trial, candidate, checked, self.plan, seconds, kept=goes_on)
        return True

    def _stays_open(self, trial: Any, candidate: Candidate, caught: Exception) -> bool:
        """Whether a model that could not be judged stays open, as the machine failed and not the
        model: its process was killed, or disk or memory were full.

        It is run again once. After a second time it is a failure, unless it has results of a part
        of the rows, which are kept, or is of the stream of random settings, where a failure counts
        as a setting that is no better. Raises `caught` after so many such models in a row.
        """
        if not isinstance(caught, ProcessLost | MemoryError) and not disk_is_full(caught):
            return False
        with self.guard:
            is_first_time = trial.number not in self.lost
            self.lost.add(trial.number)
            self.lost_in_a_row.add(trial.number)
            if len(self.lost_in_a_row) >= max(MOST_LOST, 2 * self.workers):
                raise caught
            if is_first_time:
                self.interrupted.append(trial)
        return is_first_time or candidate.kind == RANDOM or "results" in trial.user_attrs

    def _machine_works(self) -> None:
        """Keep that a model has ended, be it by a failure of its own."""
        with self.guard:
            self.lost_in_a_row.clear()

    def _judgement(self, trial: Any, candidate: Candidate) -> tuple[Judgement, bool]:
        """Judge a model on all folds, where its first rung is good enough; return the judgement,
        and whether it was.

        Raises `OutOfTime` if it would not end in time.
        """
        rules = self.plan.rules(candidate)
        if self.plan.parts and candidate.kind == SEARCH:
            for part in self.plan.parts:
                if not self.pace.admits(candidate, part=part):
                    raise OutOfTime
                try:
                    judgement = self.pace.timed(self.judge, candidate, rules, part=part)
                except InputError:
                    # all folds may have what a part of the rows lacks, such as a label of a group
                    break
                if not any("metrics" in result for result in judgement.results):
                    break
                with self.guard:
                    goes_on = self.study._passes_rung(trial, judgement.results, self.plan.aim, part)
                if not goes_on:
                    return judgement, False
            if not self.pace.admits(candidate, part=ALL):
                raise OutOfTime
        return self.pace.timed(self.judge, candidate, rules, part=ALL), True

    def _has_time_after_first_look(self, trial: Any, candidate: Candidate) -> bool:
        """Judge a model on a part of the rows, where it is the first look at it that is wanted, and
        show it; return whether there is time for all folds.
        """
        if not self.pace.wants_first_look(candidate):
            return True
        started = self.budget.clock()
        # part of the rows and seconds of each look; a look that failed says nothing of the time
        looks: list[tuple[int, float]] = []
        has_looked = False
        try:
            for part in self._parts_to_look_at():
                if has_looked and not self.pace.fits(candidate, part=part):
                    break
                seconds = self._look_at(trial, candidate, part)
                has_looked = True
                if seconds is not None:
                    looks.append((part, seconds))
                self._show()
        except OutOfTime:
            self._keep_stopped(trial, started)
            return False
        if not has_looked:
            return True
        if len(looks) > 1 and self._is_hopeless(looks):
            return False
        return self.pace.admits(candidate, part=ALL)

    def _parts_to_look_at(self) -> list[int]:
        """The growing parts of the rows on which a model is looked at before all folds: the first
        one until there is an answer, and those of a very large table until a model was judged on
        all folds. That may take longer than there is time, and a few thousand rows say little of so
        many.
        """
        parts = []
        if not self._has_answer():
            first = max(self.plan.parts, default=FIRST_PART)
            if not self.has_result.is_set():
                first = max(first, self.plan.first_part)
            parts.append(first)
        with self.guard:
            is_judged = any(map(is_candidate, self.study.trials()))
        if len(self.plan.parts) > 1 and not is_judged:
            parts += [part for part in self.plan.parts if part not in parts]
        return parts

    def _is_hopeless(self, looks: Sequence[tuple[int, float]]) -> bool:
        """Whether all folds would take longer than is left, if the time grows with the rows as it
        did in the last two looks.
        """
        (fewer, shorter), (more, longer) = looks[-2:]
        one_fold_s = (longer - shorter) / (1.0 / more - 1.0 / fewer)
        return LEAST_FOLDS * one_fold_s > self.budget.search_left

    def _has_answer(self) -> bool:
        """Whether a trial keeps all limits by its value, be it that of a part of the rows."""
        with self.guard:
            return bool(within(self.plan.aim.by_value, self.study.answered(self.plan.aim)))

    def _look_at(self, trial: Any, candidate: Candidate, part: int) -> float | None:
        """Judge a model on a part of the rows, so that there is an answer if there is no time for
        more; return its seconds, or None where that failed.
        """
        rules = self.plan.rules(candidate)
        try:
            judgement = self.pace.timed(self.judge, candidate, rules, part=part)
            results = _checked(self.plan.aim, rules, judgement.results)
        except OutOfTime:
            raise
        except Exception:  # noqa: BLE001 - all folds may have what a part of the rows lacks
            return None
        seconds = judgement.seconds or 0.0
        with self.guard:
            _describe(trial, candidate, results, seconds, "partial")
            trial.set_user_attr(LOOKED_AT, part)
        return seconds


def _on_threads(
    work: Callable[[], None], workers: int, stopped: threading.Event, interrupt: Callable[[], None]
) -> None:
    """Call `work` on so many threads; an exception stops all of them."""
    with ThreadPoolExecutor(workers) as threads:
        futures = [threads.submit(work) for _ in range(workers)]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            # first: the pool of threads waits for all, and each for its call
            stopped.set()
            interrupt()
            raise


def _reason(caught: Exception) -> str:
    """Why a model has no results: the message of one of our errors, or that of a fault."""
    if isinstance(caught, EvenhandError):
        return str(caught)
    return str(internal_fault(caught))


def _describe(
    trial: Any, candidate: Candidate, results: list[dict[str, Any]], seconds: float, state: str
) -> None:
    """Keep with a model of the study what trials are read from."""
    trial.set_user_attr("kind", candidate.kind)
    trial.set_user_attr("arguments", dict(candidate.arguments))
    trial.set_user_attr("seconds", round(seconds, 3))
    trial.set_user_attr("state", state)
    trial.set_user_attr("results", results)


class _Pace:
    """Which models may still start within the budget of a search, by the durations of those that
    ended.
    """

    def __init__(self, plan: Plan, budget: Budget, once: Mapping[str, float]) -> None:
        self._plan = plan
        self._budget = budget
        self._once = dict(once)
        self._postponed = 0

    @property
    def is_over(self) -> bool:
        """Whether so many models in a row were postponed that others would be, too."""
        return self._postponed >= MOST_POSTPONED

    def admits(self, candidate: Candidate, *, part: int | None = None) -> bool:
        """Whether a model would end in time; those that would not are counted."""
        admitted = self.fits(candidate, part=part)
        if not admitted:
            self._postponed += 1
        elif self._part_of(candidate, part) == ALL:
            # a part of the rows may fit where no model on all of them does
            self._postponed = 0
        return admitted

    def _part_of(self, candidate: Candidate, part: int | None) -> int:
        """The part of the rows that a model is judged on, by default the first one."""
        if part is not None:
            return part
        if candidate.kind == SEARCH:
            return max(self._plan.parts, default=ALL)
        return ALL

    def fits(self, candidate: Candidate, *, part: int | None = None) -> bool:
        """Whether a model would end in time."""
        if not self._budget.is_limited:
            return True
        work = _work(candidate, self._part_of(candidate, part))
        return self._budget.admits(work, self._once.get(work.name, 0.0))

    def wants_first_look(self, candidate: Candidate) -> bool:
        """Whether a model is judged on a part of the rows before it is judged on all folds.

        Not the champion of a search for alternatives, which was judged before the search.
        """
        if self._plan.has_stream and candidate.kind == JOB:
            return False
        return self._budget.is_limited and candidate.kind not in (MAJORITY, SEARCH, RANDOM)

    def timed(
        self, judge: Judge, candidate: Candidate, rules: Sequence[Rule], *, part: int
    ) -> Judgement:
        """Judge a model, and keep how long that took; return a judgement with its seconds."""
        clock = self._budget.clock
        started = clock()
        judgement = judge(candidate, rules, part)
        call_seconds = clock() - started
        seconds = call_seconds
        if judgement.seconds is not None:
            seconds = judgement.seconds
            # the rest of the call is the start of the process, where it was a new one
            starts = (self._budget.start_seconds, call_seconds - seconds)
            self._budget.start_seconds = max(starts)
        work = _work(candidate, part)
        self._budget.record(work, seconds, judgement.cpu_seconds)
        self._once.pop(work.name, None)
        return replace(judgement, seconds=seconds)


def _work(candidate: Candidate, part: int) -> Work:
    return Work(candidate.method or candidate.kind, part)


def _checked(
    aim: Aim, rules: Sequence[Rule], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Results with their rules; one without a number for an objective is an error."""
    checked = []
    for rule, result in zip(rules, results, strict=False):
        metrics = result.get("metrics", {})
        error = result.get("error")
        missing = [name for name in aim.objectives if metrics.get(name, {}).get("value") is None]
        if error is None and missing:
            error = f"not enough evidence for {missing[0]}"
        content: dict[str, Any] = {"decision": rule.decision, "tolerance": rule.tolerance}
        if rule.calibration is not None:
            content["calibration"] = rule.calibration
        if error is None:
            content["metrics"] = rounded_metrics(metrics)
        else:
            content["error"] = error
        checked.append(content)
    return checked


def rounded_metrics(metrics: Estimates) -> dict[str, dict[str, Any]]:
    """Numbers, and lists of them, with so many digits as are written; texts as they are."""
    rounded: dict[str, dict[str, Any]] = {}
    for name, metric in metrics.items():
        rounded[name] = {}
        for key, value in metric.items():
            if isinstance(value, list):
                rounded[name][key] = [round(item, DIGITS) for item in value]
            elif isinstance(value, str):
                rounded[name][key] = value
            else:
                rounded[name][key] = None if value is None else round(value, DIGITS)
    return rounded


def _trials(item: Any) -> list[Trial]:
    """Trials of a finished model: one for each rule of decisions."""
    facts = item.user_attrs
    trials = []
    for place, result in enumerate(facts["results"]):
        state: Any = "failed" if "error" in result else facts["state"]
        trials.append(
            Trial(
                model=item.number,
                rule=place,
                kind=facts["kind"],
                state=state,
                method=item.params.get(METHOD),
                arguments=facts["arguments"],
                decision=result["decision"],
                tolerance=result["tolerance"],
                calibration=result.get("calibration"),
                metrics=result.get("metrics", {}),
                seconds=facts["seconds"],
                error=result.get("error"),
            )
        )
    return trials


def genetic_sampler(plan: Plan, seed: int) -> Any:
    """Build the sampler of the next trial.

    Optuna crosses only parameters that all trials have, and such a study has none. Here, as there,
    a parent is the better of two random trials (Deb et al., IEEE Trans. Evol. Comput. 2002). A
    child has the method of one parent. Each other value is that of either parent that has it, or
    with a probability of one in the number of values a random one.
    """
    samplers = optuna_quietly().samplers
    base = samplers.NSGAIISampler if plan.sampler == "nsga2" else samplers.NSGAIIISampler
    space = _parameter_space(plan)

    class Genetic(base):  # type: ignore[misc, valid-type]
        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return space

    rng = generator(seed, "children")
    objectives = Aim(plan.aim.objectives)

    def child(study: Any, space: Any, population: Sequence[Any]) -> dict[str, Any]:
        items = [item for item in population if METHOD in item.params]
        if not items:
            return {}
        first = _parent(items, objectives, rng)
        second = _parent(items, objectives, rng)
        return _child(space, first, second, rng)

    return Genetic(seed=seed, child_generation_strategy=child)


def _parameter_space(plan: Plan) -> dict[str, Any]:
    """Distributions of the method, and of the parameters of every method."""
    space = {METHOD: optuna_quietly().distributions.CategoricalDistribution(list(plan.methods))}
    for method, dimensions in plan.methods.items():
        for name, dimension in dimensions.items():
            space[f"{method}.{name}"] = distribution(dimension)
    return space


def _parent(items: Sequence[Any], aim: Aim, rng: Any) -> dict[str, Any]:
    """Parameters of the better of two random trials: by the limits missed, then by `aim`."""
    first, second = (items[index] for index in rng.integers(len(items), size=2))
    first_miss = sum(first.constraints.values())
    second_miss = sum(second.constraints.values())
    is_second = second_miss < first_miss
    if second_miss == first_miss:
        is_second = beats(aim, _estimates(second, aim), _estimates(first, aim))
    parameters: dict[str, Any] = (second if is_second else first).params
    return parameters


def _estimates(item: Any, aim: Aim) -> dict[str, dict[str, Any]]:
    """Values of a trial's objectives."""
    estimates = {}
    for name, value in zip(aim.objectives, item.values, strict=True):
        estimates[name] = {"value": value}
    return estimates


def _child(
    space: Any, first: Mapping[str, Any], second: Mapping[str, Any], rng: Any
) -> dict[str, Any]:
    """Values of a child with the first parent's method; those left out are drawn at random."""
    prefix = f"{first[METHOD]}."
    names = [name for name in space if name == METHOD or name.startswith(prefix)]
    values = {}
    for name in names:
        inherited = [parent[name] for parent in (first, second) if name in parent]
        if name == METHOD:
            inherited = inherited[:1]
        if inherited and rng.random() >= 1 / len(names):
            values[name] = inherited[rng.integers(len(inherited))]
    return values
