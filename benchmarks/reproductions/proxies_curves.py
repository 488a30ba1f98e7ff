"""Figures 1 and 2 of the balancing proxies: ``python -m benchmarks.reproductions.proxies_curves``.

Disclosivity against imbalance of the six methods on Bank and Adult, 20 splits, limits and mixings as
printed. Every split of a table is kept in ``benchmarks/results`` (``proxies_trees_TABLE.json`` and
``proxies_comparators_TABLE.json``), so an interrupted command, or one in a fresh checkout, goes on
where the last one ended. ``--minutes M`` ends it after the split that exceeds M minutes. ``--table`` and ``--family`` take one table or one
family of methods alone: ``paper`` (the trees at the paper's settings), ``comparators``, and
``held-out`` and ``fine`` (the trees at settings of ours, two splits). ``--quick`` measures the
comparators of one split of Bank and keeps nothing.

A split takes about a minute of one core for each table; ``fine`` and ``held-out`` take longer.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import (
    code_state,
    log,
    provenance,
    read_result,
    result_version,
    write_result,
)
from benchmarks.reproductions.proxies_paper import (
    COMPARATORS,
    MIXINGS,
    SEEDS,
    SETTINGS,
    SHOWN_KNOBS,
    TREES,
    Split,
    dominance,
    fitted,
    limits_of,
    shown_curves,
    summary,
)
from benchmarks.summaries import records_of
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_groups import indicators_of

COMMAND = "python -m benchmarks.reproductions.proxies_curves"
# Families of methods on each table, with their splits: on Bank, with 12 groups, a fine tree takes
# minutes.
CURVES: dict[str, dict[str, int]] = {
    "bank": {"comparators": SEEDS, "paper": SEEDS, "held-out": 2},
    "adult": {"comparators": SEEDS, "paper": SEEDS, "fine": 2, "held-out": 2},
}
FAMILIES = ("comparators", *SETTINGS)
# Families that the figures consist of.
DRAWN = ("comparators", "paper")
# Numbers are kept as integers, in ten-thousandths: so all splits have room in 200 lines.
UNIT = 1e-4
PARTS = ("train", "test")
# Kept at every limit and mixing, and of the trees at the limits that pages have rows of.
DRAWN_MEASURES = ("disclosivity", "imbalance")
ROW_MEASURES = ("smallest_growth", "kept")


def result_name(table: str, family: str) -> str:
    """Return the name of the file of results that has a family of methods on a table."""
    kind = "comparators" if family == "comparators" else "trees"
    return f"proxies_{kind}_{table}"


# ----------------------------------------------------------------------------------------- one split


def points_of_split(table: str, family: str, seed: int) -> list[dict[str, Any]]:
    """Fit every proxy of a family on one split, and measure it in sample and out of sample.

    Parameters
    ----------
    table, family : str
    seed : int
        Of the split.

    Returns
    -------
    list of dict
        ``method``, ``knob`` (the limit or the mixing), ``leaves``, and by part the measures.
    """
    split = Split(table, seed)
    indicators: list[Float] = []
    tallies: dict[str, list[Float]] = {}
    points = []
    for method, knob, _, proxy in fitted(split, table, family):
        if not indicators:
            for groups in split.groups:
                indicators.append(indicators_of({split.attribute: groups}, proxy.group_names_))
        # a mixing changes the acceptance, but not the rows of the proxy groups
        if family != "comparators" or method not in tallies:
            tallies[method] = [
                proxy.shares(X).T @ of_part for X, of_part in zip(split.X, indicators, strict=True)
            ]
        point: dict[str, Any] = {"method": method, "knob": knob, "leaves": len(proxy.masses_)}
        for part, of_part in zip(PARTS, tallies[method], strict=True):
            point[part] = measures_of(proxy, of_part)
        points.append(point)
    return points


def measures_of(proxy: BalancingProxy, tallies: Float) -> dict[str, float]:
    """Return the measures of :func:`.measure_proxy` that the figures show.

    That function also measures the support, which takes seconds for a proxy with twelve groups.

    Parameters
    ----------
    proxy : BalancingProxy
    tallies : ndarray of float64, shape (l, K)
        Rows of every sensitive group in every proxy group.

    Returns
    -------
    dict of str to float
    """
    rows = tallies.sum(axis=1)
    base_rates = tallies.sum(axis=0) / rows.sum()
    mixed_rows, mixed_tallies = proxy.relabelled(rows, tallies)
    has_rows = rows > 0
    compositions = mixed_tallies[has_rows] / mixed_rows[has_rows, None]
    kept = proxy.acceptance_ @ tallies
    shares = kept / kept.sum()
    # the rarest group of the training rows
    with_target = np.flatnonzero(proxy.target_ > 0)
    rarest = with_target[np.argmin(proxy.base_rates_[with_target])]
    return {
        "disclosivity": float(np.abs(compositions - base_rates).max()),
        "imbalance": float(np.linalg.norm(shares - proxy.target_)),
        "smallest_growth": float(shares[rarest] / base_rates[rarest]),
        "kept": float(kept.sum() / rows.sum()),
    }


# ------------------------------------------------------------------------------- what a split keeps


def record_of(points: Sequence[Mapping[str, Any]], family: str) -> dict[str, list[int | None]]:
    """Return what the results keep of one split.

    Parameters
    ----------
    points : sequence of mapping
        As :func:`points_of_split` returns them.
    family : str
        A key of `SETTINGS`, or ``comparators``.

    Returns
    -------
    dict
        By method, part and measure the values at all limits or mixings, in ten-thousandths; of the
        trees also the leaves and the measures of held-out rows at the limits that pages show. None
        is an undefined value.
    """
    record: dict[str, list[int | None]] = {}
    for method in _methods(family):
        of_method = [point for point in points if point["method"] == method]
        of_method.sort(key=lambda point: float(point["knob"]))
        for part in PARTS:
            for measure in DRAWN_MEASURES:
                values = [point[part][measure] for point in of_method]
                record[f"{method} {part} {measure}"] = [_in_units(value) for value in values]
        if family == "comparators":
            continue
        shown = [point for point in of_method if point["knob"] in SHOWN_KNOBS]
        record[f"{method} leaves"] = [point["leaves"] for point in shown]
        for measure in ROW_MEASURES:
            values = [point["test"][measure] for point in shown]
            record[f"{method} test {measure}"] = [_in_units(value) for value in values]
    return record


def points_of(record: Mapping[str, Sequence[int]], table: str, family: str) -> list[dict[str, Any]]:
    """Return the points of a kept split: the inverse of :func:`record_of`.

    Parameters
    ----------
    record : mapping
    table, family : str

    Returns
    -------
    list of dict
        What was not kept of a point is left out of it.
    """
    points = []
    for method in _methods(family):
        shown = 0
        for place, knob in enumerate(_knobs(table, family)):
            point: dict[str, Any] = {"method": method, "knob": knob}
            for part in PARTS:
                point[part] = {
                    measure: _from_units(record[f"{method} {part} {measure}"][place])
                    for measure in DRAWN_MEASURES
                }
            if family != "comparators" and knob in SHOWN_KNOBS:
                point["leaves"] = record[f"{method} leaves"][shown]
                for measure in ROW_MEASURES:
                    number = record[f"{method} test {measure}"][shown]
                    point["test"][measure] = _from_units(number)
                shown += 1
            points.append(point)
    return points


def _in_units(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else round(value / UNIT)


def _from_units(number: int | None) -> float | None:
    return None if number is None else number * UNIT


def _methods(family: str) -> tuple[str, ...]:
    return COMPARATORS if family == "comparators" else TREES


def _knobs(table: str, family: str) -> Sequence[float]:
    return MIXINGS if family == "comparators" else limits_of(table, family)


# ------------------------------------------------------------------------------- what the pages show


def splits_kept(table: str, family: str) -> int:
    """Return how many splits of a family the results have."""
    return len(_splits(table, family))


def count() -> tuple[int, int]:
    """Return how many splits of all tables and families are kept, and how many there are."""
    kept = 0
    wanted = 0
    for table, families in CURVES.items():
        for family, seeds in families.items():
            kept += splits_kept(table, family)
            wanted += seeds
    return kept, wanted


def missing() -> list[str]:
    """Return one line for each table and family of which splits are missing."""
    lines = []
    for table, families in CURVES.items():
        for family, seeds in families.items():
            kept = splits_kept(table, family)
            if kept < seeds:
                lines.append(f"{table}, {family}: {kept} of {seeds} splits")
    return lines


def read_curves() -> dict[str, Any]:
    """Return what the pages show of all kept splits.

    Returns
    -------
    dict
        The latest provenance, and under ``result`` by table: the rows of each family of trees, the
        points of the figure's lines, and the comparison of the methods. A family of ours that lacks
        splits is that of an earlier measurement, of which only means are kept, in ``proxies.json``.
        Callers do not change it: it is the same object until a file of results changes, as the
        pages ask for it a hundred times.
    """
    names = ["proxies"]
    for table, families in CURVES.items():
        names += [result_name(table, family) for family in families]
    return _read_curves(tuple(result_version(name) for name in names))


@lru_cache(maxsize=1)
def _read_curves(_versions: tuple[tuple[str, int, int], ...]) -> dict[str, Any]:
    """What :func:`read_curves` returns of these versions of the files."""
    earlier: dict[str, Any] = read_result("proxies").get("curves", {})
    if not all(splits_kept(table, family) for table in CURVES for family in DRAWN):
        return earlier
    result = {}
    origins: list[Mapping[str, Any]] = []
    for table in CURVES:
        curves: dict[str, Any] = {}
        for family, wanted in CURVES[table].items():
            if family not in DRAWN and splits_kept(table, family) < wanted:
                continue
            points = []
            for record in _splits(table, family).values():
                points += points_of(record["values"], table, family)
            if points:
                origins += _kept(table, family)["origins"].values()
                curves[family] = {"points": summary(points)}
        trees = [family for family in curves if family in SETTINGS]
        curves["dominance"] = {
            part: {family: dominance(curves, family, part) for family in trees} for part in PARTS
        }
        result[table] = records_of(shown_curves(curves))
        _keep_earlier(result[table], earlier.get("result", {}).get(table, {}))
    latest = max(origins, key=lambda origin: str(origin["measured"]))
    return {**latest, "result": result}


def _keep_earlier(shown: dict[str, Any], earlier: Mapping[str, Any]) -> None:
    """Add the families of an earlier measurement that still lack splits."""
    for family in SETTINGS:
        if family in earlier and family not in shown:
            shown[family] = earlier[family]
            for part in PARTS:
                shown["dominance"][part][family] = earlier["dominance"][part][family]


def _kept(table: str, family: str) -> dict[str, Any]:
    return read_result(result_name(table, family))


def _splits(table: str, family: str) -> dict[str, Any]:
    splits: dict[str, Any] = _kept(table, family).get("families", {}).get(family, {})
    return splits


# ------------------------------------------------------------------------------------- the command


def order() -> list[tuple[int, str, str]]:
    """Return splits, tables and families in the order in which they are measured.

    The families that the figures consist of come first.
    """
    families = [(table, family) for table in CURVES for family in CURVES[table]]
    drawn = [pair for pair in families if pair[1] in DRAWN]
    others = [pair for pair in families if pair[1] not in DRAWN]
    ordered = []
    for group in (drawn, others):
        for seed in range(SEEDS):
            for table, family in group:
                if seed < CURVES[table][family]:
                    ordered.append((seed, table, family))
    return ordered


def measure(table: str, family: str, seed: int) -> None:
    """Measure one split, and keep it."""
    started = time.process_time()
    points = points_of_split(table, family, seed)
    record = {
        "origin": "",
        "cpu_seconds": round(time.process_time() - started, 1),
        "values": record_of(points, family),
    }
    origin = provenance(COMMAND)
    record["origin"] = f"{str(origin['git_commit'])[:8]} {origin['measured'][:10]}"
    content = _kept(table, family) or {"origins": {}, "unit": UNIT, "families": {}}
    content["origins"].setdefault(record["origin"], origin)
    content["families"].setdefault(family, {})[str(seed)] = record
    write_result(result_name(table, family), content)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the splits that the results lack."""
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--table", choices=CURVES)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args(arguments)
    with threadpool_limits(1):
        if chosen.quick:
            points = points_of_split("bank", "comparators", 0)
            log(f"bank: {len(points)} points of the comparators, nothing kept")
            return
        code_state()
        end = time.monotonic() + 60 * chosen.minutes
        for seed, table, family in order():
            if chosen.table not in (None, table) or chosen.family not in (None, family):
                continue
            if str(seed) in _splits(table, family):
                continue
            if time.monotonic() >= end:
                break
            log(f"proxies, {table}, {family}: split {seed + 1} of {CURVES[table][family]}")
            measure(table, family, seed)
    for line in missing():
        log(f"proxies, {line}: the same command goes on")


if __name__ == "__main__":
    main(sys.argv[1:])
