"""Eight runs at once, and a garbage collector: all succeed, with the artifacts of a run alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.kill_points import PUBLISHED, artifacts, attempt, empty_registry, make_bench

RUNS = 8


@pytest.mark.long
def test_eight_runs_and_a_garbage_collector(tmp_path: Path) -> None:
    registry = empty_registry(tmp_path / "empty.db")
    alone, folder = make_bench(tmp_path / "alone", registry), make_bench(tmp_path / "w", registry)
    first = attempt(alone)
    with ThreadPoolExecutor(RUNS + 1) as pool:
        running = [pool.submit(attempt, folder) for _ in range(RUNS)]
        collected = 0
        while not all(run.done() for run in running):
            done = attempt(folder, "cache", "gc", "--keep", "0")
            assert (done.code, done.err) == (0, "")
            collected += 1
    assert collected > 0
    last = attempt(folder)
    for run in [*(item.result() for item in running), last]:
        assert (run.code, run.err) == (0, "")
        assert json.loads(run.out)["metrics"] == json.loads(first.out)["metrics"]
    assert last.registry == PUBLISHED
    assert artifacts(folder / "store") == artifacts(alone / "store")
