"""``evenhand filter``: filter files with a published proxy, print the result, and give the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from evenhand.flows.commands.terminal import Verb, print_end, run_verb
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import InputError

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

    def plan() -> Verb:
        from evenhand.flows.filter import execute, plan_filter, progress_reporter

        found = plan_filter(name, overrides, input_url, output_url)
        if direct and found.resolved.job.filter.engine == "dask":
            raise InputError("--direct runs without Prefect, and so without Dask: leave one of them out.")
        given = {"job": name, "input": input_url, "output": output_url, "overrides": list(overrides)}
        return Verb(
            found.run_name,
            lambda store, run_id, _: execute(found, store, run_id, progress_reporter()),
            "filter_flow",
            given,
            cacheable=False,
        )

    verdict, _, seconds = run_verb(
        plan, as_json=as_json, store_url=store_url, direct=direct, interrupted=INTERRUPTED
    )
    if as_json:
        print(json.dumps(verdict.to_dict()))
    elif verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
    elif verdict.metrics:
        _print(verdict, seconds)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


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
            f"balance   expected shares are {found['imbalance']:.3f} "
            f"[{found['imbalance.low']:.3f}, {found['imbalance.high']:.3f}] from the target"
        )
    if found.get("drift.psi") is not None:
        print(f"drift     stability index {found['drift.psi']:.3f} against the training rows")
    if verdict.model:
        print(f"proxy     {verdict.model['name']} version {verdict.model['version']}")
    print(f"output    {verdict.artifacts['output']}")
    print_end(verdict, seconds)
