"""Parts of a proxy's steps: strata, progress, the guard against its own attribute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.steps.learn_proxy_step import learn_proxy
from evenhand.tasks.steps.measure_proxy_step import measure_proxy
from evenhand.tasks.steps.preprocess_step import group_strata
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
        names=names,
        groups={name: [position] for position, name in enumerate(names)},
        sensitive={"g": member},
        numbers={"v": rng.normal(size=ROWS)},
    )
    write_dataset(folder, data, dict.fromkeys(names, "standard"))
    return folder


def context(
    folder: Path, inputs: dict[str, Path], parameters: dict[str, Any], seen: list[Any]
) -> StepContext:
    folder.mkdir()
    return StepContext(parameters, inputs, folder, lambda *given: seen.append(given))


def test_crossed_groups_are_the_strata() -> None:
    strata = group_strata({"a": np.array(list("ppqqppqq")), "b": np.array(list("rsrsrsrs"))})
    assert len(set(strata.tolist())) == 4
    np.testing.assert_array_equal(strata[:4], strata[4:])


@pytest.mark.parametrize(
    ("values", "sizes"),
    [("aaabb", [2, 3]), ("aaabbc", [2, 4]), ("aaabbcd", [2, 2, 3]), ("abcd", [4]), ("a", [1])],
)
def test_rows_that_are_alone_in_their_group_share_a_stratum(values: str, sizes: list[int]) -> None:
    found = group_strata({"z": np.array(list(values))})
    assert sorted(np.unique(found, return_counts=True)[1].tolist()) == sizes


def test_a_proxy_may_not_see_its_own_attribute(tmp_path: Path) -> None:
    train = dataset(tmp_path / "train", names=("a", "g"))
    given = context(
        tmp_path / "work", {"train": train}, {"method": "proxy", "arguments": {}, "seed": 0}, []
    )
    with pytest.raises(InputError, match="its own attribute 'g'"):
        learn_proxy(given)


def test_progress_counts_the_splits_that_can_still_come(tmp_path: Path) -> None:
    seen: list[Any] = []
    arguments = {"alpha": 0.2, "progress": 0.02, "tolerance": 0.01, "min_leaf": 5.0}
    parameters = {"method": "proxy", "arguments": arguments, "seed": 0}
    train = dataset(tmp_path / "train")
    done = learn_proxy(context(tmp_path / "work", {"train": train}, parameters, seen))
    proxy = ProxyTree.load(done.outputs["proxy"][0])
    assert [splits for splits, _, _ in seen] == list(range(1, len(proxy.masses_)))
    assert len(seen) > 1
    for splits, total, values in seen:
        # the splits that are left bring it to the tolerance, and one less would not
        left = total - splits
        assert values["imbalance"] * 0.98**left <= 0.01 * (1 + 1e-9)
        assert values["imbalance"] * 0.98 ** (left - 1) > 0.01 * (1 - 1e-9) or left == 0


def measured(
    folder: Path, min_cell: int, *, group: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
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
