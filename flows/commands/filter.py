"""``evenhand filter``: filter files with a published proxy, and print the result."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.flows.commands.terminal import Verb, print_end, print_result, run_verb
from evenhand.flows.engine import Verdict
from evenhand.tasks.errors import InputError

INTERRUPTED = "interrupted: run again with the same output, the finished parts are kept."


def run_filter(
    job: str,
    input_url: str,
    output_url: str,
    overrides: Sequence[str] | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Filter, and print the result."""
    overrides = list(overrides or ())

    def plan() -> Verb:
        from evenhand.flows.filter import execute, plan_filter
        from evenhand.tasks.step import report_progress

        found = plan_filter(job, overrides, input_url, output_url)
        if direct and found.resolved.job.filter.engine == "dask":
            raise InputError("--direct runs without Prefect, and Dask needs Prefect: leave one of them out.")
        given = {"job": job, "input": input_url, "output": output_url, "overrides": overrides}
        return Verb(
            found.run_name,
            lambda store, run_id, _: execute(found, store, run_id, report_progress("filter")),
            "filter_flow",
            given,
            cacheable=False,
        )

    verdict, _, seconds = run_verb(
        plan, as_json=as_json, store_url=store_url, direct=direct, interrupted=INTERRUPTED
    )
    return print_result(verdict, verdict.to_dict() if as_json else None, lambda: _print(verdict, seconds))


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        return
    if not verdict.metrics:
        return
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
