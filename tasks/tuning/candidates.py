"""Candidates of a search: what is tried, what each trial's parameters are in Optuna, and what is searched."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.fairlib.tuning.space import Choice, Dimension, Space, Whole
from evenhand.fairlib.tuning.study import Aim
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.controls import CONTROLS

NEEDED = "`evenhand tune` needs an optional extra: pip install 'evenhand[tune]'."
JOB, SEARCH, DEFAULT = "job", "search", "default"
METHOD, DECISION, TOLERANCE = "method", "decision", "tolerance"
# Places in the range of tolerances that every model is tried at, beside the proposed one.
TOLERANCES = (0.0, 0.1, 0.25, 0.5)


@dataclass(frozen=True)
class Rule:
    """A rule of decisions: its name, and the tolerance of thresholds by group."""

    decision: str = JOB
    tolerance: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A model that is tried: a kind, and but for controls a method and its arguments; and a proposed rule."""

    kind: str
    method: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rule: Rule = Rule()


Judge = Callable[[Candidate, Sequence[Rule], bool], Sequence[Mapping[str, Any]]]
"""``judge(candidate, rules, first)``: by rule ``metrics``, on all folds or the first rung; or ``error``."""


@dataclass(frozen=True)
class Plan:
    """
    What a study searches.

    `methods` has the space of each method; `decisions` the names of the rules of decisions, the job's own
    first; `tolerance` is the range of those with thresholds by group. `fixed` are the models before the
    search: controls, and defaults with their arguments. `halving` says whether models are pruned on a part
    of the rows.
    """

    aim: Aim
    methods: Mapping[str, Space]
    decisions: Sequence[str]
    tolerance: Dimension
    fixed: Sequence[Candidate]
    seed: int
    halving: bool
    sampler: str = "tpe"

    def rules(self, candidate: Candidate) -> list[Rule]:
        """Rules that a model is judged under, the proposed one first; a control has the job's alone."""
        if candidate.kind in CONTROLS:
            return [Rule()]
        if isinstance(self.tolerance, Choice):
            grid = list(self.tolerance.values)
        else:
            low, width = self.tolerance.low, self.tolerance.high - self.tolerance.low
            grid = [round(low + share * width, 4) for share in TOLERANCES]
        found = [candidate.rule]
        for name in self.decisions:
            found += [Rule(name, tolerance) for tolerance in (grid if is_by_group(name) else [None])]
        return list(dict.fromkeys(found))


def is_by_group(decision: str) -> bool:
    """Whether a rule of decisions has thresholds by group, and so a tolerance."""
    return " by " in decision


def check_installed() -> None:
    """Raise InputError unless Optuna can be imported; it is not imported."""
    if importlib.util.find_spec("optuna") is None:
        raise InputError(NEEDED)


def optuna_quietly() -> Any:
    """Import Optuna, which prints nothing from then on."""
    check_installed()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna


# parameters of trials: those of a method are named METHOD.PARAMETER, and values of a choice are JSON


def drawn(trial: Any, plan: Plan) -> Candidate:
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
    tolerance = _suggest(trial, TOLERANCE, plan.tolerance) if is_by_group(decision) else None
    return Candidate(kind, method, arguments, Rule(decision, tolerance and round(tolerance, 4)))


def _suggest(trial: Any, name: str, dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        return json.loads(trial.suggest_categorical(name, distribution(dimension).choices))
    suggest = trial.suggest_int if isinstance(dimension, Whole) else trial.suggest_float
    return suggest(name, dimension.low, dimension.high, log=dimension.log)


def distribution(dimension: Dimension) -> Any:
    """Optuna's distribution of a dimension."""
    found = optuna_quietly().distributions
    if isinstance(dimension, Choice):
        return found.CategoricalDistribution([json.dumps(value) for value in dimension.values])
    kind = found.IntDistribution if isinstance(dimension, Whole) else found.FloatDistribution
    return kind(dimension.low, dimension.high, log=dimension.log)


def parameters_of(candidate: Candidate, plan: Plan) -> dict[str, Any]:
    """Give the parameters of a candidate as a trial has them; none for a control and for the job as it is."""
    if candidate.method is None:
        return {}
    rule = candidate.rule
    found: dict[str, Any] = {METHOD: candidate.method, DECISION: rule.decision}
    for name, value in candidate.arguments.items():
        is_choice = isinstance(plan.methods[candidate.method][name], Choice)
        found[f"{candidate.method}.{name}"] = json.dumps(value) if is_choice else value
    if rule.tolerance is not None:
        choice = isinstance(plan.tolerance, Choice)
        found[TOLERANCE] = json.dumps(rule.tolerance) if choice else rule.tolerance
    return found
