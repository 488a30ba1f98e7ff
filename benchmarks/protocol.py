"""How settings are chosen and judged in the benchmarks, so that no row shows what a choice has
seen.

1. Each seed draws an outer test fifth of the table, stratified by label, as a job's ``seed`` does.
2. The settings that are judged on one seed's test fifth are chosen with another seed (:func:`choosing_seed`):
   among the people of that seed's other four fifths who are not in the judged test fifth. So the
   people who chose and those who judge never meet, although the outer splits overlap.
3. A choice is a stated search (:func:`choose`): every candidate is trained and measured in an inner
   cross-validation of these people, and a rule picks one candidate from the means.
4. The chosen settings are trained on the judged seed's four fifths and measured once, on its test fifth,
   beside the controls ``plain`` and ``blind``.

A page that uses this states the candidates, the rule, and how often a choice was made: once for
every judged seed. A row with settings from elsewhere (a paper's) has nothing to choose, and names
their source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

Rows = NDArray[np.int64]
Settings = Mapping[str, Any]
Metrics = Mapping[str, float]
FOLDS = 3


def choosing_seed(judged: int, seeds: int) -> int:
    """The seed with which the settings of a judged seed are chosen: the next one, cyclically."""
    if seeds < 2:
        raise ValueError("settings come from another seed: at least two seeds are needed.")
    return (judged + 1) % seeds


def selection_people(rows: Rows, judged_test: Rows) -> Rows:
    """Positions among `rows`, the training rows of the choosing seed, of those who are not
    judged.
    """
    return np.flatnonzero(~np.isin(rows, judged_test))


def inner_folds(labels: NDArray[Any], seed: int, folds: int = FOLDS) -> Iterator[tuple[Rows, Rows]]:
    """Training and held-out positions of the inner cross-validation, stratified by label."""
    yield from StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)


def choose(
    candidates: Sequence[Settings],
    measure: Callable[[Settings, Rows, Rows], Metrics],
    rule: Callable[[Sequence[Metrics]], int],
    labels: NDArray[Any],
    seed: int,
    folds: int = FOLDS,
) -> tuple[Settings, list[dict[str, float]]]:
    """The candidate that a rule picks from means over the inner folds, and these means.

    `measure` trains with settings on some positions of the selection people and measures on others;
    `labels` are of the selection people, in their order. `rule` gives the number of a candidate.
    """
    inner = list(inner_folds(labels, seed, folds))
    means = []
    for settings in candidates:
        found = [measure(settings, kept, held) for kept, held in inner]
        means.append({name: float(np.mean([fold[name] for fold in found])) for name in found[0]})
    return candidates[rule(means)], means


def last_within(metric: str, tolerance: float) -> Callable[[Sequence[Metrics]], int]:
    """Rule: the last candidate whose mean is at most `tolerance` below the best one.

    With candidates in ascending strength this is the strongest mitigation at nearly the best
    performance.
    """

    def rule(means: Sequence[Metrics]) -> int:
        values = np.array([mean[metric] for mean in means])
        return int(np.flatnonzero(values >= values.max() - tolerance)[-1])

    return rule
