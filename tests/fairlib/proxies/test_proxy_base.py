"""Saved proxies: the same acceptance to the bit, nobody's data, and the registry that reads
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.methods.registry import PROXIES, load_proxy, proxy_class
from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.saved_proxy import read_saved_proxy
from evenhand.fairlib.proxies.tree import ProxyTree


def people(n: int = 300, seed: int = 0, features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features)).astype(np.float32)
    scores = (
        X[:, :1] * np.array([-1.0, 0.0, 1.5]) - np.array([0, 0.8, 1.6]) + rng.gumbel(size=(n, 3))
    )
    return X, np.array(["ash", "birch", "cedar"])[scores.argmax(axis=1)]


def train(name: str, X: np.ndarray, group: np.ndarray, **arguments: Any) -> BalancingProxy:
    kind = proxy_class(name)
    if kind is ProxyTree:
        arguments = {"alpha": 0.1, "tolerance": 0.02, "max_height": 2} | arguments
    elif PROXIES[name].fixed["model"] == "tree":
        arguments = {"max_depth": 3} | arguments
    return kind(**PROXIES[name].fixed, **arguments).fit(X, sensitive_features={"wood": group})


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", sorted(PROXIES))
def test_a_loaded_proxy_accepts_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    X, group = people()
    target = {"wood": {"ash": 0.2, "birch": 0.3, "cedar": 0.5}}
    extra = {} if proxy_class(name) is ProxyTree else {"mixing": 0.25}
    proxy = train(name, X, group, target=target, **extra)
    assert len(proxy.masses_) > 1
    proxy.save(tmp_path / "proxy")
    fresh = people(1000, seed=1)[0]
    saved = read_saved_proxy(tmp_path / "proxy")
    np.testing.assert_array_equal(saved.acceptance, proxy.acceptance_)
    np.testing.assert_array_equal(saved.masses, proxy.masses_)
    np.testing.assert_array_equal(saved.graph.coefficients, proxy.graph_.coefficients)
    for loaded in (load_proxy(tmp_path / "proxy"), type(proxy).load(tmp_path / "proxy")):
        assert type(loaded) is type(proxy)
        np.testing.assert_array_equal(loaded.acceptance(fresh), proxy.acceptance(fresh))
        np.testing.assert_array_equal(loaded.shares(fresh), proxy.shares(fresh))
        for fact in (
            "base_rates_",
            "target_",
            "masses_",
            "compositions_",
            "acceptance_",
            "shares_",
        ):
            np.testing.assert_array_equal(getattr(loaded, fact), getattr(proxy, fact))
        assert loaded.get_params() == proxy.get_params()
        assert loaded.group_names_ == {"wood": ["ash", "birch", "cedar"]}
        assert loaded.training_rows_ == 300
        assert getattr(loaded, "distances_", None) == getattr(proxy, "distances_", None)
        rows = np.array([30.0, 20.0, 10.0, 1.0, 1.0, 1.0, 1.0])[: len(proxy.masses_)]
        tallies = rows[:, None] * np.array([0.5, 0.25, 0.25])
        for mine, theirs in zip(
            loaded.relabelled(rows, tallies), proxy.relabelled(rows, tallies), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
        with pytest.raises(ValueError, match="3 features"):
            loaded.acceptance(fresh[:, :3])


def test_a_tree_without_a_split_comes_back_with_its_least_alpha(tmp_path: Path) -> None:
    X, group = people(120)
    proxy = ProxyTree(alpha=0.0).fit(X, sensitive_features={"wood": group})
    assert proxy.least_alpha_ is not None
    proxy.save(tmp_path)
    loaded = ProxyTree.load(tmp_path)
    assert loaded.least_alpha_ == proxy.least_alpha_
    np.testing.assert_array_equal(loaded.acceptance(X), 1.0)


@pytest.mark.parametrize("name", sorted(PROXIES))
def test_saving_again_writes_the_same_bytes(name: str, tmp_path: Path) -> None:
    train(name, *people()).save(tmp_path / "first")
    load_proxy(tmp_path / "first").save(tmp_path / "second")
    assert files(tmp_path / "first") == files(tmp_path / "second")
    assert set(files(tmp_path / "first")) == {"proxy.json", "graph.safetensors"}


@pytest.mark.parametrize("name", sorted(PROXIES))
def test_size_does_not_grow_with_the_training_rows(name: str, tmp_path: Path) -> None:
    sizes = []
    for n in (300, 3000):
        train(name, *people(n, features=10)).save(tmp_path / str(n))
        sizes.append(sum(len(content) for content in files(tmp_path / str(n)).values()))
    # three nodes of at most 15 halfspaces in 10 features, or seven of one; the rows alone are
    # 120,000 bytes
    assert max(sizes) < 10_000


@pytest.mark.parametrize("name", sorted(PROXIES))
def test_no_row_or_persons_group_is_in_a_saved_proxy(name: str, tmp_path: Path) -> None:
    X, group = people()
    proxy = train(name, X, group)
    proxy.save(tmp_path)
    content = b"".join(files(tmp_path).values())
    for row in X:
        for kind in (np.float32, np.float64):
            for value in row.astype(kind):
                assert value.tobytes() not in content
                assert repr(float(value)).encode() not in content
    # the names of the groups, and where they stand, once
    text = (tmp_path / "proxy.json").read_text()
    assert text.count("cedar") == 1


def test_a_proxy_of_an_earlier_version_loads(tmp_path: Path) -> None:
    """It has more parameters."""
    X, group = people()
    proxy = train("proxy", X, group)
    proxy.save(tmp_path)
    content = json.loads((tmp_path / "proxy.json").read_text())
    content["parameters"]["oracle"] = None
    (tmp_path / "proxy.json").write_text(json.dumps(content))
    np.testing.assert_array_equal(load_proxy(tmp_path).acceptance(X), proxy.acceptance(X))


def test_names_of_features_come_back(tmp_path: Path) -> None:
    X, group = people(100)
    frame = pd.DataFrame(X, columns=["age", "hours", "pay", "years"])
    proxy = ProxyTree(alpha=0.3).fit(frame, sensitive_features={"wood": group})
    proxy.save(tmp_path)
    loaded = ProxyTree.load(tmp_path)
    assert list(loaded.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(loaded.acceptance(frame), proxy.acceptance(frame))
    reordered = frame[["hours", "age", "pay", "years"]]
    np.testing.assert_array_equal(loaded.acceptance(reordered), proxy.acceptance(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.acceptance(frame.rename(columns={"pay": "wage"}))


def test_parts_of_two_proxies_are_not_joined(tmp_path: Path) -> None:
    X, group = people()
    train("naive-tree", X, group).save(tmp_path / "one")
    # a graph of more features, and one of fewer proxy groups
    for rows, groups in (people(features=5), (X, np.where(group == "cedar", "birch", group))):
        train("naive-tree", rows, groups).save(tmp_path / "other")
        (tmp_path / "other" / "graph.safetensors").replace(tmp_path / "one" / "graph.safetensors")
        with pytest.raises(ValueError, match="do not belong together"):
            load_proxy(tmp_path / "one")


def test_parameters_of_numpy_are_saved_as_plain_numbers(tmp_path: Path) -> None:
    X, group = people(100)
    numbers: dict[str, Any] = {
        "alpha": np.float64(0.3),
        "max_height": np.int64(2),
        "min_leaf": np.float32(2),
    }
    ProxyTree(**numbers).fit(X, sensitive_features={"wood": group}).save(tmp_path / "tree")
    assert load_proxy(tmp_path / "tree").get_params()["max_height"] == 2


READERS = (load_proxy, read_saved_proxy)


@pytest.mark.parametrize("read", READERS)
def test_a_folder_without_a_proxy_is_refused(read: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no proxy"):
        read(tmp_path)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("text", ["{", "{}", '{"class": "Booster"}', "[]"])
def test_a_file_that_describes_no_proxy_is_refused(read: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "proxy.json").write_text(text)
    with pytest.raises(ValueError, match="holds (no|a) proxy"):
        read(tmp_path)


def test_a_proxy_of_another_class_or_format_is_refused(tmp_path: Path) -> None:
    train("qp-tree", *people()).save(tmp_path / "tree")
    with pytest.raises(ValueError, match="no ProxyTree of format"):
        ProxyTree.load(tmp_path / "tree")
    content = json.loads((tmp_path / "tree" / "proxy.json").read_text())
    (tmp_path / "tree" / "proxy.json").write_text(json.dumps(content | {"format": 99}))
    for read in READERS:
        with pytest.raises(ValueError, match="no PredictedGroupProxy of format"):
            read(tmp_path / "tree")


@pytest.mark.parametrize("name", sorted(PROXIES))
def test_a_name_stands_for_its_class_and_its_fixed_arguments(name: str) -> None:
    spec = PROXIES[name]
    assert spec.name == name
    kind = proxy_class(name)
    assert issubclass(kind, BalancingProxy)
    parameters = kind(**spec.fixed).get_params()
    assert {key: parameters[key] for key in spec.fixed} == dict(spec.fixed)


def test_the_names_are_the_papers_six_proxies() -> None:
    kinds = {(proxy_class(name), *PROXIES[name].fixed.values()) for name in PROXIES}
    assert kinds == {
        (ProxyTree, False),
        (ProxyTree, True),
        *(
            (PredictedGroupProxy, model, way)
            for model in ("tree", "regression")
            for way in ("program", "equal")
        ),
    }
