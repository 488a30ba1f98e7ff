"""Made-up encoded rows, and steps that are run on them alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.execution.dataset import Dataset, matrix_table, write_block, write_targets
from evenhand.tasks.execution.step import StepContext

RULE = {"threshold": None, "rate": None, "costs": None, "equal": None}
EQUAL = {"criterion": "equalized_odds", "tolerance": 0.05, "attribute": "sex"}
SEX: dict[str, Any] = {"name": "sex", "bins": None, "names": []}
DECIDING = {"calibration": "auto", "decision": RULE, "seed": 0}


def encoded(n: int = 600, seed: int = 0, groups: NDArray[Any] | None = None) -> Dataset:
    """Rows of which the first column, the sensitive one, tells most, and the second some."""
    rng = np.random.default_rng(seed)
    sex = (rng.random(n) < 0.5).astype(np.float32)
    X = np.column_stack([sex, rng.normal(size=(n, 2))]).astype(np.float32)
    y = (rng.random(n) < expit(3 * sex - 1.5 + X[:, 1])).astype(np.int64)
    names = ["sex", "skill", "noise"]
    return Dataset(
        X,
        y,
        np.arange(n),
        names,
        {name: [j] for j, name in enumerate(names)},
        {"sex": np.where(sex > 0, "M", "F") if groups is None else groups},
        {},
    )


def held_out(n: int = 400, shift: float = 0.0, seed: int = 0) -> HeldOut:
    """Held-out rows with calibrated probabilities, but for a shift of their log-odds."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 2, n)
    label = (rng.random(n) < p).astype(np.int64)
    return HeldOut(np.arange(n), label, expit(logit(p) + shift), shift)


def write_dataset(folder: Path, data: Dataset, kinds: dict[str, str]) -> None:
    """Write the rows as `preprocess` does."""
    write_block(matrix_table(data.X, data.names, data.groups, kinds), folder / "X", 0)
    write_targets(folder, data.y, data.rows, data.sensitive, data.numbers)


def context(folder: Path, parameters: dict[str, Any], data: Dataset, **inputs: Path) -> StepContext:
    """The context of a step whose input `train` are these rows."""
    workdir = folder / f"work-{len(list(folder.glob('work-*')))}"
    workdir.mkdir(parents=True)
    if not (folder / "train").exists():
        write_dataset(folder / "train", data, {})
    given = {"train": folder / "train", **inputs}
    return StepContext(parameters, given, workdir, lambda done, total, values: None)
