"""Balanced filtering (Deng et al. 2023): ``python -m benchmarks.reproductions.proxies_paper [PART ...]``.

Parts: ``points`` (one limit of each table, all seeds), ``equal`` (comparators beside a tree of the
same disclosivity), ``shares`` (figure 3), ``compositions`` (figure 4), ``solvers`` (game against
program), ``grid`` (seconds of a whole grid), ``support`` (what the sample is worth to a learner).
All but the last have ``support: 0``, the paper's plan. Figures 1 and 2 have a command of their own:
:mod:`.proxies_curves`. Needs the raw files of Adult and Bank in EVENHAND_DATA.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.common import log, provenance, raw_files, read_whole, rounded, write_result
from benchmarks.summaries import by_column, only, shown_alike
from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.datasets.recipes import ADULT_COLUMNS
from evenhand.fairlib.execution import available_cores
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.registry import PROXIES, proxy_class
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_evaluation import measure_proxy
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.proxies.tree_builder import TreeBuilder
from tests.oracles.proxy_game import GameTree
from tests.oracles.remixed_proxy import remixed

SEEDS = 20
ALPHAS = [round(0.05 * step, 2) for step in range(21)]
COARSE = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]  # where a tree takes seconds
MIXINGS = [round(0.1 * step, 1) for step in range(11)]
TEST = 1 / 3
# The paper's hyperparameters; a smaller `progress`; leaves large enough for the limit to hold out
# of sample.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"progress": 0.1, "tolerance": 0.1, "min_leaf": 1},
    "fine": {"progress": 0.01, "tolerance": 0.01, "min_leaf": 1},
    "held-out": {"progress": 0.02, "tolerance": 0.05, "min_leaf": 300},
}
# The limit of each table that the paper discusses.
POINTS = {"bank": 0.2, "adult": 0.6}
# Limits of figure 3.
SHARED = (0.0, 0.1, 0.2)
# Limits of figure 4; .6 is shown on the page of proxies.
COMPOSED = (0.0, 0.6, 0.82, 0.97)
TREES = ("proxy", "relaxed-proxy")
COMPARATORS = ("qp-tree", "qp-regression", "naive-tree", "naive-regression")
POINT = "point of "
POINT_FAMILIES = [f"{POINT}{name}" for name in ("paper", "held-out")]
# Amounts of imbalance given up; .03 was chosen on inner splits of the training rows of seed 0.
SUPPORTS, SUPPORT_SEEDS, SUPPORT_DRAWS = (0.0, 0.03), range(1, 4), 2
SUPPORT_SETTING: dict[str, Any] = {"progress": 0.03, "tolerance": 0.05, "min_leaf": 300}
MEASURES = ("disclosivity", "imbalance", "smallest_growth", "kept")


def _everybody_of_adult() -> pd.DataFrame:
    files = raw_files("census")
    parts = []
    for name, skipped in (("adult.data", 0), ("adult.test", 1)):
        parts.append(
            pd.read_csv(files[name], names=ADULT_COLUMNS, skipinitialspace=True, skiprows=skipped)
        )
    return pd.concat(parts, ignore_index=True)


def _everybody_of_bank() -> pd.DataFrame:
    return pd.read_csv(raw_files("bank")["bank-full.csv"], sep=";")


def adult() -> tuple[pd.DataFrame, pd.Series]:
    """All 48,842 people with 13 columns, a missing value (written ?) as one of its own; and their
    race.
    """
    table = _everybody_of_adult().drop(columns="income")
    return table.drop(columns="race"), table["race"]


def bank() -> tuple[pd.DataFrame, pd.Series]:
    """All 45,211 clients with 15 columns, and their job."""
    table = _everybody_of_bank().drop(columns="y")
    return table.drop(columns="job"), table["job"]


TABLES: dict[str, tuple[Callable[[], tuple[pd.DataFrame, pd.Series]], str]] = {
    "bank": (bank, "job"),
    "adult": (adult, "race"),
}


Proxy = TypeVar("Proxy", bound=BalancingProxy)


def outer_rows(name: str, seed: int) -> list[NDArray[np.int64]]:
    """Training and test rows of a seed."""
    rows: list[NDArray[np.int64]] = train_test_split(
        np.arange(len(labels(name))), test_size=TEST, random_state=seed
    )
    return rows


class Split:
    """Training and test rows of a table, or of its seed, encoded with the training rows alone."""

    def __init__(self, name: str, chosen: int | Sequence[NDArray[np.int64]]) -> None:
        read, self.attribute = TABLES[name]
        table, groups = read()
        rows = outer_rows(name, chosen) if isinstance(chosen, int) else chosen
        self.rows = rows
        kinds = {
            column: "standard" if pd.api.types.is_numeric_dtype(table[column]) else "onehot"
            for column in table
        }
        specs = [ColumnSpec(str(column), kind) for column, kind in kinds.items()]  # type: ignore[arg-type]
        encoder = TableEncoder(specs, "ignore").fit(table.iloc[rows[0]])
        self.X = [encoder.transform(table.iloc[part]) for part in rows if len(part)]
        self.groups = [groups.to_numpy(dtype=str)[part] for part in rows]

    def fit(
        self, method: str, rows: NDArray[np.int64] | slice = slice(None), **arguments: Any
    ) -> BalancingProxy:
        """A proxy of the training rows, or of those at some positions."""
        return self.fitted(proxy_class(method)(**{**PROXIES[method].fixed, **arguments}), rows)

    def fitted(self, proxy: Proxy, rows: NDArray[np.int64] | slice = slice(None)) -> Proxy:
        """The proxy, fitted on the training rows, or on those at some positions."""
        return proxy.fit(self.X[0][rows], sensitive_features={self.attribute: self.groups[0][rows]})

    def measure(self, proxy: BalancingProxy) -> dict[str, dict[str, float | None]]:
        """Measures in sample and out of sample."""
        found = {}
        for part, X, groups in zip(("train", "test"), self.X, self.groups, strict=True):
            values = measure_proxy(proxy, X, {self.attribute: groups}, draws=0).values
            found[part] = {name: values[name] for name in MEASURES}
        return found


def fitted(
    split: Split, table: str, family: str
) -> Iterator[tuple[str, float, float, BalancingProxy]]:
    """Every proxy of a family: method, limit or mixing, seconds, and the proxy."""
    if family == "comparators":
        for method in COMPARATORS:
            started = time.perf_counter()
            proxy = split.fit(method, min_samples_leaf=1)
            seconds = time.perf_counter() - started
            for mixing in MIXINGS:
                yield method, mixing, seconds, remixed(proxy, mixing)
        return
    setting = SETTINGS[family.removeprefix(POINT)]
    for method in TREES:
        for alpha in limits_of(table, family):
            started = time.perf_counter()
            arguments = {**PROXIES[method].fixed, "alpha": alpha, **setting}
            proxy = split.fitted(MeasuredTree(**arguments))
            yield method, alpha, time.perf_counter() - started, proxy


def limits_of(table: str, family: str) -> list[float]:
    """Limits of the disclosivity at which a family of trees is measured."""
    if family in POINT_FAMILIES:
        return [POINTS[table]]
    return ALPHAS if family == "paper" else COARSE


class MeasuredTree(ProxyTree):
    """A proxy tree that does not search for the least limit that allows a split.

    The search takes longer than a tree, and no figure shows its result.
    """

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        builder = TreeBuilder(rows, indicators, self.target_, self)
        builder.grow(callback)
        self.distances_ = builder.distances
        self.least_alpha_ = None
        return builder.graph()


def one_seed(task: tuple[str, int, str]) -> list[dict[str, Any]]:
    """Every point of the curves on one split; `family` is a setting of the trees, or
    ``comparators``.
    """
    table, seed, family = task
    split = Split(table, seed)
    points = []
    for method, knob, seconds, proxy in fitted(split, table, family):
        points.append(
            {
                "method": method,
                "knob": knob,
                "seed": seed,
                "seconds": round(seconds, 2),
                "leaves": len(proxy.masses_),
                "residual": float(proxy.plan_.residual),
                **split.measure(proxy),
            }
        )
    log(table, seed, family, "done")
    return points


def in_parallel(tasks: Sequence[tuple[str, int, str]]) -> list[list[dict[str, Any]]]:
    """Run in one process per core, with one numeric thread each."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    with ProcessPoolExecutor(available_cores()) as pool:
        return list(pool.map(one_seed, tasks))


def summary(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean over the seeds and half-width of the 95% interval, by method and swept parameter."""
    found = []
    keys = sorted({(point["method"], point["knob"]) for point in points})
    for method, knob in keys:
        mine = [point for point in points if (point["method"], point["knob"]) == (method, knob)]
        row: dict[str, Any] = {"method": method, "knob": knob, "seeds": len(mine)}
        for name in ("leaves", "residual"):
            if name in mine[0]:
                row[name] = float(np.mean([point[name] for point in mine]))
        for part in ("train", "test"):
            row[part] = {
                name: _mean([point[part][name] for point in mine]) for name in mine[0][part]
            }
        row["train"]["disclosivity_largest"] = max(point["train"]["disclosivity"] for point in mine)
        found.append(row)
    return found


def _mean(values: Sequence[float | None]) -> list[float]:
    numbers = np.array([value for value in values if value is not None])
    half = 1.96 * numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return [round(float(numbers.mean()), 4), round(float(half), 4)]


def points() -> dict[str, Any]:
    """One limit of each table, on all seeds."""
    found: dict[str, Any] = {}
    for table in POINTS:
        for family in POINT_FAMILIES:
            parts = in_parallel([(table, seed, family) for seed in range(SEEDS)])
            found.setdefault(table, {})[family.removeprefix(POINT)] = summary(
                [point for part in parts for point in part]
            )
    return found


def dominance(curves_of: Mapping[str, Any], family: str, part: str) -> dict[str, Any]:
    """Whether the relaxed proxy has the least imbalance at every disclosivity that another method
    reaches.

    A method's imbalance at a disclosivity is the least of its points up to there. The margin is the
    largest amount by which another method is better, and at which disclosivity.
    """
    mine = _front(curves_of[family]["points"], "relaxed-proxy", part)
    found = {}
    for method in ("proxy", *COMPARATORS):
        points = curves_of[family if method == "proxy" else "comparators"]["points"]
        others = _front(points, method, part)
        worst, at = -np.inf, None
        for disclosivity, imbalance in others:
            best = min((y for x, y in mine if x <= disclosivity + 1e-9), default=np.inf)
            if best - imbalance > worst:
                worst, at = best - imbalance, disclosivity
        found[method] = {"margin": round(float(worst), 4), "at": at}
    return found


def _front(
    points: Sequence[Mapping[str, Any]], method: str, part: str
) -> list[tuple[float, float]]:
    mine = [point[part] for point in points if point["method"] == method]
    return sorted((point["disclosivity"][0], point["imbalance"][0]) for point in mine)


def equal_disclosivity() -> dict[str, Any]:
    """Every point of the comparators on Adult beside a relaxed tree of that disclosivity."""
    with ProcessPoolExecutor(available_cores()) as pool:
        parts = list(pool.map(_beside, range(2)))
    rows = [row for part in parts for row in part]
    better = max(rows, key=lambda row: row["relaxed"] - row["imbalance"])
    return {"rows": rows, "seeds": len(parts), "largest_advantage_of_a_comparator": better}


def _beside(seed: int) -> list[dict[str, Any]]:
    split = Split("adult", seed)
    rows = []
    for method, mixing, _, proxy in fitted(split, "adult", "comparators"):
        point = split.measure(proxy)["train"]
        limit, imbalance = point["disclosivity"], point["imbalance"]
        assert limit is not None
        assert imbalance is not None
        tree = split.fit("relaxed-proxy", alpha=min(limit, 1.0), **SETTINGS["fine"])
        found = split.measure(tree)["train"]
        rows.append(
            {
                "method": method,
                "mixing": mixing,
                "seed": seed,
                "disclosivity": round(limit, 4),
                "imbalance": round(imbalance, 4),
                "relaxed": found["imbalance"],
                "relaxed_disclosivity": found["disclosivity"],
            }
        )
    return rows


def shares() -> dict[str, Any]:
    """Group shares on Bank before and after, for three limits (figure 3).

    Returns
    -------
    dict
        ``groups``, their names; ``splits``, how many; and by limit, for both parts, the mean shares
        ``before`` and ``after``.
    """
    sums: dict[float, dict[str, NDArray[np.float64]]] = {}
    names: list[str] = []
    for seed in range(SEEDS):
        split = Split("bank", seed)
        for alpha in SHARED:
            arguments = {**PROXIES["relaxed-proxy"].fixed, "alpha": alpha, **SETTINGS["paper"]}
            proxy = split.fitted(MeasuredTree(**arguments))
            names = proxy.group_names_[split.attribute]
            of_limit = sums.setdefault(alpha, {})
            for part, X, groups in zip(("train", "test"), split.X, split.groups, strict=True):
                measured = measure_proxy(proxy, X, {split.attribute: groups}, draws=0)
                pair = np.array([measured.base_rates, measured.shares])
                of_limit[part] = of_limit.get(part, 0.0) + pair
        log("bank", seed, "shares done")
    result: dict[str, Any] = {"groups": names, "splits": SEEDS}
    for alpha, parts in sums.items():
        result[str(alpha)] = {}
        for part, pairs in parts.items():
            before, after = (pairs / SEEDS).round(4).tolist()
            result[str(alpha)][part] = {"before": before, "after": after}
    return result


def compositions() -> dict[str, Any]:
    """A of the exact proxy on Adult, for three limits (figure 4)."""
    split = Split("adult", 0)
    found: dict[str, Any] = {}
    for alpha in COMPOSED:
        proxy = split.fit("proxy", alpha=alpha, **SETTINGS["paper"])
        found["groups"] = proxy.group_names_[split.attribute]
        found[str(alpha)] = {
            "compositions": proxy.compositions_.round(4).tolist(),
            "masses": proxy.masses_.round(5).tolist(),
            "acceptance": proxy.acceptance_.round(5).tolist(),
        }
    return found


def solvers() -> dict[str, Any]:
    """The uniform mixture of the game against the linear program over halfspaces, one split of each
    table.
    """
    found: dict[str, Any] = {}
    for table, alphas in (("bank", (0.1, 0.2)), ("adult", (0.4, 0.6))):
        split = Split(table, 0)
        for alpha in alphas:
            for rounds in (None, 50, 200):
                started = time.perf_counter()
                settings = {"alpha": alpha, **SETTINGS["paper"]}
                tree = (
                    ProxyTree(**settings) if rounds is None else GameTree(rounds=rounds, **settings)
                )
                proxy = split.fitted(tree)
                name = "program" if rounds is None else f"game of {rounds} rounds"
                found.setdefault(table, {}).setdefault(str(alpha), {})[name] = {
                    "seconds": round(time.perf_counter() - started, 2),
                    "leaves": len(proxy.masses_),
                    "halfspaces": len(proxy.graph_.mixture),
                    **dict(split.measure(proxy).items()),
                }
    return found


def support() -> dict[str, Any]:
    """What imbalance given up buys a learner: held-out rows of seeds that no choice has seen."""
    tasks = [(table, seed) for table in TABLES for seed in SUPPORT_SEEDS]
    with ProcessPoolExecutor(available_cores()) as pool:
        rows = [row for part in pool.map(_supported, tasks) for row in part]
    return {
        "rows": rows,
        "seeds": list(SUPPORT_SEEDS),
        "draws": SUPPORT_DRAWS,
        "setting": SUPPORT_SETTING,
    }


def _supported(task: tuple[str, int]) -> list[dict[str, Any]]:
    """One tree for each limit; its plans differ in `support` only."""
    table, seed = task
    split, found = Split(table, seed), []
    parts = train_test_split(labels(table), test_size=TEST, random_state=seed)
    for alpha in (0.2, 0.4):
        tree = split.fit("proxy", alpha=alpha, **SUPPORT_SETTING)
        for given_up in SUPPORTS:
            proxy = copy.copy(tree)
            proxy.support = given_up
            proxy._set_acceptance()
            sensitive = {split.attribute: split.groups[1]}
            measured = measure_proxy(proxy, split.X[1], sensitive, draws=0).values
            row = {"table": table, "seed": seed, "alpha": alpha, "support": given_up}
            row |= {
                "leaves": len(proxy.masses_),
                "train_imbalance": proxy.plan_.imbalance,
                "measured": measured,
            }
            found.append(row | learned(split, parts, proxy.acceptance(split.X[0]), seed))
    log(table, seed, "support", "done")
    return found


def labels(table: str) -> Any:
    """The label that a learner predicts: an income above 50,000, a term deposit."""
    if table == "bank":
        return (_everybody_of_bank()["y"] == "yes").to_numpy()
    return _everybody_of_adult()["income"].str.startswith(">").to_numpy()


def learned(split: Split, labels_of: Sequence[Any], chances: Any, seed: int) -> dict[str, float]:
    """Held-out AUC of boosted trees on samples of the proxy, and on random samples of equal
    size.
    """
    found = []
    for draw in range(SUPPORT_DRAWS):
        rng = np.random.default_rng([seed, draw])
        kept = np.flatnonzero(rng.random(len(chances)) < chances)
        random = rng.choice(len(chances), len(kept), replace=False)
        scores = []
        for rows in (kept, random):
            model = HistGradientBoostingClassifier(random_state=draw)
            if len(np.unique(labels_of[0][rows])) < 2:
                # nothing can be learned from one label
                scores.append(0.5)
                continue
            model.fit(split.X[0][rows], labels_of[0][rows])
            scores.append(roc_auc_score(labels_of[1], model.predict_proba(split.X[1])[:, 1]))
        found.append(scores)
    kept_auc, random_auc = np.mean(found, axis=0)
    return {"auc": float(kept_auc), "auc_random": float(random_auc)}


def grid() -> dict[str, Any]:
    """Wall time of the whole grid of limits for one seed, on all cores, at the paper's settings."""
    found: dict[str, Any] = {}
    for table in TABLES:
        split_started = time.perf_counter()
        Split(table, 0)
        reading = time.perf_counter() - split_started
        for method in TREES:
            times = []
            for _ in range(3):
                started = time.perf_counter()
                tasks = [
                    (table, method, ALPHAS[core :: available_cores()])
                    for core in range(available_cores())
                ]
                with ProcessPoolExecutor(available_cores()) as pool:
                    list(pool.map(_part_of_grid, tasks))
                times.append(time.perf_counter() - started)
            found.setdefault(table, {})[method] = {
                "seconds": round(float(np.median(times)), 1),
                "of_which_reading_and_encoding": round(reading, 1),
            }
    return found


def _part_of_grid(task: tuple[str, str, Sequence[float]]) -> None:
    table, method, alphas = task
    split = Split(table, 0)
    for alpha in alphas:
        split.fit(method, alpha=alpha, **SETTINGS["paper"])


NAME = "proxies"
PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "points": points,
    "equal": equal_disclosivity,
    "shares": shares,
    "compositions": compositions,
    "solvers": solvers,
    "grid": grid,
    "support": support,
}


def main(names: list[str]) -> None:
    """Measure the named parts (default: all)."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    kept = read_whole(NAME, {})
    for name in names or PARTS:
        content = provenance(f"python -m benchmarks.reproductions.proxies_paper {name}")
        kept[name] = content | {"result": PARTS[name]()}
        write_result(NAME, kept, summarise)


# Limits and mixings that the page has rows of.
SHOWN_KNOBS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the page and its pictures show of every part."""
    makers: dict[str, Callable[[Any], Any]] = {
        "points": lambda tables: {
            table: {family: shown_rows(rows) for family, rows in families.items()}
            for table, families in tables.items()
        },
        "equal": shown_at_equal_disclosivity,
        "solvers": shown_solvers,
        "support": shown_support,
    }
    result = {}
    for name, part in content.items():
        make = makers.get(name, dict)
        result[name] = {**part, "result": make(part["result"])}
    return result


def shown_rows(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of the trees at some limits, by column."""
    rows = []
    for point in points:
        if point["knob"] not in SHOWN_KNOBS:
            continue
        row = only(point, ["method", "knob", "seeds", "leaves"])
        row["train_imbalance"] = point["train"]["imbalance"]
        row["train_disclosivity_largest"] = point["train"]["disclosivity_largest"]
        for name in ("disclosivity", "imbalance", "smallest_growth"):
            row[name] = point["test"][name]
        row["kept"] = point["test"]["kept"][0]
        rows.append(rounded(row, 4))
    return by_column(rows)


def shown_curves(families: Mapping[str, Any]) -> dict[str, Any]:
    """Rows of the trees, the points of the picture's lines, and the comparison of the methods."""
    summary_of: dict[str, Any] = {
        family: shown_rows(families[family]["points"]) for family in families if family in SETTINGS
    }
    drawn = [*families["paper"]["points"], *families["comparators"]["points"]]
    lines: dict[str, Any] = {}
    for point in sorted(drawn, key=lambda point: float(point["knob"])):
        line = lines.setdefault(point["method"], {"train": [], "test": []})
        for part, pairs in line.items():
            pairs.append([point[part]["disclosivity"][0], point[part]["imbalance"][0]])
    return summary_of | {"lines": lines, "dominance": rounded(families["dominance"], 4)}


def shown_at_equal_disclosivity(found: Mapping[str, Any]) -> dict[str, Any]:
    """Means over the seeds of every comparator's point and of the tree beside it."""
    keys = sorted({(row["method"], row["mixing"]) for row in found["rows"]})
    means = []
    for method, mixing in keys:
        rows = [row for row in found["rows"] if (row["method"], row["mixing"]) == (method, mixing)]
        mean = {"method": method, "mixing": mixing}
        for name in ("disclosivity", "imbalance", "relaxed"):
            mean[name] = sum(row[name] for row in rows) / len(rows)
        means.append(mean)
    return {**found, "rows": by_column(shown_alike(means))}


def shown_solvers(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Every solver without the parts that the page does not show."""
    summary_of: dict[str, Any] = {}
    for table, limits in tables.items():
        summary_of[table] = {}
        for limit, runs in limits.items():
            rows = {}
            for name, run in runs.items():
                rows[name] = only(run, ["seconds", "leaves", "halfspaces"])
                for part in ("train", "test"):
                    rows[name][part] = rounded(only(run[part], ["imbalance", "kept"]), 7)
            summary_of[table][limit] = rows
    return summary_of


def shown_support(found: Mapping[str, Any]) -> dict[str, Any]:
    """Mean, smallest and largest of the seeds of every table, limit and `support`."""
    names = ("imbalance", "support", "support_none", "support_size", "support_shift", "kept")
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        groups.setdefault((row["table"], row["alpha"], row["support"]), []).append(row)
    spreads = []
    for (table, alpha, given_up), rows in groups.items():
        spread: dict[str, Any] = {"table": table, "alpha": alpha, "given_up": given_up}
        spread["train_imbalance"] = ends([row["train_imbalance"] for row in rows])
        for name in names:
            spread[name] = ends([row["measured"][name] for row in rows])
        spread["auc"] = ends([row["auc"] for row in rows])
        spread["auc_lost"] = ends([row["auc_random"] - row["auc"] for row in rows])
        spreads.append(spread)
    return {**found, "rows": by_column(spreads)}


def ends(values: Sequence[float]) -> list[float]:
    """Mean, smallest and largest value."""
    return [round(value, 7) for value in (sum(values) / len(values), min(values), max(values))]


if __name__ == "__main__":
    main(sys.argv[1:])
