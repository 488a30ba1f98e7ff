"""The splitting graph: a pure function of the row, and its persistence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenhand.fairlib.proxies.graph import SplittingGraph


def by_hand() -> SplittingGraph:
    """
    A graph of three nodes and three proxy groups, of two features.

    Node 0 sends 1/4 on if x > 0 and another 3/4 if y > 1; both its other children meet in node 2.
    """
    return SplittingGraph(
        coefficients=np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]),
        intercepts=np.array([0.0, -1.0, -2.0, 0.0]),
        mixture=np.array([0.25, 0.75, 1.0, 1.0]),
        starts=np.array([0, 2, 3, 4]),
        one=np.array([1, -1, -3]),
        zero=np.array([2, 2, -2]),
    )


def draw(seed: int, nodes: int = 6, features: int = 5) -> SplittingGraph:
    """A random graph: children are later nodes or any of the proxy groups, some of them shared."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, nodes)
    mixture = np.concatenate([rng.dirichlet(np.ones(count)) for count in counts])

    def child(node: int) -> int:
        inner = rng.random() < 0.6 and node + 1 < nodes
        return int(rng.integers(node + 1, nodes)) if inner else -1 - int(rng.integers(4))

    links = [np.array([child(node) for node in range(nodes)]) for _ in range(2)]
    links[0][-1] = -4
    return SplittingGraph(
        rng.normal(size=(counts.sum(), features)),
        rng.normal(size=counts.sum()),
        mixture,
        np.concatenate([[0], np.cumsum(counts)]),
        *links,
    )


def carried(graph: SplittingGraph, row: np.ndarray) -> np.ndarray:
    """One row through the graph, in plain Python, by every path at once."""
    found = np.zeros(graph.groups)

    def follow(node: int, weight: float) -> None:
        if node < 0:
            found[-1 - node] += weight
            return
        places = range(graph.starts[node], graph.starts[node + 1])
        share = sum(
            graph.mixture[h]
            for h in places
            if row @ graph.coefficients[h] + graph.intercepts[h] > 0
        )
        follow(graph.one[node], weight * share)
        follow(graph.zero[node], weight * (1 - share))

    follow(0, 1.0)
    return found


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((-1.0, 0.0), [0, 1, 0]),  # nothing selects it; at node 2 x - y < 0
        ((1.0, 0.0), [0, 0, 1]),  # 1/4 to node 1, where x + y < 2, and all meet in node 2
        ((3.0, 0.5), [0.25, 0, 0.75]),
        ((-1.0, 4.0), [0.75, 0.25, 0]),
        ((3.0, 2.0), [1, 0, 0]),
        ((2.0, 0.0), [0, 0, 1]),  # on the boundary of node 1's halfspace, so outside
    ],
)
def test_a_row_goes_where_the_halfspaces_send_it(
    row: tuple[float, float], expected: list[float]
) -> None:
    np.testing.assert_array_equal(by_hand().shares([row]), [expected])


def test_shares_are_those_of_following_every_path() -> None:
    for seed in range(30):
        graph = draw(seed, nodes=1 + seed % 8)
        X = np.random.default_rng(seed).normal(size=(40, 5)).astype(np.float32)
        shares = graph.shares(X)
        assert shares.shape == (40, graph.groups)
        assert shares.dtype == np.float64
        assert shares.min() >= 0
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
        expected = [carried(graph, row.astype(np.float64)) for row in X]
        np.testing.assert_allclose(shares, expected, atol=1e-12)


def test_a_row_is_carried_alike_in_any_company() -> None:
    rng = np.random.default_rng(0)
    for seed in range(10):
        graph = draw(seed, features=37)
        X = (rng.normal(size=(300, 37)) * 10 ** rng.uniform(-3, 3, 37)).astype(np.float32)
        whole = graph.shares(X)
        order = rng.permutation(300)
        np.testing.assert_array_equal(graph.shares(X[order]), whole[order])
        cuts = np.sort(rng.choice(np.arange(1, 300), 9, replace=False))
        np.testing.assert_array_equal(
            np.vstack([graph.shares(part) for part in np.split(X, cuts)]), whole
        )
        np.testing.assert_array_equal(
            np.vstack([graph.shares(X[i : i + 1]) for i in range(50)]), whole[:50]
        )
        # other layouts and wider numbers of the same values
        np.testing.assert_array_equal(graph.shares(np.asfortranarray(X)), whole)
        np.testing.assert_array_equal(graph.shares(np.repeat(X, 2, axis=0)[::2]), whole)
        np.testing.assert_array_equal(graph.shares(X.astype(np.float64)), whole)


def test_weights_above_one_by_rounding_leave_no_negative_share() -> None:
    weights, starts = np.full(10, 0.1 + 1e-15), np.array([0, 10])
    graph = SplittingGraph(
        np.ones((10, 1)), np.ones(10), weights, starts, np.array([-1]), np.array([-2])
    )
    np.testing.assert_array_equal(graph.shares([[1.0]]), [[1.0, 0.0]])


def test_a_graph_without_a_split_has_one_proxy_group() -> None:
    empty = np.array([], dtype=np.int64)
    graph = SplittingGraph(np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.array([0]), empty, empty)
    assert graph.groups == 1
    np.testing.assert_array_equal(graph.shares(np.ones((4, 3))), np.ones((4, 1)))
    assert by_hand().groups == 3


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("coefficients", np.ones((3, 2))),
        ("coefficients", np.ones(4)),
        ("intercepts", np.ones(5)),
        ("mixture", np.ones(3)),
        ("starts", np.array([0, 2, 4])),
        ("starts", np.array([0, 2, 3, 5])),
        ("starts", np.array([1, 2, 3, 4])),
        ("starts", np.array([0, 3, 2, 4])),
        ("one", np.array([0, -1, -3])),
        ("one", np.array([1, 3, -3])),
        ("zero", np.array([2, 1, -2])),
        ("zero", np.array([2, 2])),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(name: str, wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        replace(by_hand(), **{name: wrong})


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="X has 3 features, but the graph takes 2"):
        by_hand().shares(np.ones((4, 3)))


def test_no_rows_have_no_shares() -> None:
    assert by_hand().shares(np.zeros((0, 2))).shape == (0, 3)


def test_a_graph_comes_back_from_its_file_to_the_bit(tmp_path: Path) -> None:
    X = np.random.default_rng(1).normal(size=(200, 5))
    for seed in range(5):
        graph = draw(seed)
        graph.save(tmp_path / "graph.safetensors")
        loaded = SplittingGraph.load(tmp_path / "graph.safetensors")
        np.testing.assert_array_equal(loaded.shares(X), graph.shares(X))
        for name in ("coefficients", "intercepts", "mixture", "starts", "one", "zero"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(graph, name))


def test_arrays_that_are_views_are_saved_as_they_read(tmp_path: Path) -> None:
    graph = draw(3)
    turned = SplittingGraph(
        np.asfortranarray(graph.coefficients),
        np.repeat(graph.intercepts, 2)[::2],
        graph.mixture,
        graph.starts,
        graph.one,
        graph.zero,
    )
    turned.save(tmp_path / "graph.safetensors")
    loaded = SplittingGraph.load(tmp_path / "graph.safetensors")
    np.testing.assert_array_equal(loaded.coefficients, graph.coefficients)
    np.testing.assert_array_equal(loaded.intercepts, graph.intercepts)


def test_a_node_without_halfspaces_sends_every_row_one_way() -> None:
    graph = SplittingGraph(
        coefficients=np.array([[1.0]]),
        intercepts=np.array([0.0]),
        mixture=np.array([1.0]),
        starts=np.array([0, 0, 1]),
        one=np.array([1, -1]),
        zero=np.array([1, -2]),
    )
    np.testing.assert_array_equal(graph.shares([[1.0], [-1.0]]), [[1.0, 0.0], [0.0, 1.0]])
