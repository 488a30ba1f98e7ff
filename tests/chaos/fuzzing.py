"""Odd inputs, one after another in one process: how each ends, and what is wrong with that.

`python -m tests.chaos.fuzzing KIND [--first N] [--count N]` tries some of a kind and prints what is
wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from tests.chaos.attempts import attempt, make_folder
from tests.chaos.fuzz import (
    Case,
    archive_case,
    document_case,
    folder_case,
    gates_case,
    predict_case,
    table_case,
)
from tests.chaos.odd_server import answer_case, odd_server
from tests.flows.people import JOB

# Inputs of each kind; they are 2,000.
COUNTS = {
    "tables": 750,
    "documents": 600,
    "predictions": 200,
    "gates": 150,
    "folders": 100,
    "archives": 120,
    "answers": 80,
}
LEFT = {"people.csv", "people.yaml", "people.contract.yaml", "loop.csv", "loop.yaml", "store"}
# Exit codes that the documentation gives a meaning for a wrong input; 3 is too little evidence for
# a gate. A server that does not answer is no wrong input.
CODES = {0, 1, 2, 3}
LONGEST_LINE = 1100
DRAWN = '<svg width="1" height="1" viewBox="0 0 1 1"></svg>'
MAX_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Ending:
    """How one input ended."""

    number: int
    code: int
    seconds: float
    line: str
    faults: tuple[str, ...]


class Bench:
    """A folder in which inputs of a kind are tried, with a model if the kind needs one."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder / "w"
        self.kind = kind
        make_folder(self.folder)
        if kind in ("predictions", "folders", "archives", "gates"):
            code, _, err = attempt(self.folder, {"command": ["run", "people.yaml", "--direct"]})
            assert code == 0, err
        self.left = LEFT

    @contextlib.contextmanager
    def case_maker(self) -> Iterator[Callable[[int], Case]]:
        """The function from numbers to cases, while the block runs."""
        if self.kind == "answers":
            with odd_server((self.folder / "people.csv").read_bytes()) as address:
                yield partial(answer_case, address=address)
        elif self.kind == "folders":
            yield partial(folder_case, model=self._model())
        elif self.kind == "archives":
            yield partial(archive_case, archive=self._archive())
        else:
            makers: dict[str, Callable[[int], Case]] = {
                "tables": table_case,
                "documents": document_case,
                "predictions": predict_case,
                "gates": gates_case,
            }
            yield makers[self.kind]

    def _model(self) -> Path:
        (described,) = (self.folder / "store").glob("mlflow-artifacts/**/MLmodel")
        return described.parent

    def _archive(self) -> bytes:
        name = f"models:/{JOB['name']}@champion"
        command = ["export", name, "--to", "bundle", "--output", "model.zip"]
        code, _, err = attempt(self.folder, {"command": command})
        assert code == 0, err
        path = self.folder / "model.zip"
        content = path.read_bytes()
        path.unlink()
        return content

    def end(self, number: int, case: Case) -> Ending:
        """Try one input."""
        started = time.perf_counter()
        code, out, err = attempt(self.folder, case)
        seconds = time.perf_counter() - started
        lines = err.strip().splitlines()
        faults = [*self._faults_of_text(code, out, err), *self._faults_of_files(code)]
        last = lines[-1] if lines else ""
        return Ending(number, code, round(seconds, 3), last[:300], tuple(faults))

    def _faults_of_text(self, code: int, out: str, err: str) -> Iterator[str]:
        if code not in CODES:
            yield f"exit code {code}"
        if "Traceback" in err or "Traceback" in out:
            yield "a traceback"
        if "internal fault" in err or "internal fault" in out:
            yield "an internal fault"
        lines = err.strip().splitlines()
        if code == 2 and not lines:
            yield "no reason is given"
        for line in lines:
            if not line.startswith("evenhand: "):
                yield f"a line of others: {line[:200]!r}"
            if not line.isprintable():
                yield "a line that a terminal obeys"
            if len(line) > LONGEST_LINE:
                yield f"a line of {len(line)} characters"
        if any(not (letter.isprintable() or letter in "\n\t") for letter in out):
            yield "output that a terminal obeys"

    def _faults_of_files(self, code: int) -> Iterator[str]:
        """What a command has left that it should not have."""
        output = self.folder / "out"
        if code != 0 and output.exists():
            made = [path for path in output.rglob("*") if path.is_file()]
            half = [path.name for path in made if path.parent.name != "_evenhand"]
            if half:
                yield f"half-written: {half}"
        shutil.rmtree(output, ignore_errors=True)
        for path in sorted(self.folder.iterdir()):
            if path.name not in LEFT:
                yield f"left: {path.name!r}"
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for place in ("tmp", "leases"):
            for path in sorted((self.folder / "store").glob(f"{place}/*")):
                yield f"left in the store: {place}/{path.name}"
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for outside in (self.folder.parent / "pwned", Path("/tmp/pwned")):
            if outside.exists():
                yield f"written outside: {outside}"


def endings(folder: Path, kind: str, numbers: range) -> Iterator[Ending]:
    """Try the inputs with these numbers."""
    import typer.main

    with contextlib.ExitStack() as stack:
        for name, replacement in (
            # drawing takes most of a run's time, and Typer makes its command anew for every call
            ("evenhand.tasks.pages.build._svg", lambda chart, form: DRAWN),
            ("typer.testing._get_command", cache(typer.main.get_command)),
            # progress depends on how fast the machine is
            ("evenhand.flows.commands.terminal.EVERY_S", 3600.0),
            ("evenhand.flows.commands.terminal.NEW_STEPS_S", 3600.0),
            ("evenhand.tasks.sources.fetching.STALL_S", MAX_TIMEOUT_S),
            ("evenhand.tasks.sources.fetching.LARGEST_DOWNLOAD", 100 << 20),
        ):
            stack.enter_context(mock.patch(name, replacement))
        bench = Bench(folder, kind)
        case_of = stack.enter_context(bench.case_maker())
        for number in numbers:
            yield bench.end(number, case_of(number))


def peak_memory() -> int:
    """Largest memory that this process has used, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def summary(kind: str, ended: list[Ending], seconds: float) -> dict[str, Any]:
    """What a result keeps of the inputs of a kind."""
    codes = {}
    for code in sorted({item.code for item in ended}):
        codes[str(code)] = sum(item.code == code for item in ended)
    return {
        "inputs": len(ended),
        "exit_codes": codes,
        "faults": [f"{item.number}: {item.faults[0]}" for item in ended if item.faults],
        "cpu_s": round(seconds, 1),
        "slowest_s": max((item.seconds for item in ended), default=0.0),
        "peak_memory_mb": peak_memory() // 1_000_000,
    }


def main() -> None:
    """Try the inputs of a kind, print the faults, and perhaps write a summary."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(COUNTS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    count = COUNTS[options.kind] if options.count is None else options.count
    ended = []
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for ending in endings(
            Path(folder), options.kind, range(options.first, options.first + count)
        ):
            ended.append(ending)
            if ending.faults or options.verbose:
                texts = [ending.number, ending.code, ending.seconds, ending.line, *ending.faults]
                sys.stdout.write(" ".join(map(str, texts)) + "\n")
                sys.stdout.flush()
    document = summary(options.kind, ended, time.process_time() - started)
    if options.summary:
        options.summary.write_text(json.dumps(document))
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
