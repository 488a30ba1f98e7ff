from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.transport.problem import TransportPlan


@pytest.fixture(scope="session")
def raw_files() -> Callable[[str], dict[str, Path]]:
    """Local copies of a recipe's raw files: skipped on a user's machine without them, a failure in
    CI.
    """

    def find(table: str) -> dict[str, Path]:
        folder = os.environ.get("EVENHAND_DATA")
        names = [raw.name for raw in RECIPES[table].files]
        found = {name: next(Path(folder).rglob(name), None) for name in names} if folder else {}
        files = {name: path for name, path in found.items() if path is not None}
        lacking = [name for name in names if name not in files]
        if not lacking:
            return files
        reason = f"EVENHAND_DATA {f'lacks {lacking[0]}' if folder else 'is not set'}: the raw files are needed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    return find


@pytest.fixture(scope="session")
def people() -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(X, y, group): the first column is the group, the others carry the label and some of the
    group.
    """

    def draw(n: int = 200, seed: int = 0, d: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, n)
        X = rng.normal(size=(n, d))
        X[:, 0] = group
        X[:, 1] += group
        y = (X[:, 1] + X[:, 2] - 0.5 + 0.5 * rng.normal(size=n) > 0.5).astype(int)
        return X.astype(np.float32), y, np.where(group == 1, "violet", "orange")

    return draw


@pytest.fixture(scope="session")
def transport_instance() -> Callable[..., dict[str, Any]]:
    """Small problems of every awkward kind: ties, equal rows, zero losses, one label, any
    budget.
    """

    def draw(seed: int, classes: int = 2) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 41)) if seed % 7 == 0 else int(rng.integers(2, 21))
        d = int(rng.integers(1, 5))
        points = (
            rng.integers(0, 4, (n, d)).astype(float) if seed % 3 == 0 else rng.normal(size=(n, d))
        )
        if seed % 4 == 1:  # equal rows, which may still differ in loss
            points = points[rng.integers(0, max(1, n // 2), n)]
        losses = rng.exponential(size=(classes, n))
        if seed % 5 == 1:  # few distinct losses, as after a few trees
            losses = np.round(losses * 2) / 2
        if seed % 11 == 3:
            losses[:] = 0.0
        labels = rng.integers(0, classes, n) if seed % 6 else np.full(n, seed % classes)
        spread = float(np.square(points[:, None] - points[None]).sum(-1).mean())
        budget = [
            0.0,
            1e-6,
            0.01 * spread,
            0.2 * spread,
            rng.random() * spread,
            1e3 * (spread + 1),
        ][int(rng.integers(0, 6))]
        costs = np.square(points[:, None, :] - points[None, :, :]).sum(axis=2)
        return {
            "points": points,
            "labels": labels,
            "losses": losses,
            "budget": float(budget),
            "costs": costs,
            "gains": losses[labels].T,  # (i, j): loss of column j's label at row i
        }

    return draw


@pytest.fixture(scope="session")
def transport_matrix() -> Callable[[TransportPlan], np.ndarray]:
    """All n x n entries of a plan that moves whole columns and at most one divided one."""

    def write(plan: TransportPlan) -> np.ndarray:
        n = len(plan.target)
        matrix = np.zeros((n, n))
        matrix[plan.target, np.arange(n)] = 1 / n
        if plan.split is not None:
            column, row, share = plan.split
            matrix[plan.target[column], column] -= share / n
            matrix[row, column] += share / n
        return matrix

    return write
