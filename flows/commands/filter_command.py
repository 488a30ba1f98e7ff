"""``evenhand filter`` and ``predict``: run a published model over files, and print the result."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evenhand.flows.commands.terminal import Verb, print_end, run_verb
from evenhand.flows.engine import Engine, Verdict
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import parse_address
from evenhand.tasks.sources.databases import is_database
from evenhand.tasks.sources.lakes import is_lake

INTERRUPTED = "interrupted: run again with the same output, the finished parts are kept."


def run_filter(
    job: str,
    rows: str | None,
    input_url: str | None,
    output_url: str,
    partition: str | None,
    since: str | None,
    overrides: Sequence[str] | None,
    **common: Any,
) -> int:
    """Filter, and print the result."""
    arguments = {
        "job": job,
        "input": _one_input("filter", rows, input_url),
        "output": output_url,
        "overrides": [*(overrides or ()), *partition_overrides("filter", partition, since)],
    }
    return _run("filter", "plan_filter", arguments, common)


def predict(
    model: str,
    rows: str | None,
    input_url: str | None,
    output_url: str,
    partition: str | None,
    since: str | None,
    in_database: bool,
    reasons: int | None,
    adverse: bool,
    overrides: Sequence[str] | None,
    **common: Any,
) -> int:
    """Predict, and print the result."""
    chosen = [*(overrides or ()), *partition_overrides("predict", partition, since)]
    if in_database:
        chosen.append("predict.in_database=true")
    arguments = {
        "model": model,
        "input": _one_input("predict", rows, input_url),
        "output": output_url,
        "overrides": chosen,
        "reasons": reasons,
        "adverse": adverse,
    }
    return _run("predict", "plan_prediction", arguments, common)


def _one_input(verb: str, rows: str | None, input_url: str | None) -> str:
    """Return where the rows are: the second argument, or the option; refuse both and neither."""
    if rows is not None and input_url is not None:
        raise InputError(
            f"the rows are given twice, as {without_secrets(rows)} and by --input: leave one out."
        )
    address = rows if rows is not None else input_url
    if address is None:
        raise InputError(f"the rows are missing: `evenhand {verb} … ROWS --output …` names them.")
    return address


def partition_overrides(section: str, partition: str | None, since: str | None) -> list[str]:
    """Return the options on partitions as an override of a section."""
    if partition is None and since is None:
        return []
    if partition is not None and since is not None:
        raise InputError("--partition and --since exclude each other: give one of them.")
    partitions = partition
    if since is not None:
        partitions = f"{since}.."
    # quoted: YAML would read a date
    return [f"{section}.partitions={json.dumps(partitions)}"]


def _run(verb: str, planner: str, arguments: dict[str, Any], common: dict[str, Any]) -> int:
    """Plan by the function `planner` of the verb's module, and run the plan over the files."""

    def plan() -> Verb:
        from evenhand.flows.file_runs import execute
        from evenhand.tasks.execution.step import report_progress

        module = importlib.import_module(f"evenhand.flows.{verb}")
        planned = getattr(module, planner)(**arguments)

        def run(store: Store, run_id: str, engine: Engine) -> Verdict:
            # where nothing is new, no server is started
            only_look = getattr(engine, "cached_only", False)
            return execute(planned, store, run_id, report_progress(verb), only_look=only_look)

        return Verb(planned.run_name, run, f"{verb}_flow", arguments)

    ended = run_verb(plan, **common, interrupted=INTERRUPTED, reads_registry=True)
    parts_name = "files"
    if is_database(arguments["input"]) or is_lake(arguments["input"]):
        parts_name = "partitions"
    return ended.finish(partial(_print, parts_name))


def _print(parts_name: str, verdict: Verdict, seconds: float) -> None:
    """Print the numbers of files or partitions and of rows, notes, and the model; nothing if the
    run ended early.
    """
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        return
    if not verdict.metrics:
        return
    for note in verdict.notes:
        print(f"note      {note}")
    metrics = verdict.metrics
    if "positive" in metrics:
        done = "predicted"
        kind = "model"
        rows = _predicted_rows(verdict)
    else:
        done = "filtered"
        kind = "proxy"
        rows = _kept_rows(metrics)
    if metrics["files_done_before"]:
        rows += ", with those of earlier runs"
    print(f"{parts_name:9} {_counted_files(metrics, done)}")
    print(f"rows      {rows}")
    _print_warnings(metrics, done)
    if verdict.model:
        model = f"{verdict.model['name']}, from {_kind_of_place(verdict.model['uri'])}"
        if verdict.model["version"]:
            model = f"{verdict.model['name']} version {verdict.model['version']}"
        print(f"{kind:9} {model}")
    print(f"output    {verdict.artifacts['output']}")
    print_end(verdict, seconds)


def _kind_of_place(address: str) -> str:
    """Say whether a model that is in no registry is a folder or an archive."""
    place = parse_address(address).folder
    if place is not None and place.is_file():
        return "an archive"
    return "a folder"


def _counted_files(metrics: Mapping[str, float | None], done: str) -> str:
    """Count the files of this run, and those done before or failed, if there are such."""
    counts = [f"{int(metrics[f'files_{done}'] or 0)} {done}"]
    for key, name in (("files_done_before", "done before"), ("files_failed", "failed")):
        count = metrics[key]
        if count:
            counts.append(f"{int(count)} {name}")
    return ", ".join(counts)


def _predicted_rows(verdict: Verdict) -> str:
    metrics = verdict.metrics
    rows_in = int(metrics["rows_in"] or 0)
    rows_out = int(metrics["rows_out"] or 0)
    text = f"{rows_out:,} of {rows_in:,} predicted"
    if verdict.rates:
        text += f", {verdict.rates['positive']} for {verdict.rates['predicted']:.1%} of them"
    return text


def _kept_rows(metrics: Mapping[str, float | None]) -> str:
    rows_in = int(metrics["rows_in"] or 0)
    rows_out = int(metrics["rows_out"] or 0)
    text = f"{rows_out:,} of {rows_in:,} kept"
    if rows_in:
        text += f" ({100 * rows_out / rows_in:.2g}%; {metrics['rows_expected']:,.0f} expected)"
    return text


def _print_warnings(metrics: Mapping[str, float | None], done: str) -> None:
    """Print rows set aside or out of bounds, the remaining imbalance, and drift."""
    used = int(metrics["rows_outside_used"] or 0)
    outside = int(metrics["rows_outside_bounds"] or 0) - used
    broken = int(metrics["rows_set_aside"] or 0) - outside
    if broken:
        print(f"          {broken:,} set aside: they break the contract")
    if outside:
        print(f"WARNING   {outside:,} set aside: outside the bounds that the training table had")
    if used:
        print(
            f"WARNING   {used:,} {done} with values outside the bounds that the training table had"
        )
    if metrics.get("imbalance") is not None:
        print(
            f"balance   expected shares are {metrics['imbalance']:.3f} "
            f"[{metrics['imbalance.low']:.3f}, {metrics['imbalance.high']:.3f}] from the target"
        )
    if metrics.get("drift.psi") is not None:
        print(f"drift     stability index {metrics['drift.psi']:.3f} against the training rows")
