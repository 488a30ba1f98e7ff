"""Two thousand odd inputs: each ends with one line and no internal fault, and leaves no half result.

Those that unpack to more than a machine has use a bounded share of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.bombs import BOMBS, tried
from tests.chaos.fuzzing import COUNTS, endings, peak_memory

MEMORY_BYTES = 3_000_000_000
BOMB_MEMORY_MB = 2_500


def check(folder: Path, kind: str, numbers: range) -> None:
    """The message has the numbers of the inputs that end wrongly."""
    wrong = [ending for ending in endings(folder, kind, numbers) if ending.faults]
    assert wrong == [], "\n".join(map(str, wrong))


@pytest.mark.parametrize("kind", ["tables", "documents"])
def test_a_few_odd_inputs(kind: str, tmp_path: Path) -> None:
    check(tmp_path, kind, range(6))


@pytest.mark.long
@pytest.mark.parametrize("kind", COUNTS)
def test_all_odd_inputs_of_a_kind(kind: str, tmp_path: Path) -> None:
    check(tmp_path, kind, range(COUNTS[kind]))
    assert peak_memory() < MEMORY_BYTES


def test_the_inputs_are_two_thousand() -> None:
    assert sum(COUNTS.values()) >= 2000


@pytest.mark.long
@pytest.mark.parametrize("name", [bomb.__name__ for bomb in BOMBS])
def test_a_bomb_uses_bounded_memory(name: str) -> None:
    ended = tried(name)
    assert ended["code"] in (0, 2), ended
    assert ended["peak_memory_mb"] < BOMB_MEMORY_MB, ended
    ours = [line for line in ended["lines"] if line.startswith("evenhand: ")]
    assert len(ours) == (ended["code"] == 2), ended
    assert ended["code"] == 0 or ended["left"] == [], ended
