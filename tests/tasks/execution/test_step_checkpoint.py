from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step
from evenhand.tasks.execution.store import Store


def slow(context: StepContext) -> StepResult:
    """Counts to three over several lives: each one is killed after its first count."""
    assert context.checkpoint is not None
    file = context.checkpoint / "count"
    count = int(file.read_text()) if file.exists() else 0
    context.checkpoint.mkdir(parents=True, exist_ok=True)
    file.write_text(str(count + 1))
    if count < 2:
        raise RuntimeError("killed")
    (context.workdir / "total.json").write_text(str(count + 1))
    return StepResult({"total": (context.workdir / "total.json", "total")})


def test_a_killed_step_finds_what_it_left(tmp_path: Path) -> None:
    """Nothing stays at the end."""
    store = Store(str(tmp_path / "store"))
    step = Step("slow", slow)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="killed"):
            run_step(store, step, "a" * 64, {}, {})
    # another key is another training: it starts from nothing
    with pytest.raises(RuntimeError, match="killed"):
        run_step(store, step, "b" * 64, {}, {})
    record, cached = run_step(store, step, "a" * 64, {}, {})
    assert not cached
    assert store.fetch(record.outputs["total"]).read_text() == "3"
    left = [path.name for path in store.scratch().iterdir()]
    assert left == [f"checkpoint-slow-{'b' * 32}"]
