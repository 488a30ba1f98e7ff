"""Documents of a filter run: made up, but drift and expected shares are computed from its
counts.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from page_examples import ENVIRONMENT

from evenhand.tasks.filtering.filter_bundle import FilterSettings
from evenhand.tasks.filtering.summary import FileOutcome, FilterSummary, drift_of, expected_shares

GROUPS = {"job": ["admin.", "management", "retired", "student"]}
# Proxy groups are not in the order of their size, as in a published proxy.
TRAINING = [0.1, 0.5, 0.3, 0.1]
ACCEPTANCE = [1.0, 0.25, 0.5, 0.8]
BALANCE: dict[str, Any] = {
    "attributes": GROUPS,
    "groups": [f"job={group}" for group in GROUPS["job"]],
    "target": [0.25, 0.25, 0.25, 0.25],
    "base_rates_train": [0.32, 0.45, 0.17, 0.06],
    "compositions": [
        [0.2, 0.2, 0.2, 0.4],
        [0.35, 0.55, 0.08, 0.02],
        [0.35, 0.4, 0.22, 0.03],
        [0.2, 0.3, 0.45, 0.05],
    ],
    "rows": [300.0, 1500.0, 900.0, 300.0],
    "masses": TRAINING,
    "acceptance": ACCEPTANCE,
}
FILES = (
    FileOutcome("2026/04/accounts.parquet", "done", 60_000, 28_790),
    FileOutcome("2026/05/accounts.parquet", "skipped", 35_000, 16_840, quarantined=40),
    FileOutcome("2026/06/accounts.csv.gz", "done", 5_000, 2_391, quarantined=13),
    FileOutcome(
        "2026/07/accounts.parquet", "failed", reason="it is cut off or damaged; copy it again."
    ),
)
FINE = [file for file in FILES if file.status != "failed"]
DRIFTED = (0.55, 0.1, 0.15, 0.2)
TWO_PROXIES = {"a" * 64: {"version": "3", "files": 3}, "b" * 64: {"version": "2", "files": 4}}


def filter_documents(
    files: Sequence[FileOutcome] = FILES,
    shares: Sequence[float] = (0.12, 0.45, 0.32, 0.11),
    balance: dict[str, Any] | None = BALANCE,
    settings: FilterSettings = FilterSettings(seed=7, key=("id",)),  # noqa: B008 - immutable
    **changes: Any,
) -> dict[str, Any]:
    """Fresh documents; `changes` are of the summary."""
    rows = sum(file.rows_in for file in files)
    quarantined = sum(file.quarantined for file in files)
    masses = np.asarray(shares) * (rows - quarantined)
    drift = drift_of(masses, TRAINING, settings.max_drift)
    expected = expected_shares(masses, ACCEPTANCE, balance, settings.seed) if balance else None
    values: dict[str, Any] = {
        "files": sorted(files, key=lambda file: file.name),
        "ignored": ["2026/README.md"],
        "others": 0,
        "rows_in": rows,
        "rows_out": sum(file.rows_out for file in files),
        "quarantined": quarantined,
        "dropped": 0,
        "expected_out": float(masses @ ACCEPTANCE),
        "masses": masses.tolist(),
        "expected_by_group": (masses * ACCEPTANCE).tolist(),
        "left_out": ["job"],
        "proxies": {"a" * 64: {"version": "3", "files": 3}} if rows else {},
        "drift": drift,
        "balance": expected,
        "seconds": 41.2,
    }
    summary = FilterSummary(**{**values, **changes})
    documents: dict[str, Any] = {
        "summary": asdict(summary),
        "settings": asdict(settings),
        "balance": balance,
        "run": {
            "id": "2026-11-21-4b1e",
            "created": "2026-11-21T18:04:00+00:00",
            "status": "failed" if summary.failed else "filtered",
            "job_name": "bank-balanced-sample",
            "proxy": {
                "name": "bank-proxy",
                "version": "3",
                "alias": "champion",
                "uri": "models:/bank-proxy@champion",
            },
            "input": "/data/bank/accounts",
            "output": "/data/bank/balanced",
            "seconds": 43.0,
            "environment": ENVIRONMENT,
        },
    }
    loaded: dict[str, Any] = json.loads(json.dumps(documents))
    return loaded


def failing(count: int) -> list[FileOutcome]:
    """Files that failed, each with its reason."""
    return [FileOutcome(f"{i:03d}.csv", "failed", reason=f"reason {i}") for i in range(count)]


def many(count: int = 240) -> list[FileOutcome]:
    """More files than are listed, in folders three deep, one of them failed."""
    files = [
        FileOutcome(f"{i % 2}/{i % 8}/{i:04d}.csv", "done", rows_in=10 + i, rows_out=i)
        for i in range(count)
    ]
    return [*files, FileOutcome("1/3/bad.csv", "failed", reason="it is damaged")]


def two_attributes() -> dict[str, Any]:
    """A balance of two sensitive attributes."""
    balance = copy.deepcopy(BALANCE)
    balance["attributes"]["sex"] = ["female", "male"]
    balance["groups"] += ["sex=female", "sex=male"]
    balance["target"] += [0.5, 0.5]
    balance["base_rates_train"] += [0.3, 0.7]
    for line, share in zip(balance["compositions"], (0.6, 0.2, 0.3, 0.5), strict=True):
        line += [share, 1 - share]
    return balance
