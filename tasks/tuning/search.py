"""Search: an Optuna study in the store, whose trials are candidates judged on folds of the training rows."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from evenhand.fairlib.catalogue import better
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.tuning.space import Choice, Dimension, Space, Whole
from evenhand.fairlib.tuning.study import Aim, Estimates, Trial, is_kept
from evenhand.tasks.errors import EvenhandError, InputError, NotCarriedOut, internal_fault
from evenhand.tasks.evaluating.controls import CONTROLS

JOURNAL, STUDY = "journal.log", "study"
NEEDED = "`evenhand tune` needs an optional extra: pip install 'evenhand[tune]'."
# One in so many trials goes on after the first rung.
FACTOR = 4.0
# Random trials before the search learns from those that were judged.
STARTUP = 16
JOB, SEARCH, DEFAULT = "job", "search", "default"
METHOD, DECISION, TOLERANCE = "method", "decision", "tolerance"
# Constraint of a trial that failed: worse than missing a limit on shares by all that is possible.
FAILED = 2.0
# Metrics are written to so many digits.
DIGITS = 6


@dataclass(frozen=True)
class Candidate:
    """What a trial tries: a kind, and but for controls a method, its arguments and a rule of decisions."""

    kind: str
    method: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    decision: str = JOB
    tolerance: float | None = None


Judge = Callable[[Candidate, bool], Mapping[str, Any]]
"""``judge(candidate, first)``: metrics on all folds, or on the first rung."""


@dataclass(frozen=True)
class Plan:
    """
    What a study searches.

    `methods` has the space of each method; `decisions` the names of the rules of decisions, the job's own
    first; `tolerance` is the range of those with thresholds by group. `fixed` are the trials before the
    search: controls, and defaults with their arguments. `halving` says whether trials are pruned on a part
    of the rows.
    """

    aim: Aim
    methods: Mapping[str, Space]
    decisions: Sequence[str]
    tolerance: Dimension
    fixed: Sequence[Candidate]
    seed: int
    halving: bool


def check_installed() -> None:
    """Raise InputError unless Optuna can be imported; it is not imported."""
    if importlib.util.find_spec("optuna") is None:
        raise InputError(NEEDED)


def _optuna() -> Any:
    """Import Optuna, which prints nothing from then on."""
    check_installed()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna


class Study:
    """
    A study in a folder: what it is, and its trials.

    Parameters
    ----------
    folder : Path
        Of ``journal.log``, to which every event is appended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._study: Any = None

    @property
    def exists(self) -> bool:
        """Whether the study has been begun."""
        return (self.folder / JOURNAL).is_file()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """
        Hold the study alone, and mend what a killed process left.

        Raises
        ------
        NotCarriedOut
            Another process holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / "held.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise NotCarriedOut(
                f"the study {self.folder.name} is being searched by another process: wait for its end, or "
                "look at it with --status."
            ) from None
        try:
            self._mend()
            yield
        finally:
            lock.release()

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
        optuna = _optuna()
        directions = ["maximize" if better(name) == "higher" else "minimize" for name in plan.aim.objectives]
        self._study = optuna.create_study(storage=self._storage(), study_name=STUDY, directions=directions)
        for candidate in plan.fixed:
            self._study.enqueue_trial(_parameters(candidate, plan), user_attrs={"kind": candidate.kind})
        # last: a study without it has not begun
        self._study.set_user_attr("identity", dict(identity))

    def open(self) -> None:
        """Open a study that exists."""
        if self._study is None:
            self._study = _optuna().load_study(storage=self._storage(), study_name=STUDY)

    def identity(self) -> dict[str, Any] | None:
        """What the study was begun with; None if it was not fully begun."""
        try:
            self.open()
        except KeyError:
            return None
        found: dict[str, Any] | None = self._study.user_attrs.get("identity")
        return found

    def clear(self) -> None:
        """Remove a journal that was not fully begun."""
        self._study = None
        (self.folder / JOURNAL).unlink(missing_ok=True)

    def _storage(self) -> Any:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        path = self.folder / JOURNAL

        class Journal(JournalFileBackend):  # type: ignore[misc]
            """
            A journal that one process writes.

            What a process has written survives its death, so nothing waits for the disk; that would take
            longer than many a trial.
            """

            def append_logs(self, logs: list[dict[str, Any]]) -> None:
                lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in logs)
                with path.open("ab") as stream:
                    stream.write(lines.encode())

        return JournalStorage(Journal(str(path)))

    def trials(self) -> list[Trial]:
        """Finished trials in their order."""
        self.open()
        return [_trial(item) for item in self._study.get_trials(deepcopy=False) if item.state.is_finished()]

    def search(
        self,
        plan: Plan,
        judge: Judge,
        *,
        until: float,
        most: int,
        workers: int = 1,
        on_trial: Callable[[list[Trial]], None] | None = None,
    ) -> None:
        """
        Judge candidates until a time or a number of trials; trials that were running are run again.

        Parameters
        ----------
        plan : Plan
        judge : callable
        until : float
            Time of ``time.monotonic``, after which no further trial starts. The controls always run.
        most : int
            Number of trials of the whole study.
        workers : int
            Trials at a time; each waits in a thread for `judge`.
        on_trial : callable, optional
            Called with all finished trials after each.
        """
        optuna = _optuna()
        guard, stopped = threading.Lock(), threading.Event()
        running = [
            item
            for item in self._study.get_trials(deepcopy=False)
            if item.state == optuna.trial.TrialState.RUNNING
        ]

        def next_trial() -> Any:
            with guard:
                self._study.sampler = self._sampler(plan)
                if running:
                    return optuna.trial.Trial(self._study, running.pop(0)._trial_id)
                begun = sum(not _waits(item) for item in self._study.get_trials(deepcopy=False))
                if begun >= most or (begun >= len(CONTROLS) and time.monotonic() >= until):
                    return None
                return self._study.ask()

        def work() -> None:
            while not stopped.is_set() and (trial := next_trial()) is not None:
                with guard:
                    candidate = _candidate(trial, plan)
                self._carry_out(trial, candidate, plan, judge, guard)
                if on_trial is not None:
                    with guard:
                        on_trial(self.trials())

        with warnings.catch_warnings():
            # its grouping of parameters by method is called experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if workers == 1:
                work()
                return
            with ThreadPoolExecutor(workers) as threads:
                futures = [threads.submit(work) for _ in range(workers)]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    # the pool of threads waits for all: each ends after its trial
                    stopped.set()
                    raise

    def _sampler(self, plan: Plan) -> Any:
        """Build the sampler of the next trial: seeded by its place, as if no process had been killed."""
        finished = sum(item.state.is_finished() for item in self._study.get_trials(deepcopy=False))
        return _optuna().samplers.TPESampler(
            seed=derive_seed(plan.seed, "tpe", str(finished)),
            n_startup_trials=STARTUP,
            multivariate=True,
            group=True,
        )

    def _carry_out(self, trial: Any, candidate: Candidate, plan: Plan, judge: Judge, guard: Any) -> None:
        """Judge a candidate and tell the study; an error makes it a failed trial."""
        aim, started = plan.aim, time.perf_counter()
        metrics: Mapping[str, Any] = {}
        error, kept = None, True
        try:
            if plan.halving and candidate.kind == SEARCH:
                metrics = judge(candidate, True)
                with guard:
                    kept = is_kept(aim, metrics, self._rungs(trial.number), FACTOR)
                    trial.set_user_attr(
                        "rung", _rounded({name: metrics.get(name, {}) for name in aim.metrics})
                    )
            if kept:
                metrics = judge(candidate, False)
        except Exception as caught:  # noqa: BLE001 - the other trials go on
            error = str(caught if isinstance(caught, EvenhandError) else internal_fault(caught))
        values = aim.losses(metrics)
        missing = [name for name in aim.objectives if metrics.get(name, {}).get("value") is None]
        if error is None and missing:
            error = f"not enough evidence for {missing[0]}"
        states = _optuna().trial.TrialState
        with guard:
            trial.set_user_attr("arguments", dict(candidate.arguments))
            trial.set_user_attr(TOLERANCE, candidate.tolerance)
            trial.set_user_attr("seconds", round(time.perf_counter() - started, 3))
            if error is not None:
                trial.set_user_attr("error", error)
                # so the sampler learns to avoid the place: it ignores failed trials
                trial.set_constraint("failed", FAILED)
                self._study.tell(trial, state=states.PRUNED)
                return
            trial.set_user_attr("metrics", _rounded(metrics))
            for limit in aim.limits:
                trial.set_constraint(str(limit), aim.shortfall(limit, metrics))
            signs = [-1.0 if better(name) == "higher" else 1.0 for name in aim.objectives]
            values = tuple(sign * value for sign, value in zip(signs, values, strict=True))
            if kept:
                self._study.tell(trial, list(values))
                return
            if len(values) == 1:
                trial.report(values[0], step=0)
            self._study.tell(trial, state=states.PRUNED)

    def _rungs(self, number: int) -> list[Estimates]:
        """Results of the other trials on the first rung."""
        return [
            item.user_attrs["rung"]
            for item in self._study.get_trials(deepcopy=False)
            if "rung" in item.user_attrs and item.number != number
        ]


def _waits(item: Any) -> bool:
    return bool(item.state.name == "WAITING")


def _rounded(metrics: Estimates) -> dict[str, dict[str, float | None]]:
    return {
        name: {key: None if value is None else round(value, DIGITS) for key, value in metric.items()}
        for name, metric in metrics.items()
    }


def _trial(item: Any) -> Trial:
    """Convert a finished trial of Optuna's."""
    found = item.user_attrs
    state = "failed" if "error" in found else "judged" if item.state.name == "COMPLETE" else "pruned"
    return Trial(
        number=item.number,
        kind=found.get("kind", SEARCH),
        state=state,  # type: ignore[arg-type]
        method=item.params.get(METHOD),
        arguments=found.get("arguments", {}),
        decision=item.params.get(DECISION, JOB),
        tolerance=found.get(TOLERANCE),
        metrics=found.get("metrics", {}),
        seconds=found.get("seconds", 0.0),
        error=found.get("error"),
    )


# parameters of trials: those of a method are named METHOD.PARAMETER, and values of a choice are JSON


def _candidate(trial: Any, plan: Plan) -> Candidate:
    """Draw the candidate of a trial."""
    kind = trial.user_attrs.get("kind", SEARCH)
    if kind not in (SEARCH, DEFAULT):
        return Candidate(kind)
    method = trial.suggest_categorical(METHOD, list(plan.methods))
    arguments = {
        name: _suggest(trial, f"{method}.{name}", dimension)
        for name, dimension in plan.methods[method].items()
    }
    decision = trial.suggest_categorical(DECISION, list(plan.decisions))
    tolerance = None if decision == JOB else _suggest(trial, TOLERANCE, plan.tolerance)
    return Candidate(kind, method, arguments, decision, tolerance)


def _suggest(trial: Any, name: str, dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        return json.loads(trial.suggest_categorical(name, [json.dumps(value) for value in dimension.values]))
    if isinstance(dimension, Whole):
        return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)


def _parameters(candidate: Candidate, plan: Plan) -> dict[str, Any]:
    """Give the parameters of a candidate as a trial has them; none for a control and for the job as it is."""
    if candidate.method is None:
        return {}
    found: dict[str, Any] = {METHOD: candidate.method, DECISION: candidate.decision}
    for name, value in candidate.arguments.items():
        is_choice = isinstance(plan.methods[candidate.method][name], Choice)
        found[f"{candidate.method}.{name}"] = json.dumps(value) if is_choice else value
    if candidate.tolerance is not None:
        choice = isinstance(plan.tolerance, Choice)
        found[TOLERANCE] = json.dumps(candidate.tolerance) if choice else candidate.tolerance
    return found
