"""Made-up rows of three groups, and a proxy that is learned from them and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.steps.learn_proxy_step import learn_proxy
from evenhand.tasks.steps.measure_proxy_step import measure_proxy
from tests.tasks.steps_of_rows import write_dataset

ROWS = 400


def dataset(
    folder: Path, *, group: Any = None, names: tuple[str, ...] = ("a", "b"), seed: int = 0
) -> Path:
    """Rows of two features: the first is high in group x, the second in group z."""
    rng = np.random.default_rng(seed)
    member = rng.choice(["x", "y", "z"], ROWS, p=[0.2, 0.65, 0.15]) if group is None else group
    X = rng.normal(size=(ROWS, 2)).astype(np.float32)
    X[:, 0] += 1.2 * (member == "x")
    X[:, 1] += 1.2 * (member == "z")
    data = Dataset(
        X=X,
        y=rng.integers(0, 2, ROWS),
        rows=np.arange(ROWS),
        names=list(names),
        groups={name: [position] for position, name in enumerate(names)},
        sensitive={"g": member},
        numbers={"v": rng.normal(size=ROWS)},
    )
    write_dataset(folder, data, dict.fromkeys(names, "standard"))
    return folder


def context(
    folder: Path, inputs: dict[str, Path], parameters: dict[str, Any], seen: list[Any]
) -> StepContext:
    """The context of a step; `seen` gets its reports of progress."""
    folder.mkdir()
    return StepContext(parameters, inputs, folder, lambda *given: seen.append(given))


def measured(
    folder: Path, min_cell: int, *, group: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Documents ``metrics`` and ``balance`` of a proxy; `group` are the test rows' groups."""
    train, test = dataset(folder / "train"), dataset(folder / "test", seed=1, group=group)
    parameters: dict[str, Any] = {
        "method": "proxy",
        "arguments": {"alpha": 0.2, "progress": 0.02, "min_leaf": 5.0},
        "seed": 0,
    }
    proxy = learn_proxy(context(folder / "learn", {"train": train}, parameters, [])).outputs[
        "proxy"
    ][0]
    parameters = {
        "evaluate": {"draws": 20, "level": 0.9, "min_cell": min_cell},
        "method": "proxy",
        "seed": 0,
    }
    inputs = {"proxy": proxy, "train": train, "test": test}
    done = measure_proxy(context(folder / "measure", inputs, parameters, []))
    metrics, balance = (
        json.loads(done.outputs[name][0].read_text()) for name in ("metrics", "balance")
    )
    return metrics, balance
