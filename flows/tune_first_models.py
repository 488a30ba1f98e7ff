"""The models that `evenhand tune` judges before it searches, and the parts of the rows on which a
model is looked at first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import PERFORMANCE
from evenhand.flows.tune_space import LEAVE_OUT
from evenhand.tasks.tuning.trial_search import DEFAULT, FIRST_PART, JOB, Candidate, Plan

if TYPE_CHECKING:
    from evenhand.flows.tune_plan import TunePlan

LARGE_TABLE = 5000
SMALLEST_PART = 10_000
# The first look at a model is on so many rows at least.
FIRST_ROWS = 1500
# Methods whose kernels are compiled once on a machine: their module within fairlib.
COMPILED = {"budro": "transport/_transport_kernels"}
COMPILING_S = 100.0
# Their models are the first, as an answer is needed before the time is up.
QUICK_METHODS = ("gbdt", "lightgbm", "reweigh", "logistic", "reweigh-logistic")
# Their first models show whether limits on performance can be met.
FIRST_METHODS = ("gbdt", "logistic")


def plan_of_rows(plan: TunePlan, rows: int) -> Plan:
    """Return the plan of the search for so many training rows.

    The models before the search are the controls, the job as it is, and each method's defaults; the
    quick ones first, as the time may end with any of them.
    """
    job_method = plan.resolved.method
    job = plan.resolved.job
    controls = [Candidate(name) for name in ("majority", "plain", "blind")]
    as_it_is: list[Candidate] = []
    is_champion = plan.alternative is not None
    if METHODS[job_method].plain != job_method or job.decision.equal is not None or is_champion:
        as_it_is = [Candidate(JOB)]
    defaults = [_default(method, space) for method, space in plan.methods.items()]
    quick = [item for item in defaults if item.method in QUICK_METHODS]
    slow = [item for item in defaults if item.method not in QUICK_METHODS]
    without_columns = _without_columns(quick, plan.methods)
    # the learners without mitigation, with thresholds by group: the surest answer within limits
    quick.sort(key=lambda item: METHODS[item.method or job_method].plain != item.method)
    if rows < LARGE_TABLE:
        quick += _cautious(quick, plan.methods)
    quick += without_columns
    if job_method in QUICK_METHODS:
        fixed = [*controls, *as_it_is, *quick, *slow]
    else:
        fixed = [*controls, *quick, *as_it_is, *slow]
    if math.isfinite(min(plan.seconds, plan.cpu_seconds)) and quick:
        # the first answer: it has all rules of decisions, and the controls only the job's
        first = quick[:1]
        if any(limit.metric in PERFORMANCE for limit in plan.aim.limits):
            # by both it is soon known whether a limit on performance is out of reach
            first = [item for item in quick if item.method in FIRST_METHODS][:2] or first
        fixed = [*first, *(item for item in fixed if item not in first)]
    if is_champion:
        fixed.remove(as_it_is[0])
        fixed.insert(0, as_it_is[0])
    return Plan(
        plan.aim,
        plan.methods,
        plan.rules,
        fixed,
        job.seed,
        parts_of(rows),
        plan.tune.sampler,
        is_champion,
        first_part_of(rows),
    )


def _default(method: str, space: spaces.Space) -> Candidate:
    """Return the candidate with the defaults of a method's space."""
    return Candidate(DEFAULT, method, {key: item.default for key, item in space.items()})


def _without_columns(
    defaults: Sequence[Candidate], methods: Mapping[str, spaces.Space]
) -> list[Candidate]:
    """Return the candidates of learners without mitigation without each set of columns that their
    method may leave out.
    """
    candidates = []
    for candidate in defaults:
        method = candidate.method or ""
        if METHODS[method].plain == method:
            for columns in _left_out_sets(methods[method]):
                arguments = {**candidate.arguments, LEAVE_OUT: columns}
                candidates.append(Candidate(DEFAULT, method, arguments))
    return candidates


def _cautious(
    defaults: Sequence[Candidate], methods: Mapping[str, spaces.Space]
) -> list[Candidate]:
    """Return the candidates of learners without mitigation with the parameters against overfitting
    that are worth trying on a small table, where the space has them.
    """
    candidates = []
    for candidate in defaults:
        method = candidate.method or ""
        space = methods[method]
        changed = method_class(method).cautious
        is_plain = METHODS[method].plain == method
        if not is_plain or not changed:
            continue
        if all(key in space and space[key].holds(value) for key, value in changed.items()):
            arguments = {**candidate.arguments, **changed}
            candidates.append(Candidate(DEFAULT, method, arguments))
    return candidates


def parts_of(rows: int) -> list[int]:
    """Return by what the training rows are divided before models are judged on all of them.

    The last part is a third, and each is a third of the next one, as long as it has about
    ``SMALLEST_PART`` rows; a small table is not divided.
    """
    parts: list[int] = []
    divisor = FIRST_PART
    while rows >= LARGE_TABLE and (not parts or rows / divisor >= SMALLEST_PART):
        parts.insert(0, divisor)
        divisor *= FIRST_PART
    return parts


def first_part_of(rows: int) -> int:
    """Return by what the training rows are divided for the very first look at a model: on a busy
    machine it is the only one.
    """
    divisor = FIRST_PART
    while rows / (FIRST_PART * divisor) >= FIRST_ROWS:
        divisor *= FIRST_PART
    return divisor


def _left_out_sets(space: spaces.Space) -> list[Sequence[str]]:
    """Return the sets of columns that a method may leave out; without the empty one."""
    dimension = space.get(LEAVE_OUT)
    if not isinstance(dimension, spaces.Choice):
        return []
    return [columns for columns in dimension.values if columns]


def compiling_seconds(methods: Iterable[str]) -> dict[str, float]:
    """Return how much longer the first model of a method takes, where its kernels are not compiled
    yet.
    """
    fairlib = Path(__file__).resolve().parents[1] / "fairlib"
    seconds = {}
    for method in methods:
        if method not in COMPILED:
            continue
        module = fairlib / COMPILED[method]
        default = module.parent / "__pycache__"
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or default)
        if not any(folder.rglob(f"{module.name}.*.nbi")):
            seconds[method] = COMPILING_S
    return seconds
