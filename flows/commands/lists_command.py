"""Commands that list what there is: jobs, tables, methods, metrics; and those of the cache."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from evenhand.tasks.execution.store import Store


def jobs(as_json: bool = False) -> None:
    """Print the shipped jobs with their descriptions."""
    from evenhand.flows.job_file import shipped_jobs

    pairs = list(shipped_jobs().items())
    if as_json:
        _print_json("jobs", [{"name": name, "description": text} for name, text in pairs])
        return
    _print_pairs(pairs)


def datasets(as_json: bool = False) -> None:
    """Print the known tables with their summaries."""
    from evenhand.fairlib.datasets.generated import GENERATED
    from evenhand.fairlib.datasets.recipes import RECIPES

    rows = [(name, table.summary) for name, table in GENERATED.items()]
    rows += [(name, table.summary) for name, table in RECIPES.items()]
    if as_json:
        _print_json("datasets", [{"name": name, "summary": summary} for name, summary in rows])
        return
    _print_pairs(rows)


def methods(space: str | None = None, as_json: bool = False) -> None:
    """Print the methods with their summaries and kinds of label, or what `tune` tries of one of
    them.
    """
    from evenhand.fairlib.methods.registry import METHODS, PROXIES, installed

    if space is not None:
        _print_space(space, as_json)
        return

    if as_json:
        entries: list[dict[str, Any]] = []
        for name, spec in METHODS.items():
            is_installed = installed(spec)
            entries.append(
                {
                    "name": name,
                    "kind": "classifier",
                    "summary": spec.summary,
                    "labels": list(spec.tasks),
                    "installed": is_installed,
                }
            )
        for name, proxy in PROXIES.items():
            entries.append({"name": name, "kind": "proxy", "summary": proxy.summary})
        _print_json("methods", entries)
        return
    rows = []
    for name, spec in METHODS.items():
        text = f"{spec.summary} [{', '.join(spec.tasks)}]"
        if not installed(spec):
            text += f" (not installed: {spec.install_command})"
        rows.append((name, text))
    for name, proxy in PROXIES.items():
        rows.append((name, f"{proxy.summary} [proxy]"))
    _print_pairs(rows)


def _print_space(method: str, as_json: bool) -> None:
    """Print name, range, scale and default of each parameter that is searched."""
    from evenhand.fairlib.methods.registry import METHODS, method_class
    from evenhand.fairlib.tuning.space import rows_of, space_of
    from evenhand.flows.commands.terminal import print_table
    from evenhand.tasks.errors import InputError
    from evenhand.tasks.written_input import nearest

    if method not in METHODS:
        raise InputError(
            f"method {method!r} has no search space{nearest(method, [*METHODS])}; those that have: "
            f"{', '.join(METHODS)}."
        )
    rows = rows_of(space_of(method_class(method)))
    head = ("parameter", "range", "scale", "default")
    if as_json:
        _print_json("space", [dict(zip(head, row, strict=True)) for row in rows])
        return
    print_table([head, *rows])


def metrics(as_json: bool = False) -> None:
    """Print the catalogue of metrics."""
    from evenhand.fairlib.catalogue import METRICS

    if as_json:
        entries = []
        for name, info in METRICS.items():
            entries.append(
                {
                    "name": name,
                    "title": info.title,
                    "direction": info.direction,
                    "explanation": info.explanation.replace("{subject}", info.subject),
                    "kind": info.kind,
                }
            )
        _print_json("metrics", entries)
        return
    rows = []
    for name, info in METRICS.items():
        text = info.title
        if info.direction:
            text += f", {info.direction} is better"
        text += f": {info.explanation.replace('{subject}', info.subject)}"
        if info.kind != "classifier":
            text += f" [{info.kind}]"
        rows.append((name, text))
    _print_pairs(rows)


def cached_steps(store_url: str | None, as_json: bool) -> None:
    """Print the finished steps, newest first."""
    rows = Store(store_url, reading=True).usage()
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        size = row["bytes"] / 1e6
        age = row["age_s"] / 3600
        print(f"{row['step']:12} {row['key'][:12]} {size:9.2f} MB {age:8.1f} h old")
    print(f"{len(rows)} steps, {sum(row['bytes'] for row in rows) / 1e6:.2f} MB")


def prune_cache(keep: int, store_url: str | None, as_json: bool = False) -> None:
    """Delete all but the newest `keep` records of each step, and the artifacts that only they refer
    to.
    """
    records, freed = Store(store_url).prune(keep)
    if as_json:
        print(json.dumps({"steps_removed": records, "bytes_freed": freed}))
        return
    print(f"removed {records} steps, freed {freed / 1e6:.2f} MB")


def _print_json(key: str, entries: list[dict[str, Any]]) -> None:
    """Print a list under its name as one JSON object."""
    print(json.dumps({key: entries}))


def _print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print two columns, the first as wide as its longest entry."""
    rows = list(pairs)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:{width}}  {text}")
