"""Which samples of the loans the benchmark measures."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.reproductions import dadi_paper


@pytest.mark.parametrize(
    ("kept", "measured"), [([], [0, 1, 2]), (["old"], [1, 2]), (["old"] * 3, [0, 1, 2])]
)
def test_interrupted_parts_continue_and_complete_ones_restart(
    kept: list[Any], measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    replaced: dict[str, Any] = {
        "SEEDS": 3,
        "loans": lambda seed: seen.append(seed),
        "split": lambda *_: [([], [])],
        "fit": lambda *_: None,
        "asked": lambda *_: {"selected": {}, "x10_by_x9": []},
        "save": lambda *_: None,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(dadi_paper, name, value)
    content = {"seeds": list(kept)}
    dadi_paper.loans_part(content)
    assert seen == measured
    assert [seed == "old" for seed in content["seeds"]] == [
        seed not in measured for seed in range(3)
    ]
