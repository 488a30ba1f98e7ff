"""Figure 2 of DADI at the printed settings: ``python -m benchmarks.reproductions.dadi_curve``.

Six folds, 18 trade-offs, 20,000 iterations of joint training: about three minutes of one core each
on Adult, five hours together. A fold is measured whole before the next one. Every trained agent is
kept in ``benchmarks/results``, so an interrupted command, or one in a fresh checkout, goes on where
the last one ended; ``--minutes M`` ends it after the agent that exceeds M minutes. ``--gamma G``
and ``--fold F`` measure agents of one trade-off or fold alone, ``--again`` those that are measured
already, too; commands on different folds may run at the same time. ``--table households`` takes the
generated table of 99 questions in place of the paper's second one; ``--table households-short`` trains
its agents for 1,000 iterations, the estimator's own number for so many questions, before the joint
training and in it: about three minutes of one core each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.common import (
    RESULTS,
    code_state,
    log,
    provenance,
    read_result,
    rounded,
    write_result,
)
from benchmarks.reproductions.dadi_paper import FOLDS, Table, adult, fit, measured, revealed, split
from benchmarks.reproductions.households import kind_of, make_households
from evenhand.fairlib.methods.dadi import DADIClassifier

GAMMAS = tuple(round(0.05 * step, 2) for step in range(1, 19))
# The other defaults of the estimator are the paper's, which has no trees that predict from answers.
PRINTED: dict[str, Any] = {
    "n_iterations": 20_000,
    "pretrain_iterations": 2000,
    "processing_steps": 5,
    "learning_rate": 5e-4,
    "trees_weight": 0,
}
# Trade-offs whose questions figure 3 shows; of each fold they are measured first.
SHOWN = (0.1, 0.5, 0.9)


def households() -> Table:
    """The generated households; whether the head is a senior is the sensitive attribute."""
    frame = make_households()
    return Table(
        frame.drop(columns=["senior", "poor"]), frame["poor"].to_numpy(), frame["senior"].to_numpy()
    )


# By table: its file of results and its maker.
TABLES: dict[str, tuple[str, Callable[[], Table]]] = {
    "adult": ("papers_dadi_printed", adult),
    "households": ("papers_dadi_households", households),
    "households-short": ("papers_dadi_households_short", households),
}
# Iterations in place of the printed ones, in the pretraining, too.
SHORTER = {"households-short": 1000}


def order() -> list[tuple[int, float]]:
    """Return folds and trade-offs: fold after fold, of each the trade-offs of figure 3 first."""
    others = [gamma for gamma in GAMMAS if gamma not in SHOWN]
    return [(fold, gamma) for fold in range(FOLDS) for gamma in (*SHOWN, *others)]


def settings_of(table: str) -> dict[str, Any]:
    """Return the settings of a table's agents: the printed ones, or with fewer iterations."""
    if table not in SHORTER:
        return PRINTED
    iterations = SHORTER[table]
    return {**PRINTED, "n_iterations": iterations, "pretrain_iterations": iterations}


def measure(
    table: Table, fold: int, gamma: float, settings: Mapping[str, Any] = PRINTED
) -> dict[str, Any]:
    """Train one agent and measure it on the fold's test people.

    Parameters
    ----------
    table : Table
    fold : int
        From 0.
    gamma : float
    settings : mapping
        Parameters of the estimator.

    Returns
    -------
    dict
        AUC, accuracy and disparity of its predictions, the mean number of questions, the share of
        people who are asked for each feature, the AUC of the strongest adversary, and the AUC of
        single features by the pretrained classifier and adversary.
    """
    test, train = split(table, 0)[fold]
    started = time.process_time()
    model = fit(DADIClassifier(**settings, gamma=gamma, random_state=fold), table, train)
    seconds = time.process_time() - started
    X: NDArray[np.float32] = table.X[test]
    acquired = model.acquire(X)
    places = list(model.groups_.values())
    shares = acquired.known.mean(axis=0).tolist()
    report = model.feature_report_
    return {
        "gamma": gamma,
        **measured(acquired.probability, table.label[test], table.group[test]),
        "asked": float(acquired.asked.mean()),
        "selected": dict(zip(model.groups_, shares, strict=True)),
        "adversary_auc": revealed(X, acquired.known, places, table.group[test], 0)[0],
        "alone": report["groups"],
        "all": report["all"],
        "seconds": seconds,
    }


def shortened(agent: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return what the pages show of an agent: of all 108 there is room for no more.

    Parameters
    ----------
    agent : mapping
        As :func:`measure` returns it.
    table : str
        Of the households, the shares that are asked are means by what a column tells.

    Returns
    -------
    dict
        Shares only of the trade-offs of figure 3, AUCs of single features only of the first of
        them: they are of the pretrained networks, which are the same for all trade-offs of a fold.
    """
    kept = {name: value for name, value in agent.items() if name not in ("selected", "alone")}
    shares: Mapping[str, float] = agent["selected"]
    if table.startswith("households"):
        by_kind: dict[str, list[float]] = {}
        for position, share in enumerate(shares.values()):
            by_kind.setdefault(kind_of(position), []).append(share)
        kept["selected"] = {kind: statistics.fmean(found) for kind, found in by_kind.items()}
        return kept
    kept["selected"] = dict(shares) if agent["gamma"] in SHOWN else {}
    if agent["gamma"] == SHOWN[0]:
        kept["alone"] = agent["alone"]
    return kept


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the results lack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", default="adult", choices=TABLES)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--gamma", type=float, choices=GAMMAS, metavar="G")
    parser.add_argument("--fold", type=int, choices=range(1, FOLDS + 1))
    parser.add_argument("--again", action="store_true")
    chosen = parser.parse_args(arguments)
    code_state()
    started = time.monotonic()
    name, make = TABLES[chosen.table]
    table = make()
    for number, (fold, gamma) in enumerate(order()):
        if chosen.gamma not in (None, gamma) or chosen.fold not in (None, fold + 1):
            continue
        with lock(chosen.table):
            agents = read_result(name).get("folds", {}).get(str(fold), {})
        if str(gamma) in agents and not chosen.again:
            continue
        if time.monotonic() - started > 60 * chosen.minutes:
            return
        log(
            f"dadi, {chosen.table}: agent {number + 1} of {len(order())}: fold {fold + 1}, gamma {gamma}"
        )
        with threadpool_limits(1):
            agent = measure(table, fold, gamma, settings_of(chosen.table))
        keep(chosen.table, fold, rounded(shortened(agent, chosen.table), 4))


def lock(table: str) -> FileLock:
    """Return the lock of a table's file of results, which several processes read and write."""
    RESULTS.mkdir(exist_ok=True)
    return FileLock(RESULTS / f"{TABLES[table][0]}.json.lock")


def keep(table: str, fold: int, agent: Mapping[str, Any]) -> None:
    """Add an agent to those that the file of results has by now.

    Parameters
    ----------
    table : str
    fold : int
    agent : mapping
        As :func:`shortened` returns it.
    """
    name = TABLES[table][0]
    with lock(table):
        # another process may have measured another fold meanwhile
        folds = read_result(name).get("folds", {})
        folds.setdefault(str(fold), {})[str(agent["gamma"])] = dict(agent)
        document = provenance(f"python -m benchmarks.reproductions.dadi_curve --table {table}")
        document |= {"settings": settings_of(table), "folds": dict(sorted(folds.items()))}
        if sum(map(len, folds.values())) == len(order()):
            document["whole"] = True
        write_result(name, document)


if __name__ == "__main__":
    main(sys.argv[1:])
