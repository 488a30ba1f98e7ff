"""``evenhand filter``: filter files with a published proxy, print what came of it, and give the exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from evenhand.flows.commands.terminal import one_line_errors, progress_bars, through_prefect, verdict_of
from evenhand.flows.runtime import prepare_environment
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import InputError
from evenhand.tasks.progress import listen
from evenhand.tasks.store import Store

__all__ = ["run_filter"]

INTERRUPTED = "interrupted: run again with the same output, what is finished is kept."


def run_filter(
    name: str,
    input_url: str,
    output_url: str,
    *,
    overrides: Sequence[str],
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Run, print, and return the exit code."""
    started = time.perf_counter()
    run_id, store = "", None  # type: str, Store | None
    with one_line_errors(interrupted=INTERRUPTED) as caught:
        home = prepare_environment(store_url)
        from evenhand.flows.filter_run import resolve_filter

        job = resolve_filter(name, overrides, input_url, output_url)
        if direct and job.resolved.job.filter.engine == "dask":
            raise InputError("--direct runs without Prefect, and so without Dask: leave one of them out.")
        store = Store(store_url)
        from evenhand.flows.run_outputs import new_run_id

        run_id = new_run_id(f"{job.resolved.job.name}-filter")
        with progress_bars(quiet=as_json) as listener, listen(listener):
            if direct:
                from evenhand.flows.filter_run import carry_out_filter, follow

                carry_out_filter(job, store, run_id, follow())
            else:
                given = (name, input_url, output_url, list(overrides))
                through_prefect(home, _flow, given, store, run_id)
    verdict = verdict_of(store, run_id, caught.error)
    if as_json:
        print(json.dumps(verdict.to_dict()))
    elif verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
    elif verdict.metrics:
        _print(verdict, time.perf_counter() - started)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


def _flow() -> Callable[..., Any]:
    from evenhand.flows.filter import filter_flow

    return filter_flow


def _print(verdict: Verdict, seconds: float) -> None:
    found = verdict.metrics
    rows_in, rows_out = int(found["rows_in"] or 0), int(found["rows_out"] or 0)
    before = int(found["files_done_before"] or 0)
    files = f"{int(found['files_filtered'] or 0)} filtered"
    files += f", {before} done before" if before else ""
    files += f", {int(found['files_failed'] or 0)} failed" if found["files_failed"] else ""
    print(f"files     {files}")
    share = f" ({100 * rows_out / rows_in:.2g}%; {found['rows_expected']:,.0f} expected)" if rows_in else ""
    print(f"rows      {rows_out:,} of {rows_in:,} kept{share}")
    if found["rows_set_aside"]:
        print(f"          {int(found['rows_set_aside']):,} set aside: they break the contract")
    if found.get("imbalance") is not None:
        print(
            f"balance   expected shares lie {found['imbalance']:.3f} "
            f"[{found['imbalance.low']:.3f}, {found['imbalance.high']:.3f}] from the wanted ones"
        )
    if found.get("drift.psi") is not None:
        print(f"drift     stability index {found['drift.psi']:.3f} against the training rows")
    if verdict.model:
        print(f"proxy     {verdict.model['name']} version {verdict.model['version']}")
    print(f"output    {verdict.artifacts['output']}")
    print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")
