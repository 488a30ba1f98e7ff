"""
Mutation test of the core: which small faults do the tests of ``make test`` detect?

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.mutation``. A mutant is a module with one small fault: ``<``
for ``<=``, ``+`` for ``-``, 2 for 1, a condition negated (:mod:`benchmarks.mutants`). A sample is drawn with
a seed. Each mutant is written into a copy of the checkout, where the tests of its group run. A mutant is
killed when a test fails or a limit of time is reached. The others survive: they are faults that no test of
the group detects, or changes without effect.

Finished mutants are kept in ``benchmarks/results/NAME.jsonl``: a run that was stopped goes on where it was.
``--survivors`` tests the survivors again, after tests were added. ``--root`` tests another checkout, with the
Python of its ``.venv``.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import queue
import re
import resource
import shlex
import shutil
import signal
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
from benchmarks.mutants import GROUPS, Mutant, find_files, sample_mutants

MEMORY_KIB = 16 << 20  # address space of a test process: a mutant may ask for any amount
KILLS = (-signal.SIGXCPU, -signal.SIGKILL)


@dataclass(frozen=True)
class Done:
    """Exit code of a test process (None: it reached a limit of time), its seconds and its output."""

    code: int | None
    seconds: float
    output: str

    @property
    def killer(self) -> str:
        """First test that failed, with its error."""
        failed = re.search(r"^(?:FAILED|ERROR) (.+)", self.output, re.MULTILINE)
        return "time limit" if self.code is None else failed[1] if failed else f"exit code {self.code}"


class Copy:
    """A copy of the checkout, in which one mutant at a time is tested."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python, self.scratch = folder, python, folder.with_name(f"{folder.name}-tmp")

    def run(self, tests: Sequence[str], cpu: int, wall: float, **environment: str) -> Done:
        """Run tests up to the first failure, within limits of seconds of CPU and of the clock."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        own = {"PYTHONPATH": str(self.folder), "TMPDIR": str(self.scratch), "OMP_NUM_THREADS": "1"}
        own |= {"HYPOTHESIS_STORAGE_DIRECTORY": str(self.scratch / "hypothesis"), "COLUMNS": "200"}
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["--hypothesis-seed=0", *tests]
        started = time.perf_counter()
        with (self.scratch / "output").open("w+", errors="replace") as output:
            process = subprocess.Popen(
                ["sh", "-c", f'ulimit -t {cpu} && ulimit -v {MEMORY_KIB} && exec "$@"', "sh", *command],
                cwd=self.folder,
                env={**os.environ, **own, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code: int | None = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(wall)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what the tests started
            process.wait()
            output.seek(0)
            text = output.read()
        return Done(None if code in KILLS else code, time.perf_counter() - started, text)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant, code: str) -> Iterator[None]:
        """Edit a file; afterwards restore it, and what numba compiled of it and of modules that import it."""
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
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # numba and Python compare the time
                for file in compiled_files(modules):
                    file.unlink()
                for file, place in kept:
                    place.rename(file)

    def compiled_from(self, edited: Path) -> list[Path]:
        """Modules whose compiled functions may hold code or constants of an edited module."""
        texts = {path: path.read_text() for path in self.folder.glob("fairlib/**/*.py")}
        names = {".".join(path.relative_to(self.folder).with_suffix("").parts): path for path in texts}
        imports = {
            path: {names.get(name) for name in re.findall(r"\b(fairlib[\w.]+) import", text)}
            for path, text in texts.items()
        }
        affected, size = {edited}, 0
        while len(affected) > size:
            size = len(affected)
            affected |= {path for path, imported in imports.items() if imported & affected}
        return [path for path in affected if "numba" in texts.get(path, "")]


def compiled_files(modules: Sequence[Path]) -> list[Path]:
    """Files in which numba keeps the compiled functions of some modules."""
    return [file for path in modules for file in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ci]")]


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
            raise SystemExit(f"{name} is imported from {done.stdout or done.stderr}, not from {folder}")
    return copy


class Tester:
    """Copies, one for each worker, and for each group its tests with the limits of time."""

    def __init__(self, root: Path, folder: Path, python: Path, workers: int, groups: Sequence[str]) -> None:
        first = copy_checkout(root, folder / "0", python)
        self.stages: dict[str, list[tuple[list[str], int, float]]] = {}
        for name in groups:
            for patterns in filter(None, (GROUPS[name].tests, GROUPS[name].slow_tests)):
                tests = [str(path.relative_to(root)) for path in find_files(root, patterns)]
                self.stages.setdefault(name, []).append((tests, *self.limits(first, tests)))
        self.copies: queue.Queue[Copy] = queue.Queue()
        self.copies.put(first)
        for number in range(1, workers):
            shutil.copytree(first.folder, folder / str(number), symlinks=True)
            self.copies.put(Copy(folder / str(number), python))

    def limits(self, copy: Copy, tests: Sequence[str]) -> tuple[int, float]:
        """Limits in seconds of CPU and of the clock, from a run without a fault that fills numba's caches."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = copy.run(tests, 7200, 7200)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.code != 0:
            raise SystemExit(f"tests fail without a fault: {shlex.join(tests)}\n{done.output[-5000:]}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        log(f"{done.seconds:.0f} s, {used:.0f} s of CPU: {shlex.join(tests)}")
        return int(5 * used) + 180, 10 * done.seconds + 600

    def test(self, mutant: Mutant, code: str) -> dict[str, Any]:
        """Run the tests of a mutant's group up to the first failure."""
        copy = self.copies.get()
        started, source = time.perf_counter(), (copy.folder / mutant.file).read_text()
        try:
            with copy.mutated(mutant, code):
                for tests, cpu, wall in self.stages[mutant.group]:
                    # the tests that are named for the module come first: they fail soonest
                    ordered = sorted(tests, key=lambda test: Path(mutant.file).stem not in test)
                    done = copy.run(ordered, cpu, wall, PYTHONDONTWRITEBYTECODE="1")
                    if done.code != 0:
                        break
        finally:
            self.copies.put(copy)
        changed = list(difflib.unified_diff(source.splitlines(), code.splitlines(), n=0, lineterm=""))[3:]
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
        return {"mutants": len(chosen), "killed": killed, "survived": len(chosen) - killed, "share": share}

    left_out = ("status", "killer", "seconds", "id")
    return {
        **count(results),
        "time_limits": sum(result["killer"] == "time limit" for result in results),
        "groups": {
            group: {"places": size, **count([result for result in results if result["group"] == group])}
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
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="checkout")
    parser.add_argument("--mutants", type=int, default=300, help="size of the sample")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--name", default="mutation", help="of the result")
    parser.add_argument("--survivors", action="store_true", help="test survivors again")
    parser.add_argument("--list", action="store_true", help="list the sample only")
    options = parser.parse_args()
    root = options.root.resolve()
    sample, places = sample_mutants(root, options.seed, options.mutants)
    if options.list:
        for mutant, _ in sample:
            print(f"{mutant.file}:{mutant.line}:{mutant.column} {mutant.group} {mutant.operator}")
        return
    # a mutant is known by its mutated code: a result holds while the file is unchanged
    ids = [hashlib.sha256(f"{mutant.file}\0{code}".encode()).hexdigest()[:16] for mutant, code in sample]
    kept = RESULTS / f"{options.name}.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    finished = {result["id"]: result for result in map(json.loads, lines)}
    waiting = {
        key: drawn
        for key, drawn in zip(ids, sample, strict=True)
        if key not in finished or (options.survivors and finished[key]["status"] == "survived")
    }
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder, kept.open("a") as file:
        python = root / ".venv" / "bin" / "python"
        groups = [group for group in GROUPS if any(mutant.group == group for mutant, _ in waiting.values())]
        tester = Tester(
            root, Path(folder), python if python.exists() else Path(sys.executable), options.workers, groups
        )
        with ThreadPoolExecutor(options.workers) as pool:
            tested = pool.map(lambda drawn: tester.test(*drawn), waiting.values())
            for key, result in zip(waiting, tested, strict=True):
                finished[key] = {"id": key, **result}
                file.write(json.dumps(finished[key]) + "\n")
                file.flush()
                log(f"{result['status']} {result['file']}:{result['line']} {result['killer']}")
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    content = {
        **provenance(shlex.join(["python", "-m", "benchmarks.mutation", *sys.argv[1:]])),
        "git_commit": commit.stdout.strip(),
        "seed": options.seed,
        "data": "EVENHAND_DATA" in os.environ,
        **summarise([finished[key] for key in ids], places),
    }
    write_result(options.name, content)
    print(json.dumps({key: content[key] for key in ("mutants", "killed", "share", "groups")}, indent=1))


if __name__ == "__main__":
    main()
