"""``evenhand evaluate``: judge a published model on a table, tell CI in its own forms, give the exit code."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.flows.commands.terminal import one_line_errors, progress_bars, through_prefect, verdict_of
from evenhand.flows.runtime import prepare_environment
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.progress import listen
from evenhand.tasks.store import Store

if TYPE_CHECKING:
    from evenhand.flows.evaluate_run import EvaluationJob

__all__ = ["Wish", "evaluate_model"]

HEAVY = ("pandas", "pyarrow.parquet", "sklearn.linear_model", "great_expectations", "mlflow")
UNFINISHED = "the evaluation has not come to its end: it runs still, or it was killed."


@dataclass(frozen=True)
class Wish:
    """What the command line says, apart from where results go."""

    model: str
    data: str
    gates: str | None = None
    baseline: str | None = None
    contract: str | None = None
    overrides: Sequence[str] = ()
    record: bool = True


@dataclass(frozen=True)
class CiFiles:
    """Where JUnit XML and the Markdown summary go beside the run's folder; `ready` are those found fit."""

    junit: Path | None
    markdown: Path | None
    ready: set[str] = field(default_factory=set)

    def check(self, model: str) -> None:
        """
        Refuse paths that cannot be written, and leave a JUnit report that is not green until the end.

        Raises
        ------
        InputError
            A folder that is not there, a path that is one, no permission, or one path for both.
        """
        if self.junit and self.markdown and self.junit.resolve() == self.markdown.resolve():
            raise InputError("--junit and --markdown are one path: give each a file of its own.")
        if self.junit is not None:
            _check_plain(self.junit)
            _check_writable("--junit", self.junit)
            # one left by an earlier run, perhaps green, must not speak for this one if this is killed
            try:
                self._put_junit(_failed_junit(UNFINISHED, model, ""))
            except OSError as error:
                raise InputError(
                    f"--junit {self.junit} cannot be written ({error.strerror}): choose another path."
                ) from None
            self.ready.add("junit")
        if self.markdown is not None:
            _check_writable("--markdown", self.markdown)
            self.ready.add("markdown")

    def write(self, verdict: Verdict, store: Store | None, model: str) -> str | None:
        """Write what was found fit; the line to print if that failed."""
        try:
            junit, markdown = _texts(verdict, store, model)
            if "markdown" in self.ready:
                self._append_markdown(markdown)
            if "junit" in self.ready:  # last: until all is written it says that nothing is finished
                self._put_junit(junit)
        except OSError as error:
            return f"{error.filename or 'a report'} could not be written ({error.strerror}): check the disk."
        return None

    def _put_junit(self, text: str) -> None:
        """Whole or not at all, unless it is a link: what it points to is not ours to replace by a rename."""
        assert self.junit is not None
        if self.junit.is_symlink():
            self.junit.write_text(text, encoding="utf-8")
            return
        temporary = self.junit.with_name(f".{self.junit.name}.{os.getpid()}")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.junit)
        finally:
            temporary.unlink(missing_ok=True)

    def _append_markdown(self, text: str) -> None:
        """Add to what is there: a CI system collects the summaries of many commands in one file."""
        assert self.markdown is not None
        with self.markdown.open("a", encoding="utf-8") as stream:
            apart = "\n" if self.markdown.is_file() and self.markdown.stat().st_size else ""
            stream.write(f"{apart}{text}")


def evaluate_model(
    wish: Wish,
    *,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Evaluate, print, write the reports, and return the exit code of the verdict."""
    started = time.perf_counter()
    run_id, store = "", None  # type: str, Store | None
    files, model = CiFiles(junit, markdown), without_secrets(wish.model)
    with one_line_errors() as caught:
        files.check(model)
        home = prepare_environment(store_url)
        from evenhand.flows.evaluate_run import plan_evaluation, run_name
        from evenhand.flows.run_outputs import new_run_id

        job = plan_evaluation(
            wish.model,
            wish.data,
            wish.gates,
            wish.baseline,
            wish.overrides,
            wish.contract,
            record=wish.record,
        )
        store = Store(store_url)
        run_id = new_run_id(run_name(wish.model))
        with progress_bars(quiet=as_json) as listener, listen(listener):
            _execute(wish, job, store, run_id, home, direct=direct)
    verdict = verdict_of(store, run_id, caught.error)
    fault = files.write(verdict, store, model)
    if fault is not None:
        verdict.exit_code, verdict.error = 4, verdict.error or fault
    if as_json:
        print(json.dumps(verdict.to_dict()))
    elif verdict.status == "evaluated":
        _print(verdict, time.perf_counter() - started)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


def _execute(wish: Wish, job: EvaluationJob, store: Store, run_id: str, home: Path, *, direct: bool) -> None:
    """Find everything in the cache, or start the flow."""
    from evenhand.flows.engine import CacheMiss, DirectEngine
    from evenhand.flows.evaluate_run import carry_out_evaluation

    if direct:
        carry_out_evaluation(job, store, run_id, DirectEngine(store))
        return
    if not os.environ.get("PREFECT_API_URL"):
        # nothing to compute is nothing to orchestrate: starting a server would take most of the time
        with contextlib.suppress(CacheMiss):
            carry_out_evaluation(job, store, run_id, DirectEngine(store, cached_only=True))
            return
    given = (
        wish.model,
        wish.data,
        job.gates or None,
        wish.baseline,
        list(wish.overrides),
        wish.contract,
        wish.record,
    )
    through_prefect(home, _flow, given, store, run_id)


def _flow() -> Callable[..., Any]:
    for module in HEAVY:
        importlib.import_module(module)
    from evenhand.flows.evaluate import evaluate

    return evaluate


def _check_plain(junit: Path) -> None:
    """Refuse a device or a pipe: JUnit is written twice, and /dev/stdout must stay what it is."""
    places = (junit.absolute(), junit.resolve())
    special = any(place.is_relative_to(root) for place in places for root in ("/dev", "/proc"))
    if special or (junit.exists() and not junit.is_dir() and not junit.is_file()):
        raise InputError(f"--junit {junit} is no plain file: give one.")


def _check_writable(option: str, path: Path) -> None:
    folder = path.parent
    reason = None
    if path.is_dir():
        reason = "it is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder {folder}"
    elif path.exists() and not os.access(path, os.W_OK):
        reason = "it may not be changed"
    elif not path.exists() and not os.access(folder, os.W_OK):
        reason = f"the folder {folder} may not be written"
    if reason:
        raise InputError(f"{option} {path} cannot be written ({reason}): choose another path.")


def _texts(verdict: Verdict, store: Store | None, model: str) -> tuple[str, str]:
    """The run's own files; of an evaluation that failed what says so, whatever it had written."""
    from evenhand.tasks.evaluating.markdown import markdown_of_failure

    if verdict.status == "evaluated" and store is not None:
        junit = store.read_text("runs", verdict.run_id, "junit.xml")
        markdown = store.read_text("runs", verdict.run_id, "summary.md")
        if junit is not None and markdown is not None:
            return junit, markdown
    error = verdict.error or "the evaluation left no report."
    return _failed_junit(error, model, verdict.run_id), markdown_of_failure(error, model)


def _failed_junit(error: str, model: str, run_id: str) -> str:
    from evenhand.tasks.evaluating.junit import junit_of_failure

    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return junit_of_failure(
        error, model=model, created=created, properties={"run_id": run_id, "model": model}
    )


def _print(verdict: Verdict, seconds: float) -> None:
    width = max(len(step) for step in verdict.seconds)
    for step, spent in verdict.seconds.items():
        print(f"  {step:{width}}  {'cached' if step in verdict.cached else f'{spent:6.1f} s'}")
    print()
    _print_metrics(verdict)
    print()
    for result in verdict.gates["results"]:
        word = "pass" if result["passed"] else "FAIL" if result["status"] == "ok" else "????"
        print(f"  {word}  {result['text']}")
    if verdict.gates["results"]:
        print()
    for note in verdict.notes:
        print(f"note      {note}")
    if verdict.gates["results"]:
        words = {0: "passed", 1: "refused", 3: "not enough evidence for a gate"}
        print(f"verdict   {words[verdict.exit_code]}")
    for role, model in (("model", verdict.model), ("baseline", verdict.baseline)):
        if model:
            version = f" version {model['version']}" if model["version"] is not None else ""
            print(f"{role:9} {model['name']}{version} ({model['method']})")
    print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")


def _print_metrics(verdict: Verdict) -> None:
    """Metrics with intervals; beside a baseline its own, and the difference, marked where it can be told."""
    names = [name for name in verdict.metrics if not name.endswith((".low", ".high"))]
    rows = [[name, _estimate(_metric(verdict.metrics, name), ".3f")] for name in names]
    if verdict.baseline:
        baseline, differences = verdict.baseline["metrics"], verdict.baseline["differences"]
        for row in rows:
            found = differences.get(row[0])
            row.append(_estimate({"value": baseline.get(row[0])}, ".3f") if row[0] in baseline else "")
            row.append(_estimate(found, "+.3f") + (" *" if found and _told(found) else "") if found else "")
        rows.insert(0, ["", "model", "baseline", "difference"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if verdict.baseline:
        print("\n  * the interval of the difference leaves zero out")


def _metric(metrics: Mapping[str, float | None], name: str) -> dict[str, float | None]:
    return {
        "value": metrics[name],
        "low": metrics.get(f"{name}.low"),
        "high": metrics.get(f"{name}.high"),
    }


def _estimate(metric: Mapping[str, Any], form: str) -> str:
    if metric["value"] is None:
        return "insufficient evidence"
    low, high = metric.get("low"), metric.get("high")
    shown = f"{metric['value']:{form}}"
    return shown if low is None or high is None else f"{shown}  [{low:{form}}, {high:{form}}]"


def _told(difference: Mapping[str, Any]) -> bool:
    """Whether the interval tells the difference from zero."""
    low, high = difference["low"], difference["high"]
    return low is not None and (low > 0 or high < 0)
