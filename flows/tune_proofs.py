"""Limits of `tune` on proved certificates: trials are screened by what a search finds, and the
answer is proved.

A search gives the favourable end of a certificate, so a trial whose found end misses a limit cannot
keep it. A proof takes many times as long, so only the answer is proved, after the search; if it
misses the limit, the next best trial is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.catalogue import PROVED, better
from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.tuning.study import Aim, Limit, Trial, nearest, ranked
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Engine, Steps
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.run import prepare
from evenhand.tasks.errors import InputError, OutOfTime
from evenhand.tasks.execution.store import Store

if TYPE_CHECKING:
    from evenhand.flows.tune_plan import TunePlan

PREFIX = "certificate."
PROVED_END = ".proved"
FOUND_END = ".found"
DIF = "certificate.dif"
# Trials that are proved at most.
MOST_PROVED = 12
# People of the training rows that a proof of the search is about, unless the job gives their number
# for test rows.
PROVED_PEOPLE = 200
NO_TIME = "not proved: there was no time"
NOT_PROVED = "not proved: the {}"


def is_certificate(metric: str) -> bool:
    """Whether a metric is of a certificate."""
    return metric.startswith(PREFIX)


def proof_limit(resolved: ResolvedJob, limit: Limit) -> Limit:
    """Return the limit on the proved end of a certificate; `InputError` if there is none, or the
    job has no budget for it.
    """
    name = limit.metric
    if name == DIF:
        # as a gate of this name is judged
        name = DIF + PROVED_END
    proved = [item for item in PROVED if item.endswith(PROVED_END)]
    where = f"the limit '{limit}' names {limit.metric!r}"
    if name not in proved:
        raise InputError(
            f"{where}, and limits on certificates are on proved ends: {', '.join(proved)}."
        )
    evaluate = resolved.job.evaluate
    if resolved.contract.label.classes:
        raise InputError(f"{where}, and certificates are for labels of two values.")
    if evaluate.certificate is None:
        raise InputError(
            f"{where}, and the job gives no budget for it: add evaluate.certificate.budget, a mean "
            "squared fair distance."
        )
    if evaluate.proof_parts == "none":
        raise InputError(f"{where}, and evaluate.proof_parts is none: leave that out.")
    if evaluate.adapted:
        raise InputError(f"{where}, and there is no proof with evaluate.adapted: leave that out.")
    expected = "<=" if better(name) == "lower" else ">="
    if limit.sign != expected:
        raise InputError(f"{where}, of which {better(name)} is better: write {expected}.")
    return Limit(name, limit.sign, limit.value)


def screening_limit(limit: Limit) -> Limit:
    """Return the limit on what a search finds, by which trials are screened."""
    return Limit(limit.metric.removesuffix(PROVED_END) + FOUND_END, limit.sign, limit.value)


def is_screening(limit: Limit) -> bool:
    """Whether a limit of a search screens trials for a proof."""
    return is_certificate(limit.metric) and limit.metric.endswith(FOUND_END)


def needs_one_rule(limit: Limit) -> bool:
    """Whether nothing is proved of a certificate where decisions depend on a group."""
    return limit.metric != DIF + PROVED_END


def refuse_unproved_method(name: str, limits: Sequence[Limit]) -> str | None:
    """Say why a method's models have no proof of these limits; None if they have one."""
    spec = METHODS[name]
    if not limits:
        return None
    if not spec.provable:
        return f"{name} has no certificate, on which there is a limit"
    if not spec.differentiable and any(limit.metric == DIF + PROVED_END for limit in limits):
        return f"{name} has trees, which have no {DIF}, on which there is a limit"
    return None


@dataclass(frozen=True)
class Attempt:
    """A trial that was proved: by how much it misses the limits together, and the proved ends."""

    trial: Trial
    people: int
    values: Mapping[str, float | None]  # by metric; None where nothing is proved
    miss: float


@dataclass
class Proofs:
    """What was proved after a search, and the trial that the answer is."""

    limits: Sequence[Limit]
    trial: Trial
    attempts: list[Attempt] = field(default_factory=list)
    reason: str = ""  # why the trial has no proof

    @property
    def of_trial(self) -> Attempt | None:
        """The attempt of the answer, if it was proved."""
        for attempt in self.attempts:
            if attempt.trial.number == self.trial.number:
                return attempt
        return None

    @property
    def is_kept(self) -> bool:
        """Whether the answer provably keeps the limits."""
        attempt = self.of_trial
        return attempt is not None and attempt.miss == 0

    def standings(self) -> list[dict[str, Any]]:
        """Return how the answer stands to each limit, as plain JSON."""
        rows = []
        for limit in self.limits:
            row: dict[str, Any] = {"limit": str(limit), "metric": limit.metric, "end": None}
            rows.append(row | {"chance": None} | self._standing(limit))
        return rows

    def _standing(self, limit: Limit) -> dict[str, Any]:
        """Return value, evidence and text of one limit."""
        attempt = self.of_trial
        value = None
        missed_by = 0.0
        kept_by = None
        if attempt is not None:
            value = attempt.values[limit.metric]
        if value is None:
            found = self.trial.metrics.get(screening_limit(limit).metric, {}).get("value")
            text = f"{limit}: {self.reason or 'not proved'}"
            if found is not None and limit.shortfall(found) > 0:
                value = found
                missed_by = limit.shortfall(found)
                text = f"{limit}: missed by {missed_by:.3g} (a search found {found:.3g})"
        else:
            missed_by = max(0.0, limit.shortfall(value))
            number = f"{value:.3g} for {attempt.people if attempt else 0} people"
            text = f"{limit}: proved ({number} of the training rows)"
            kept_by = "proof"
            if missed_by:
                kept_by = None
                text = f"{limit}: missed by {missed_by:.3g} (proved {number} of the training rows)"
        return {"value": value, "missed_by": missed_by, "kept_by": kept_by, "text": text}

    def to_json(self) -> dict[str, Any]:
        """Return all attempts as plain JSON."""
        rows = []
        for attempt in self.attempts:
            rows.append(
                {
                    "number": attempt.trial.number,
                    "people": attempt.people,
                    "values": dict(attempt.values),
                    "miss": attempt.miss,
                }
            )
        return {"kept": self.is_kept, "reason": self.reason, "attempts": rows}

    def add_to(self, document: dict[str, Any]) -> None:
        """Put the standings to the limits on certificates into the document of the study, and let
        an answer without a proof be a compromise.
        """
        screened = {screening_limit(limit).metric for limit in self.limits}
        rows = [row for row in document["standings"] if row["metric"] not in screened]
        document["standings"] = [*rows, *self.standings()]
        document["proofs"] = self.to_json()
        for limit in self.limits:
            document["limits"].append(asdict(limit) | {"text": str(limit)})
        attempt = self.of_trial
        for row in document["trials"]:
            if attempt is not None and row["number"] == self.trial.number:
                for name, value in attempt.values.items():
                    row["metrics"][name] = {"value": value, "low": None, "high": None}
        if not self.is_kept:
            document["within_limits"] = False
            document["winner"] = None
            document["nearest"] = self.trial.number


def candidates(
    aim: Aim, trials: Sequence[Trial], prefer: str | None, attempts: Sequence[Attempt]
) -> Iterator[Trial]:
    """Yield the trials within the limits, the best first.

    Proved ends are some times larger than found ones. So trials of a method whose found end, times
    the smallest ratio that the `attempts` on this method had, misses a limit come last. More
    attempts may be added meanwhile.
    """
    postponed = []
    for trial in ranked(aim, trials, prefer):
        if _is_hopeless(trial, aim, attempts):
            postponed.append(trial)
        else:
            yield trial
    yield from postponed


def _is_hopeless(trial: Trial, aim: Aim, attempts: Sequence[Attempt]) -> bool:
    """Whether the proof of a trial would miss a limit, if it were as near to the found end as the
    nearest one of the method so far.
    """
    for limit in aim.limits:
        if not is_screening(limit):
            continue
        name = limit.metric.removesuffix(FOUND_END) + PROVED_END
        found = trial.metrics.get(limit.metric, {}).get("value")
        ratios = []
        for attempt in attempts:
            of_attempt = attempt.trial.metrics.get(limit.metric, {}).get("value")
            proved = attempt.values[name]
            if attempt.trial.method == trial.method and proved is not None and of_attempt:
                ratios.append(proved / of_attempt)
        if not ratios or found is None:
            continue
        # the proved end of a radius is below the found one, the others are above
        ratio = min(ratios) if limit.sign == "<=" else max(ratios)
        if limit.shortfall(found * ratio) > 0:
            return True
    return False


def proved_answer(
    plan: TunePlan,
    trials: Sequence[Trial],
    rows: int,
    engine: Engine,
    store: Store,
    *,
    ended: str = "",
) -> Proofs:
    """Train the best trials on all training rows and prove them, one after the other, until one
    keeps the limits or the time is up.

    `rows` is the number of training rows. Nothing is proved if the command has `ended`: a text
    such as "command was interrupted". There is an answer among the trials. If no trial
    keeps the limits, it is the one that misses them least of those that were proved.
    """
    prefer = plan.tune.prefer
    attempts: list[Attempt] = []
    first: Trial | None = None
    reason = ""
    for trial in candidates(plan.aim, trials, prefer, attempts):
        first = first or trial
        if ended:
            reason = NOT_PROVED.format(ended)
            break
        if len(attempts) >= MOST_PROVED:
            break
        try:
            attempts.append(_attempt(plan, trial, rows, engine, store))
        except OutOfTime:
            reason = NO_TIME
            break
        if attempts[-1].miss == 0:
            break
    chosen = first
    if attempts:
        chosen = min(attempts, key=lambda attempt: attempt.miss).trial
    if chosen is None:
        # what a search found misses a limit already
        chosen = nearest(plan.aim, trials)
    assert chosen is not None, "there is an answer among the trials"
    return Proofs(plan.proofs, chosen, attempts, reason)


def _attempt(plan: TunePlan, trial: Trial, rows: int, engine: Engine, store: Store) -> Attempt:
    """Train a trial on all training rows, and prove it for some of them."""
    resolved = plan.tuned(trial, rows)
    steps = Steps(store, engine)
    prepare(resolved, steps, with_profile=False)
    model, train = classifier.train_to_decide(resolved, steps)
    evaluate = resolved.job.evaluate
    assert evaluate.certificate is not None, "limits on certificates need it"
    parameters = {
        "budget": evaluate.certificate.budget,
        "parts": evaluate.proof_parts,
        "people": evaluate.certified_people or PROVED_PEOPLE,
        "seed": resolved.job.seed,
    }
    metric = steps.output("fair_metric", "metric")
    inputs = {"model": model, "train": train, "metric": metric}
    steps("prove", parameters, inputs, modules=resolved.modules)
    content = steps.read("prove", "proof")
    values: dict[str, float | None] = {}
    miss = 0.0
    for limit in plan.proofs:
        interval = content["intervals"].get(limit.metric.removesuffix(PROVED_END))
        values[limit.metric] = None
        # as much as the difference of two shares can be
        shortfall = 1.0
        if interval is not None:
            values[limit.metric] = interval["proved"]
            shortfall = max(0.0, limit.shortfall(interval["proved"]))
        miss += shortfall
    return Attempt(trial, content["people"], values, miss)
