"""``evenhand evaluate``: judge a published model on a table, write CI's reports, give the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenhand.flows.commands.terminal import (
    Verb,
    print_end,
    print_gates,
    print_metrics,
    print_model,
    print_steps,
    run_verb,
)
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.fingerprint import now
from evenhand.tasks.store import Store

__all__ = ["Options", "evaluate_model"]

UNFINISHED = "the evaluation is not finished: it is still running, or it was killed."
OUTCOMES = {0: "passed", 1: "refused", 3: "not enough evidence for a gate"}


@dataclass(frozen=True)
class Options:
    """Options of the command, apart from where results go."""

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
    options: Options,
    *,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Evaluate, print, write the reports, and return the exit code of the verdict."""
    files, model = CiFiles(junit, markdown), without_secrets(options.model)

    def plan() -> Verb:
        from evenhand.flows.evaluate import execute, plan_evaluation

        found = plan_evaluation(
            options.model,
            options.data,
            options.gates,
            options.baseline,
            options.overrides,
            options.contract,
            record=options.record,
        )
        given = {
            "model": options.model,
            "data": options.data,
            "gates": found.gates or None,
            "baseline": options.baseline,
            "overrides": list(options.overrides),
            "contract": options.contract,
            "record": options.record,
        }
        return Verb(
            found.run_name,
            lambda store, run_id, engine: execute(found, store, run_id, engine),
            "evaluate",
            given,
        )

    verdict, store, seconds = run_verb(
        plan, as_json=as_json, store_url=store_url, direct=direct, check=lambda: files.check(model)
    )
    fault = files.write(verdict, store, model)
    if fault is not None:
        verdict.exit_code, verdict.error = 4, verdict.error or fault
    if as_json:
        print(json.dumps(verdict.to_dict()))
    elif verdict.status == "evaluated":
        _print(verdict, seconds)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


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

    return junit_of_failure(error, model=model, created=now(), properties={"run_id": run_id, "model": model})


def _print(verdict: Verdict, seconds: float) -> None:
    print_steps(verdict)
    print_metrics(verdict)
    print_gates(verdict.gates["results"])
    if verdict.gates["results"]:
        print()
    for note in verdict.notes:
        print(f"note      {note}")
    if verdict.gates["results"]:
        print(f"verdict   {OUTCOMES[verdict.exit_code]}")
    print_model("model", verdict.model)
    print_model("baseline", verdict.baseline)
    print_end(verdict, seconds)
