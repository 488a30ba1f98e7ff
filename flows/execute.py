"""Carry a job out with any engine, and leave its verdict and pages whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator

from evenhand.flows.engine import CacheMiss, Engine, Run
from evenhand.flows.pipeline import run_pipeline
from evenhand.flows.provenance import made_before, provenance, proxy_content
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.run_outputs import model_card, write_report
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict, write_verdict
from evenhand.tasks.errors import EvenhandError, NotCarriedOut, internal_fault
from evenhand.tasks.store import Store

__all__ = ["carry_out", "leaving_verdict", "named_fault", "up_to_date"]


def carry_out(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Run the pipeline and leave its verdict and pages, whatever happens.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; the run has not begun, so it leaves no verdict.
    """
    run = Run()
    verdict = Verdict(run_id, "failed", 4)
    with leaving_verdict(store, verdict, run):
        outcome = run_pipeline(resolved, store, engine, run, time.perf_counter, model_card(resolved))
        verdict.exit_code = EXIT_OF_VERDICT[outcome]
        verdict.status = "published" if outcome == "passed" else "gated"
        _fill(verdict, store, run)
        write_report(store, resolved, run, verdict)
    return verdict


@contextlib.contextmanager
def leaving_verdict(store: Store, verdict: Verdict, run: Run) -> Iterator[None]:
    """
    Write the verdict at the end of the block, whatever ends it; a fault becomes one line in it.

    Raises
    ------
    EvenhandError
        Whatever went wrong, as an error of ours.
    CacheMiss
        From an engine that may only look things up; no verdict is written.
    """
    try:
        yield
    except CacheMiss:
        raise
    except EvenhandError as error:
        verdict.status, verdict.exit_code, verdict.error = "failed", error.exit_code, str(error)
        raise
    except Exception as error:  # noqa: BLE001 - any fault of ours, which is raised by another name
        named = named_fault(error)
        verdict.status, verdict.exit_code, verdict.error = "failed", named.exit_code, str(named)
        # Prefect logs an error with its causes, whose words may quote a person's value
        raise named from (error if os.environ.get("EVENHAND_LOG") else None)
    finally:
        verdict.seconds = {name: round(value, 3) for name, value in run.seconds.items()}
        verdict.cached = list(run.cached)
        if verdict.status != "failed" or verdict.error:
            write_verdict(store, verdict)


def up_to_date(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict | None:
    """
    Leave the verdict ``up_to_date`` if the registry has a model made from what a run would use now.

    Returns
    -------
    Verdict or None
        None if there is something to do; nothing is written then.

    Raises
    ------
    EvenhandError
        The table or the registry is out of reach, after the verdict of a failed run was written.
    """
    run = Run()
    verdict = Verdict(run_id, "failed", 4)
    with leaving_verdict(store, verdict, run):
        started = time.perf_counter()
        sources = {name: item.sha256 for name, item in engine.fetch(resolved.source()).items()}
        digest = provenance(resolved, sources, proxy_content(resolved, store))
        found = made_before(resolved, store, digest)
        run.seconds["compare"] = time.perf_counter() - started
        if found is None:
            return None  # still `failed` without an error: that verdict is not written
        verdict.status, verdict.exit_code, verdict.notes = "up_to_date", 0, [found.text]
        verdict.model = {
            "name": found.name,
            "version": found.version,
            "alias": found.alias if found.current == found.version else None,
            "uri": f"models:/{found.name}/{found.version}",
        }
    return verdict


def named_fault(error: Exception) -> NotCarriedOut:
    """One line for a disk that is full or gone, and for a fault of ours."""
    if isinstance(error, OSError) and error.strerror:
        place = f" at {error.filename}" if error.filename else ""
        return NotCarriedOut(
            f"input or output failed ({error.strerror}{place}): check the disk, then run again."
        )
    if type(error).__module__.partition(".")[0] in ("prefect", "httpx", "httpcore"):
        return NotCarriedOut(
            f"Prefect could not carry out a step ({type(error).__name__}): is its server up? "
            "`--direct` runs without Prefect."
        )
    return internal_fault(error)


def _fill(verdict: Verdict, store: Store, run: Run) -> None:
    assert run.metrics is not None
    evaluation = json.loads(store.fetch(run.metrics).read_text())
    for name, metric in evaluation["metrics"].items():
        verdict.metrics[name] = metric["value"]
        if metric["low"] is not None:
            verdict.metrics |= {f"{name}.low": metric["low"], f"{name}.high": metric["high"]}
    verdict.gates, verdict.error = run.decision, run.refusal
    if "publish" in run.records:
        verdict.model = {
            key: run.records["publish"].facts[key] for key in ("name", "version", "alias", "uri")
        }
