"""A disk that is full at any moment: one line, exit code 4, nothing half-written; the next run goes
on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.kill_points import (
    PUBLISHED,
    artifacts,
    attempt,
    collect_garbage,
    empty_registry,
    make_bench,
    temporaries,
)

SHARES = (0.35, 0.45, 0.6, 0.8, 0.9, 0.97)


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory, whose size a test may change."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=False)
    if done.returncode:
        pytest.skip("a small file system needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.long
def test_a_disk_that_is_full(small_disk: Path, tmp_path: Path) -> None:
    registry = empty_registry(tmp_path / "empty.db")
    folder = make_bench(small_disk / "w", registry)
    begun = used(folder)
    assert attempt(folder).code == 0
    whole, needed = artifacts(folder / "store"), used(folder)
    for share in SHARES:
        shutil.rmtree(folder)
        make_bench(folder, registry)
        # blocks of files and folders take more than their bytes
        size = int(begun + share * (needed - begun) * 1.35)
        subprocess.run(["mount", "-o", f"remount,size={size}", small_disk], check=True)
        done = attempt(folder)
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        if done.code == 0:
            assert share > 0.8, "the disk was not full"
            continue
        assert done.code == 4, (share, done.out, done.err)
        assert len(done.err.splitlines()) == 1, done.err
        assert done.err.startswith("evenhand: ")
        assert "internal fault" not in done.err
        for path in [*folder.glob("store/steps/*/*.json"), *folder.glob("store/runs/*/*.json")]:
            json.loads(path.read_text())
        again = attempt(folder)
        assert (again.code, again.err, again.registry) == (0, "", PUBLISHED)
        assert artifacts(folder / "store") == whole
        collect_garbage(folder)
        assert temporaries(folder) == []
