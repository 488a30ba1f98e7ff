"""DADI's agents of Adult as the pages show them: at printed settings where these are measured.

Of every trade-off the agents at the printed settings stand, as soon as one of the six folds has
one; before that those of an earlier measurement, with fewer iterations, on three folds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from benchmarks.common import read_result
from benchmarks.reproductions.printed_values import Measured, measured

FOLDS = 6
GAMMAS = tuple(round(0.05 * step, 2) for step in range(1, 19))
# Trade-offs at which disparity hardly rises, and those at which it does.
EVEN_GAMMAS = GAMMAS[:9]
STEEP_GAMMAS = GAMMAS[9:]
# The trade-offs of figure 3.
SHOWN_GAMMAS = (0.1, 0.5, 0.9)
SHORT = "8,000 of 20,000 iterations"
PRINTED = "printed settings"

Agents = list[Mapping[str, Any]]


@cache
def printed_agents() -> Mapping[float, Agents]:
    """Return the agents at the printed settings by trade-off, in the order of their folds."""
    found: dict[float, Agents] = {}
    for fold in read_result("papers_dadi_printed").get("folds", {}).values():
        for agent in fold.values():
            found.setdefault(agent["gamma"], []).append(agent)
    return found


@cache
def shortened_agents() -> Mapping[float, Agents]:
    """Return the agents of fewer iterations by trade-off."""
    curve = read_result("papers_dadi")["curve"]["result"]
    found: dict[float, Agents] = {}
    for fold in curve["folds"]:
        for number, gamma in enumerate(curve["gammas"]):
            agent = {name: fold[name][number] for name in ("auc", "disparity", "asked")}
            agent |= {
                "gamma": gamma,
                "adversary_auc": fold["adversary_auc"][number],
                "selected": fold["selected"].get(str(gamma), {}),
                "alone": fold["alone"],
                "all": fold["all"],
            }
            found.setdefault(gamma, []).append(agent)
    return found


class Difference(NamedTuple):
    """What the remaining iterations change: printed settings less fewer iterations, in pairs."""

    value: Measured  # over the pairs of agents of the same fold and trade-off
    folds: int  # that the pairs are of
    largest: float  # difference of a single pair that is farthest from 0
    largest_gamma: float  # its trade-off


def difference(name: str, gammas: Sequence[float] = GAMMAS) -> Difference | None:
    """Compare the agents that are measured with both numbers of iterations.

    Parameters
    ----------
    name : {"auc", "disparity", "asked"}
    gammas : sequence of float
        Trade-offs of which agents are compared.

    Returns
    -------
    Difference or None
        None where no fold and trade-off has both agents.
    """
    pairs = []
    compared = set()
    for fold, agents in read_result("papers_dadi_printed").get("folds", {}).items():
        for agent in agents.values():
            gamma = agent["gamma"]
            # the short agents are of the first folds, one each
            short = shortened_agents()[gamma][: int(fold) + 1]
            if gamma in gammas and len(short) > int(fold):
                pairs.append((agent[name] - short[int(fold)][name], gamma))
                compared.add(fold)
    if not pairs:
        return None
    largest, its_gamma = max(pairs, key=lambda pair: abs(pair[0]))
    value = measured([change for change, _ in pairs])
    return Difference(value, len(compared), largest, its_gamma)


def is_printed(gamma: float) -> bool:
    """Whether agents of a trade-off are measured at the printed settings."""
    return gamma in printed_agents()


def agents_of(gamma: float) -> Agents:
    """Return the agents of a trade-off that the pages show."""
    return printed_agents().get(gamma) or shortened_agents()[gamma]


def basis_of(gamma: float) -> str:
    """Return in words what the agents of a trade-off were measured on."""
    setting = PRINTED if is_printed(gamma) else SHORT
    return f"{len(agents_of(gamma))} of {FOLDS} folds, {setting}"


def basis(gammas: Sequence[float] = GAMMAS) -> str:
    """Return in words how many agents of some trade-offs are at the printed settings."""
    words = {basis_of(gamma) for gamma in gammas}
    if len(words) == 1:
        return words.pop()
    count = sum(len(printed_agents().get(gamma, ())) for gamma in gammas)
    total = FOLDS * len(gammas)
    others = len(shortened_agents()[GAMMAS[0]])
    return (
        f"{count} of {total} agents at the {PRINTED}; where a trade-off has none, {others} folds, "
        f"{SHORT}"
    )


def mean(gamma: float, name: str) -> Measured:
    """Return a measure of the agents of a trade-off over the folds."""
    return measured([agent[name] for agent in agents_of(gamma)])


def selected(feature: str, gamma: float, agents: Agents | None = None) -> float:
    """Return the mean share of people who are asked for a feature at a trade-off."""
    chosen = agents_of(gamma) if agents is None else agents
    return statistics.fmean(agent["selected"][feature] for agent in chosen)
