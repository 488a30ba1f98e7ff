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
METHOD = "method"
# Kinds of metrics that depend on the probabilities alone: they are the same under every rule.
SCORES = ("auc", "log_loss", "log_loss_gain", "brier", "ece", "calibration_gap")


@dataclass(frozen=True)
class Rule:
    """A rule of decisions: its name, and the tolerance of thresholds by group."""

    decision: str = JOB
    tolerance: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A model that is tried: a kind, and but for controls a method and its arguments."""

    kind: str
    method: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


Judge = Callable[[Candidate, Sequence[Rule], bool], Sequence[Mapping[str, Any]]]
"""``judge(candidate, rules, first)``: by rule ``metrics`` on all folds or the first rung, or ``error``."""


@dataclass(frozen=True)
class Plan:
    """What a study searches."""

    aim: Aim
    methods: Mapping[str, Space]  # the space of each method
    judged_under: Sequence[Rule]  # rules that every model is judged under
    fixed: Sequence[Candidate]  # models before the search: controls, and defaults with their arguments
    seed: int
    halving: bool  # whether models are pruned on a part of the rows
    sampler: str = "tpe"

    def rules(self, candidate: Candidate) -> Sequence[Rule]:
        """Rules that a model is judged under; a control has the job's alone."""
        return [Rule()] if candidate.kind in CONTROLS else self.judged_under


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
    return Candidate(kind, method, arguments)


def distribution(dimension: Dimension) -> Any:
    """Optuna's distribution of a dimension; the values of a choice are JSON."""
    found = optuna_quietly().distributions
    if isinstance(dimension, Choice):
        return found.CategoricalDistribution([json.dumps(value) for value in dimension.values])
    if isinstance(dimension, Whole):
        return found.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return found.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _suggest(trial: Any, name: str, dimension: Dimension) -> Any:
    wanted = distribution(dimension)
    if isinstance(dimension, Choice):
        return json.loads(trial.suggest_categorical(name, wanted.choices))
    suggest = trial.suggest_int if isinstance(dimension, Whole) else trial.suggest_float
    return suggest(name, wanted.low, wanted.high, log=wanted.log)


def parameters_of(candidate: Candidate, plan: Plan) -> dict[str, Any]:
    """Give the parameters of a candidate as a trial has them; none for a control and for the job as it is."""
    if candidate.method is None:
        return {}
    found: dict[str, Any] = {METHOD: candidate.method}
    for name, value in candidate.arguments.items():
        is_choice = isinstance(plan.methods[candidate.method][name], Choice)
        found[f"{candidate.method}.{name}"] = json.dumps(value) if is_choice else value
    return found
