"""Mutation test of the core: which small faults do the tests of ``make test`` detect?

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.mutation.mutation_score``. A mutant is a module with one small
fault: ``<`` for ``<=``, ``+`` for ``-``, 2 for 1, a condition negated (:mod:`benchmarks.mutation.mutants`).
A sample is drawn with a seed. Each mutant is written into a copy of the checkout, where the tests
of its group run. A mutant is killed when a test fails or a limit of time is reached. The others
survive: they are faults that no test of the group detects, or changes without effect.

Finished mutants are kept in ``benchmarks/results/NAME.jsonl``: a run that was stopped goes on where
it was. ``--survivors`` tests the survivors again, after tests were added. ``--root`` tests another
checkout, with the Python of its ``.venv``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, log, provenance, write_result
from benchmarks.mutation.mutants import GROUPS, Mutant, find_files, sample_mutants

RUNNER = Path(__file__).with_name("mutation_runner.py")


@dataclass(frozen=True)
class Done:
    """Exit code of a test process (None: it reached a limit of time), its seconds and its
    output.
    """

    code: int | None
    seconds: float
    cpu: float
    output: str

    @property
    def killer(self) -> str:
        """First test that failed, with its error."""
        failed = re.search(r"^(?:FAILED|ERROR) (.+)", self.output, re.MULTILINE)
        return (
            "time limit" if self.code is None else failed[1] if failed else f"exit code {self.code}"
        )


@dataclass
class Baseline:
    """Tests of a group without a fault: their seconds, and the tests that execute each line of each
    file.
    """

    files: list[str]
    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def select(self, mutant: Mutant, lines: range) -> tuple[list[str], list[str]]:
        """Choose files with tests, and the order of the tests, for a mutant.

        These are the files with a test that executes one of the lines. Its tests come first, the
        fastest at the start. The lines of compiled functions and of other processes are not known:
        then all files are chosen, and those that are named for the module come first.
        """
        known = self.lines.get(mutant.file, {})
        tests = {test for line in lines for test in known.get(str(line), ())}
        order = sorted(tests, key=self.seconds.__getitem__)
        if order:
            chosen = {test.partition("::")[0] for test in order}
            return [file for file in self.files if file in chosen], order
        return sorted(self.files, key=lambda file: Path(mutant.file).stem not in file), []

    def limits(self, files: Sequence[str]) -> tuple[int, float]:
        """Limits in seconds of CPU and of the clock for the tests of some files, with time for
        compiling.
        """
        seconds = sum(
            time for test, time in self.seconds.items() if test.partition("::")[0] in files
        )
        return int(4 * seconds) + 120, 8 * seconds + 400


class Copy:
    """A copy of the checkout, in which one mutant at a time is tested."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python, self.scratch = (
            folder,
            python,
            folder.with_name(f"{folder.name}-tmp"),
        )
        self.scratch.mkdir()
        own = {"PYTHONPATH": str(folder), "TMPDIR": str(self.scratch), "OMP_NUM_THREADS": "1"}
        own |= {"HYPOTHESIS_STORAGE_DIRECTORY": str(self.scratch / "hypothesis"), "COLUMNS": "200"}
        self.runner = subprocess.Popen(
            [str(python), str(RUNNER)],
            cwd=folder,
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        files: Sequence[str],
        order: Sequence[str],
        limits: tuple[int, float],
        measured: Path | None = None,
        **environment: str,
    ) -> Done:
        """Run tests up to the first failure, within limits of seconds of CPU and of the clock."""
        for path in self.scratch.iterdir():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        output = self.scratch / "output"
        request = {
            "files": list(files),
            "order": list(order),
            "cpu": limits[0],
            "wall": limits[1],
            "coverage": str(measured) if measured else None,
            "output": str(output),
            "environment": environment,
        }
        assert self.runner.stdin is not None
        assert self.runner.stdout is not None
        print(json.dumps(request), file=self.runner.stdin, flush=True)
        answer = json.loads(self.runner.stdout.readline())
        return Done(**answer, output=output.read_text(errors="replace"))

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant, code: str) -> Iterator[None]:
        """Edit a file; afterwards restore it, and what numba compiled of it and of modules that
        import it.
        """
        path = self.folder / mutant.file
        original, times = path.read_bytes(), path.stat()
        modules = self.compiled_from(path)
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as aside:
            kept = [(file, Path(aside) / str(n)) for n, file in enumerate(compiled_files(modules))]
            for file, place in kept:
                file.rename(place)
            try:
                path.write_text(code)
                yield
            finally:
                path.write_bytes(original)
                os.utime(
                    path, ns=(times.st_atime_ns, times.st_mtime_ns)
                )  # numba and Python compare the time
                for file in compiled_files(modules):
                    file.unlink()
                for file, place in kept:
                    place.rename(file)

    def compiled_from(self, edited: Path) -> list[Path]:
        """Modules whose compiled functions may hold code or constants of an edited module."""
        texts = {path: path.read_text() for path in self.folder.glob("fairlib/**/*.py")}
        names = {
            ".".join(path.relative_to(self.folder).with_suffix("").parts): path for path in texts
        }
        imports = {
            path: {names.get(name) for name in re.findall(r"\b(fairlib[\w.]+) import", text)}
            for path, text in texts.items()
        }
        affected, size = {edited}, 0
        while len(affected) > size:
            size = len(affected)
            affected |= {path for path, imported in imports.items() if imported & affected}
        return [path for path in affected if "numba" in texts.get(path, "")]


def statement_lines(source: str, line: int) -> range:
    """Lines of the innermost statement at a line; of a statement with a body, those before the
    body.
    """
    found = range(line, line + 1)
    size = len(source)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        lines = range(node.lineno, max(end, node.lineno) + 1)
        if line in lines and len(lines) < size:
            found, size = lines, len(lines)
    return found


def compiled_files(modules: Sequence[Path]) -> list[Path]:
    """Files in which numba keeps the compiled functions of some modules."""
    return [
        file
        for path in modules
        for file in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ci]")
    ]


def copy_checkout(root: Path, folder: Path, python: Path) -> Copy:
    """Copy tracked and new files and numba's caches, importable under the names of the checkout."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
    )
    names = listed.stdout.decode().split("\0")[:-1]
    for path in [*map(root.joinpath, names), *root.glob("fairlib/**/__pycache__/*.nb[ci]")]:
        if path.is_file():
            place = folder / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
    copy = Copy(folder, python)
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    # checkouts before import names began with evenhand have no package-dir
    for name, place in (settings.get("package-dir") or {"fairlib": "fairlib"}).items():
        *parents, last = name.split(".")
        if parents:
            (folder.joinpath(*parents)).mkdir(parents=True, exist_ok=True)
            folder.joinpath(*parents, last).symlink_to(Path(*[".."] * len(parents), place))
        code = f"import {name}; print({name}.__file__)"
        done = subprocess.run(
            [python, "-c", code],
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
        )
        if not done.stdout.startswith(str(folder)):
            raise SystemExit(
                f"{name} is imported from {done.stdout or done.stderr}, not from {folder}"
            )
    return copy


class Tester:
    """Copies, one for each worker, and for each group its tests with their measurements."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        python: Path,
        workers: int,
        groups: Sequence[str],
        quick: bool,
    ) -> None:
        first = copy_checkout(root, folder / "0", python)
        self.stages: dict[str, list[Baseline]] = {}
        for name in groups:
            for patterns in filter(
                None, (GROUPS[name].tests, () if quick else GROUPS[name].slow_tests)
            ):
                files = [str(path.relative_to(root)) for path in find_files(root, patterns)]
                self.stages.setdefault(name, []).append(
                    self.measure(first, files, folder / "lines.json")
                )
        self.copies: queue.Queue[Copy] = queue.Queue()
        self.copies.put(first)
        for number in range(1, workers):
            shutil.copytree(first.folder, folder / str(number), symlinks=True)
            self.copies.put(Copy(folder / str(number), python))

    def measure(self, copy: Copy, files: list[str], measured: Path) -> Baseline:
        """Run tests without a fault, measured, which also fills numba's caches."""
        done = copy.run(files, [], (7200, 7200), measured)
        if done.code != 0:
            raise SystemExit(
                f"tests fail without a fault: {shlex.join(files)}\n{done.output[-5000:]}"
            )
        log(f"{done.seconds:.0f} s, {done.cpu:.0f} s of CPU: {shlex.join(files)}")
        return Baseline(files, **json.loads(measured.read_text()))

    def test(self, mutant: Mutant, code: str) -> dict[str, Any]:
        """Run the tests of a mutant's group that reach it, up to the first failure."""
        copy = self.copies.get()
        started, source = time.perf_counter(), (copy.folder / mutant.file).read_text()
        lines = statement_lines(source, mutant.line)
        try:
            with copy.mutated(mutant, code):
                for baseline in self.stages[mutant.group]:
                    files, order = baseline.select(mutant, lines)
                    limits = baseline.limits(files if order else baseline.files)
                    done = copy.run(files, order, limits, PYTHONDONTWRITEBYTECODE="1")
                    if done.code != 0:
                        break
        finally:
            self.copies.put(copy)
        changed = list(
            difflib.unified_diff(source.splitlines(), code.splitlines(), n=0, lineterm="")
        )[3:]
        return {
            **asdict(mutant),
            "changed": changed,
            "status": "survived" if done.code == 0 else "killed",
            "killer": None if done.code == 0 else done.killer,
            "seconds": round(time.perf_counter() - started, 1),
        }


def summarise(results: Sequence[Mapping[str, Any]], places: Mapping[str, int]) -> dict[str, Any]:
    """Killed share in all and by group, and the survivors."""

    def count(chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        killed = sum(result["status"] == "killed" for result in chosen)
        share = round(killed / len(chosen), 4) if chosen else None
        return {
            "mutants": len(chosen),
            "killed": killed,
            "survived": len(chosen) - killed,
            "share": share,
        }

    left_out = ("status", "killer", "seconds", "id")
    return {
        **count(results),
        "time_limits": sum(result["killer"] == "time limit" for result in results),
        "groups": {
            group: {
                "places": size,
                **count([result for result in results if result["group"] == group]),
            }
            for group, size in places.items()
        },
        "survivors": [
            {key: value for key, value in result.items() if key not in left_out}
            for result in sorted(
                results, key=lambda result: (result["file"], result["line"], result["column"])
            )
            if result["status"] == "survived"
        ],
    }


def main() -> None:
    """Test a sample of mutants and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[2], help="checkout"
    )
    parser.add_argument("--mutants", type=int, default=300, help="size of the sample")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--name", default="mutation", help="of the result")
    parser.add_argument("--survivors", action="store_true", help="test survivors again")
    parser.add_argument("--quick", action="store_true", help="leave out the groups' slow tests")
    parser.add_argument(
        "--finished", action="store_true", help="keep the result of what was tested so far"
    )
    parser.add_argument("--list", action="store_true", help="list the sample only")
    options = parser.parse_args()
    root = options.root.resolve()
    sample, places = sample_mutants(root, options.seed, options.mutants)
    if options.list:
        for mutant, _ in sample:
            print(f"{mutant.file}:{mutant.line}:{mutant.column} {mutant.group} {mutant.operator}")
        return
    # a mutant is known by its mutated code: a result holds while the file is unchanged
    ids = [
        hashlib.sha256(f"{mutant.file}\0{code}".encode()).hexdigest()[:16]
        for mutant, code in sample
    ]
    kept = RESULTS / f"{options.name}.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    finished = {result["id"]: result for result in map(json.loads, lines)}
    waiting = {
        key: drawn
        for key, drawn in zip(ids, sample, strict=True)
        if key not in finished or (options.survivors and finished[key]["status"] == "survived")
    }
    if options.finished:
        waiting = {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder, kept.open("a") as file:
        python = root / ".venv" / "bin" / "python"
        groups = [
            group
            for group in GROUPS
            if any(mutant.group == group for mutant, _ in waiting.values())
        ]
        own = python if python.exists() else Path(sys.executable)
        tester = Tester(root, Path(folder), own, options.workers, groups, options.quick)
        with ThreadPoolExecutor(options.workers) as pool:
            tested = pool.map(lambda drawn: tester.test(*drawn), waiting.values())
            for key, result in zip(waiting, tested, strict=True):
                finished[key] = {"id": key, **result}
                file.write(json.dumps(finished[key]) + "\n")
                file.flush()
                log(f"{result['status']} {result['file']}:{result['line']} {result['killer']}")
    commit = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    content = {
        **provenance(
            shlex.join(["python", "-m", "benchmarks.mutation.mutation_score", *sys.argv[1:]])
        ),
        "git_commit": commit.stdout.strip(),
        "seed": options.seed,
        "slow_tests": not options.quick,
        "data": "EVENHAND_DATA" in os.environ,
        "drawn": len(ids),
        **summarise([finished[key] for key in ids if key in finished], places),
    }
    write_result(options.name, content)
    print(
        json.dumps(
            {key: content[key] for key in ("mutants", "killed", "share", "groups")}, indent=1
        )
    )


if __name__ == "__main__":
    main()
