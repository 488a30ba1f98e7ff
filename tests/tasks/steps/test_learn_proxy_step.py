"""Parts of a proxy's steps: strata, progress, the guard against its own attribute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.tasks.errors import InputError
from evenhand.tasks.steps.learn_proxy_step import learn_proxy
from evenhand.tasks.steps.preprocess_step import group_strata
from tests.tasks.proxy_steps import context, dataset


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
