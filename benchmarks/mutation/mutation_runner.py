"""Run tests again and again for :mod:`benchmarks.mutation.mutation_score`, each time in a fork of this process.

The process imports pytest and the libraries once, and nothing of the checkout. A request is one
line of JSON on standard input, and its answer one line on standard output. The request names test
files, the order in which their tests run, limits of time, and the file for their output. With
``coverage`` the answer also names the lines that each test executes, and the seconds that it takes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import coverage
import pytest

MEMORY_BYTES = 16 << 30  # written memory of a test process: a mutant may ask for any amount
PRELOADED = (
    "numba",
    "pandas",
    "pyarrow.parquet",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.cluster",
    "sklearn.linear_model",
    "sklearn.tree",
    "torch",
    "xgboost",
)


class Selection:
    """A plugin of pytest: it orders the tests, and measures their lines and seconds."""

    def __init__(self, order: Sequence[str], measured: coverage.Coverage | None) -> None:
        self.position = {test: place for place, test in enumerate(order)}
        self.measured = measured
        self.seconds: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the tests; those that are not listed come last, in their own order."""
        items.sort(key=lambda item: self.position.get(item.nodeid, len(self.position)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure one test with its fixtures."""
        if self.measured:
            self.measured.switch_context(item.nodeid)
        started = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - started


def run_tests(request: dict[str, Any]) -> int:
    """Run the tests of a request in this process, up to the first failure; the exit code of
    pytest.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"] + 10))
    measured = None
    if request["coverage"]:
        measured = coverage.Coverage(
            data_file=None, include=["*/fairlib/*", "*/tasks/*"], omit=["*/tests/*"]
        )
        measured.start()
    plugin = Selection(request["order"], measured)
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *request["files"]]
    code = int(pytest.main(arguments, plugins=[plugin]))
    if measured:
        measured.stop()
        data = measured.get_data()
        lines = {
            os.path.relpath(os.path.realpath(file)): {
                line: [name for name in names if name]
                for line, names in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        with open(request["coverage"], "w") as stream:
            json.dump({"seconds": plugin.seconds, "lines": lines}, stream)
    return code


def fork(request: dict[str, Any]) -> dict[str, Any]:
    """Run the tests in a fork; the code is None if it reached a limit of time."""
    started, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        code = 4
        try:
            os.setsid()
            output = os.open(request["output"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ.update(request["environment"])
            sys.dont_write_bytecode = bool(request["environment"].get("PYTHONDONTWRITEBYTECODE"))
            code = run_tests(request)
        except BaseException:  # noqa: BLE001 - nothing of the parent's stack may run in the child
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status: int | None = None
    while time.perf_counter() - started < request["wall"]:
        done, found = os.waitpid(child, os.WNOHANG)
        if done:
            status = found
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with the processes that the tests started
    if status is None:
        os.waitpid(child, 0)
    ended = None if status is None else os.waitstatus_to_exitcode(status)
    if ended in (-signal.SIGXCPU, -signal.SIGKILL):
        ended = None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {"code": ended, "seconds": time.perf_counter() - started, "cpu": cpu}


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints while it is imported is no answer
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(fork(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
