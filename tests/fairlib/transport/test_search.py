"""Column searches against all pairs, evaluated one by one; restricted searches and their proofs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from evenhand.fairlib.transport import cells as cells_module
from evenhand.fairlib.transport import neighbour_lists as lists_module
from evenhand.fairlib.transport.cells import Cells, build_cells
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.fairlib.transport.search import ColumnSearch, Envelopes

Draw = Callable[..., dict[str, Any]]
KEY = 20240229


def distances(problem: TransportProblem) -> np.ndarray:
    """Squared distances between all places, 0 where places differ by rounding only."""
    squared = cdist(problem.places, problem.places, "sqeuclidean")
    squared[squared < (1e-9 * np.abs(problem.places).max()) ** 2] = 0.0
    return squared


def breakpoints(cost: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Multipliers at which one vertex takes over from the next."""
    return np.diff(loss) / np.diff(cost)


def assert_envelopes(
    search: ColumnSearch, losses: np.ndarray, low: float, high: float, what: Any = None
) -> Envelopes:
    """
    Compare a search with the maximum over all rows.

    A row that a search missed is a line whose height above the returned envelope is concave between
    two of its corners: if it rises above it at all, then at a corner or an end of the bracket."""
    problem = search.problem
    search.load(losses, KEY)
    found = search.envelopes(low, high)
    squared = distances(problem)
    largest = np.array(
        [[row[problem.place_of == p].max() for p in range(problem.n_places)] for row in losses]
    )
    grid = np.linspace(low, high, 9)
    assert len(found.start) == len(problem.query_size) + 1
    assert found.start[-1] == len(found.cost) == len(found.loss) == len(found.place)
    for query in range(len(problem.query_size)):
        part = slice(found.start[query], found.start[query + 1])
        cost, loss, place = found.cost[part], found.loss[part], found.place[part]
        here, label = problem.query_place[query], problem.query_label[query]
        message = (what, query)
        assert len(cost) >= 1, message
        assert (np.diff(cost) > 0).all(), message
        assert (np.diff(loss) > 0).all(), message
        np.testing.assert_allclose(
            cost, squared[here, place], rtol=1e-12, atol=1e-300, err_msg=str(message)
        )
        np.testing.assert_allclose(loss, largest[label, place], rtol=4e-12, atol=4e-12)
        corners = breakpoints(cost, loss)
        # every vertex is on the envelope: corners descend, and lie within the bracket
        assert (np.diff(corners) <= 1e-9 * corners[:-1]).all(), message
        assert (corners >= low * (1 - 1e-9)).all(), message
        assert (corners <= high * (1 + 1e-9)).all(), message
        eta = np.concatenate([[low, high], corners, grid])[:, None]
        returned = (loss - eta * cost).max(axis=1)
        true = (largest[label] - eta * squared[here]).max(axis=1)
        rounding = 4e-12 * (np.abs(losses).max() + 1.0) + 1e-12 * eta[:, 0] * cost.max()
        assert (np.abs(returned - true) <= rounding).all(), (message, np.abs(returned - true).max())
    return found


def brackets(
    problem: TransportProblem, losses: np.ndarray, rng: np.random.Generator
) -> list[list[float]]:
    """Wide, narrow and degenerate ones, about the multipliers at which anything happens."""
    scale = float(np.ptp(losses) + 1e-3) / float(distances(problem).mean() + 1e-12)
    eta = scale * 10.0 ** rng.uniform(-1.5, 2.0)
    return [
        [0.0, scale],
        [0.0, 0.0],
        [eta, eta],
        [eta / 1.02, eta * 1.02],
        [eta / 4, eta * 4],
        [eta / 1e3, eta * 1e9],
    ]


def cloud(kind: str, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    points = {
        "normal": lambda: rng.normal(size=(n, d)),
        "grid": lambda: rng.integers(0, 4, (n, d)) * 1.0,
        "duplicates": lambda: rng.normal(size=(n, d))[rng.integers(0, max(1, n // 3), n)],
        "one place": lambda: np.tile(rng.normal(size=d), (n, 1)),
        "norms": lambda: rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 4, (n, 1)),
        "far": lambda: rng.normal(size=(n, d)) + 1e4,
        "tiny": lambda: rng.normal(size=(n, d)) * 1e-9,
        "huge": lambda: rng.normal(size=(n, d)) * 1e9,
        "clusters": lambda: (
            rng.normal(size=(5, d))[rng.integers(0, 5, n)] + 1e-3 * rng.normal(size=(n, d))
        ),
    }
    return points[kind]()


KINDS = ["normal", "grid", "duplicates", "one place", "norms", "far", "tiny", "huge", "clusters"]


def table(rng: np.random.Generator, classes: int, n: int) -> np.ndarray:
    losses = rng.exponential(size=(classes, n))
    return np.round(losses * 3) / 3 if rng.random() < 0.4 else losses


@pytest.mark.parametrize("kind", KINDS)
def test_envelopes_are_those_of_all_rows(kind: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, d, classes = int(rng.integers(1, 45)), int(rng.integers(1, 8)), int(rng.integers(1, 4))
        problem = TransportProblem(cloud(kind, rng, n, d), rng.integers(0, classes, n), 1.0)
        losses = table(rng, classes, n)
        search = ColumnSearch(problem, jobs=1 + seed % 2)
        for low, high in brackets(problem, losses, rng):
            assert_envelopes(search, losses, low, high, (seed, low, high))


def test_envelopes_of_lists_are_those_of_all_rows() -> None:
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n, classes = int(rng.integers(1, 40)), int(rng.integers(1, 4))
        labels = rng.integers(0, classes, n)
        kind = ("grid", "normal", "duplicates")[seed % 3]
        search = ColumnSearch(TransportProblem(cloud(kind, rng, n, 3), labels, 1.0), neighbours=n)
        losses = table(rng, classes, n)
        for low, high in brackets(search.problem, losses, rng):
            assert_envelopes(search, losses, low, high, (seed, low, high))


@pytest.mark.parametrize(
    ("kind", "n", "d"),
    [
        ("normal", 200, 2),
        ("normal", 330, 5),
        ("grid", 300, 6),
        ("clusters", 320, 4),
        ("norms", 250, 3),
        ("far", 220, 9),
        pytest.param("normal", 1200, 5, marks=pytest.mark.long),
        pytest.param("clusters", 1500, 4, marks=pytest.mark.long),
    ],
)
# Single precision makes one of some of the places of "norms" and "far"; a test of its own is about
# that.
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_envelopes_cover_all_rows_of_cells_that_hold_several(kind: str, n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    problem = TransportProblem(cloud(kind, rng, n, d), rng.integers(0, 2, n), 1.0)
    search = ColumnSearch(problem)
    assert search.cells is not None
    assert np.diff(search.cells.start).max() > 1
    for losses in (table(rng, 2, n), np.round(rng.exponential(size=(2, n)))):
        for low, high in brackets(problem, losses, rng)[2::2]:
            assert_envelopes(search, losses, low, high, (low, high))


@pytest.mark.parametrize("cells", [1e-9, 0.5, 1e9])
@pytest.mark.parametrize("kind", ["normal", "grid", "norms"])
def test_number_of_cells_does_not_matter(
    cells: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "CELLS_PER_ROOT", cells)
    rng = np.random.default_rng(0)
    problem = TransportProblem(cloud(kind, rng, 130, 3), rng.integers(0, 2, 130), 1.0)
    search = ColumnSearch(problem)
    assert search.cells is not None
    count = len(search.cells.start) - 1
    if cells == 1e-9:
        assert count == 1
    elif cells == 1e9:
        assert count == problem.n_places
    losses = table(rng, 2, 130)
    for low, high in brackets(problem, losses, rng):
        assert_envelopes(search, losses, low, high, (low, high))


def test_memory_of_the_bounds_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    problem = TransportProblem(rng.normal(size=(300, 3)), rng.integers(0, 2, 300), 1.0)
    losses = table(rng, 2, 300)
    usual = ColumnSearch(problem).cells
    assert usual is not None
    monkeypatch.setattr(cells_module, "MAX_BOUNDS", 300 * 20)
    search = ColumnSearch(problem)
    assert search.cells is not None
    assert search.cells.bounds.nbytes <= 300 * 20 < usual.bounds.nbytes
    assert_envelopes(search, losses, 0.1, 2.0)
    monkeypatch.setattr(cells_module, "MAX_BOUNDS", 1)
    least = ColumnSearch(problem)
    assert least.cells is not None
    assert least.cells.bounds.shape == (300, 1)
    assert_envelopes(least, losses, 0.1, 2.0)


@pytest.mark.parametrize("block", [1, 4 * 150 * 7, 2**26])
@pytest.mark.parametrize("jobs", [1, 3, 40])
def test_blocks_and_jobs_of_building_do_not_matter(
    block: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    problem = TransportProblem(rng.normal(size=(150, 3)), rng.integers(0, 2, 150), 1.0)
    losses = table(rng, 2, 150)
    monkeypatch.setattr(cells_module, "BLOCK_BYTES", block)
    search = ColumnSearch(problem, jobs=jobs)
    assert search.cells is not None
    assert_below_distances(search.cells, problem.places)
    assert_envelopes(search, losses, 0.1, 2.0)
    assert_envelopes(search, losses, 0.0, 0.5)


def assert_below_distances(cells: Cells, places: np.ndarray, close: float | None = None) -> None:
    """No bound exceeds the least distance to its cell, nor falls short of it by more than `close`
    units.
    """
    squared = cdist(places[cells.place], places[cells.place], "sqeuclidean")
    least = np.minimum.reduceat(squared, cells.start[:-1], axis=1)
    bounds = np.square(cells.bounds, dtype=float) * cells.unit
    assert (bounds <= least).all(), (bounds - least).max()
    if close is not None:
        # a byte holds the root of a bound
        roots = np.minimum(np.sqrt(least / cells.unit), 255)
        assert (roots - cells.bounds).max() <= close


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_bounds_never_exceed_a_distance(kind: str) -> None:
    for seed in range(7):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 700))
        problem = TransportProblem(
            cloud(kind, rng, n, int(rng.integers(1, 60))), np.zeros(n, dtype=int), 1.0
        )
        assert problem.places is not None
        cells = build_cells(problem.places, jobs=1)
        assert_below_distances(cells, problem.places)
        m = problem.n_places
        np.testing.assert_array_equal(np.sort(cells.place), np.arange(m))
        np.testing.assert_array_equal(cells.position[cells.place], np.arange(m))
        assert (cells.start[0], cells.start[-1]) == (0, m)
        assert (np.diff(cells.start) > 0).all()


def test_bounds_are_as_tight_as_a_byte_allows() -> None:
    rng = np.random.default_rng(3)
    for d in (2, 20):
        places = rng.normal(size=(500, d))
        # one unit for the byte, and a little for single precision
        assert_below_distances(build_cells(places, jobs=2), places, close=1.1)


def test_places_that_single_precision_makes_one_raise_no_warning() -> None:
    # 1e-8 apart is more than a place, and less than a float32 can tell
    rng = np.random.default_rng(5)
    points = np.repeat(rng.normal(size=(60, 2)), 4, axis=0)
    points += 1e-8 * np.tile([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], (60, 1))
    problem = TransportProblem(points, np.zeros(240, dtype=int), 1.0)
    assert problem.n_places > 200
    search = ColumnSearch(problem)
    assert search.cells is not None
    assert_below_distances(search.cells, problem.places)
    assert_envelopes(search, table(rng, 1, 240), 0.1, 10.0)


def test_some_queries_are_answered_as_among_all() -> None:
    rng = np.random.default_rng(6)
    problem = TransportProblem(rng.normal(size=(500, 3)), rng.integers(0, 3, 500), 1.0)
    some = np.sort(rng.choice(500, 40, replace=False))
    for neighbours in (None, 30):
        search = ColumnSearch(problem, jobs=2, neighbours=neighbours)
        search.load(rng.exponential(size=(3, 500)), KEY)
        every, asked = search.envelopes(0.05, 5.0), search.envelopes(0.05, 5.0, some)
        for k, query in enumerate(some):
            one, other = slice(*every.start[query : query + 2]), slice(*asked.start[k : k + 2])
            np.testing.assert_allclose(asked.cost[other], every.cost[one], rtol=1e-14)
            np.testing.assert_array_equal(asked.loss[other], every.loss[one])
            np.testing.assert_array_equal(asked.place[other], every.place[one])


def test_lists_of_neighbours_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    problem = TransportProblem(rng.normal(size=(101, 3)), np.zeros(101, dtype=int), 1.0)
    whole = ColumnSearch(problem, neighbours=9).nearest
    monkeypatch.setattr(lists_module, "BLOCK_BYTES", 1000)
    parts = ColumnSearch(problem, neighbours=9).nearest
    assert whole is not None
    assert parts is not None
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_array_equal(parts[1], whole[1])
    expected = np.sort(cdist(problem.places, problem.places, "sqeuclidean"), axis=1)[:, :9]
    np.testing.assert_allclose(whole[1], expected, atol=1e-12)


@pytest.mark.parametrize("neighbours", [None, 25])
def test_threads_find_the_same_vertices(neighbours: int | None) -> None:
    rng = np.random.default_rng(7)
    points = rng.integers(0, 6, (400, 3)) * 1.0
    problem = TransportProblem(points, rng.integers(0, 2, 400), 1.0)
    losses = np.ceil(rng.exponential(size=(2, 400)) * 2)
    found = []
    for jobs in (1, 2, 3, 200):
        search = ColumnSearch(problem, jobs, neighbours)
        search.load(losses, KEY)
        found.append(search.envelopes(0.0, 3.0))
    for other in found[1:]:
        for name in ("start", "cost", "loss", "place"):
            np.testing.assert_array_equal(getattr(other, name), getattr(found[0], name))


def test_long_envelopes_do_not_overflow_their_buffers() -> None:
    # Squares on a line gain concavely: every single row is a vertex of the first one's envelope.
    n = 200
    points = np.arange(n)[:, None] * 1.0
    losses = np.arange(n)[None] * 1.0
    problem = TransportProblem(points, np.zeros(n, dtype=int), 1.0)
    for neighbours in (None, n):
        search = ColumnSearch(problem, neighbours=neighbours)
        found = assert_envelopes(search, losses, 0.0, 10.0)
        # person j moves up only: n - j vertices each
        sizes = np.sort(np.diff(found.start))
        np.testing.assert_array_equal(sizes, np.arange(1, n + 1))


@pytest.mark.parametrize(
    ("kind", "rounded"),
    [
        ("normal", False),
        ("grid", True),
        ("duplicates", False),
        ("clusters", True),
        pytest.param("normal", True, marks=pytest.mark.long),
        pytest.param("grid", False, marks=pytest.mark.long),
        pytest.param("duplicates", True, marks=pytest.mark.long),
        pytest.param("clusters", False, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    ("listed", "tables", "movers"), [(48, 24, 0.02), (40, 3, 0.1), (16, 5, 0.0)]
)
def test_lists_give_the_envelopes_of_a_search(
    kind: str,
    rounded: bool,
    listed: int,
    tables: int,
    movers: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("LISTED", listed), ("TABLES", tables), ("MOVERS", movers)):
        monkeypatch.setattr(lists_module, name, value)
    rng = np.random.default_rng(11)
    n = 300
    problem = TransportProblem(cloud(kind, rng, n, 3), rng.integers(0, 2, n), 1.0)
    with_lists = ColumnSearch(problem, jobs=2)
    unused = ColumnSearch(problem)
    losses = table(rng, 2, n)
    if rounded:
        losses = np.round(losses * 8) / 8
    eta = 0.3 * float(losses.max()) / float(distances(problem).mean())
    kept = []
    for step in range(16):
        bracket = eta / 1.01, eta * 1.01
        if step % 5 == 4:
            found = assert_envelopes(with_lists, losses, *bracket, (kind, step))
        else:
            with_lists.load(losses, KEY)
            found = with_lists.envelopes(*bracket)
        fresh = copy.copy(unused)
        fresh.load(losses, KEY)
        expected = fresh.envelopes(*bracket)
        assert fresh.lists is None
        for name in ("start", "cost", "loss", "place"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        if with_lists.lists is not None:
            kept.append((with_lists.lists.since < len(with_lists.lists.tables) - 1).mean())
        # all losses grow by a common factor and, but for a few, change a little
        factor = 1.0 + 0.02 * rng.random()
        change = rng.integers(-1, 2, losses.shape) * (0.125 * (rng.random(losses.shape) < 0.01))
        if not rounded:
            change = change + 1e-3 * rng.normal(size=losses.shape)
        losses = losses * factor + change
        eta *= factor * (1.0 + 0.01 * rng.normal())
    # most lists are those of earlier losses, and some had to be found again
    assert np.mean(kept[1:]) > 0.2
    assert min(kept) < 1.0


def test_a_row_that_overtakes_all_is_seen_by_every_list() -> None:
    rng = np.random.default_rng(12)
    n = 400
    problem = TransportProblem(rng.normal(size=(n, 3)), np.zeros(n, dtype=int), 1.0)
    search = ColumnSearch(problem)
    losses = rng.exponential(size=(1, n))
    for _ in range(3):
        assert_envelopes(search, losses, 0.5, 0.51)
    # far from everybody's list, one loss after another jumps by a little or by a lot
    for row, jump in [(5, 0.3), (17, 3.0), (130, 30.0), (301, 0.01)]:
        losses = losses.copy()
        losses[0, row] += jump
        found = assert_envelopes(search, losses, 0.5, 0.51, row)
    assert (found.place == problem.place_of[130]).sum() > n / 2


def test_bounds_of_lists_hold_for_all_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_module, "LISTED", 40)
    monkeypatch.setattr(lists_module, "TABLES", 6)
    rng = np.random.default_rng(13)
    n = 500
    problem = TransportProblem(rng.normal(size=(n, 4)), rng.integers(0, 2, n), 1.0)
    search = ColumnSearch(problem)
    assert search.cells is not None
    placed = problem.places[search.cells.place]
    squared = cdist(placed, placed, "sqeuclidean")
    losses = rng.exponential(size=(2, n))
    eta = 0.4
    for _ in range(15):
        search.load(losses, KEY)
        search.envelopes(eta / 1.005, eta * 1.005)
        losses = losses * 1.01 + 0.2 * rng.normal(size=losses.shape)
        eta *= 1.01
    lists = search.lists
    assert lists is not None
    search.load(losses, KEY)
    by_position = search.largest[:, search.cells.place]
    _, rises = lists.at(eta / 1.005, eta * 1.005, by_position, problem.query_label)
    scale, rise, others, movers, _ = rises
    assert len(np.unique(lists.since)) > 3
    for query in range(len(lists.rows)):
        g, label = lists.since[query], problem.query_label[query]
        here = search.cells.position[problem.query_place[query]]
        for end, multiplier in enumerate((eta / 1.005, eta * 1.005)):
            worth = by_position[label] - multiplier * squared[here]
            for part, rest in enumerate(lists.rest[query]):
                off = np.delete(worth, lists.rows[query, : 16 * (part + 1)])
                assert off.max() <= scale[g, end] * rest + rise[g, label, end] + 1e-12
            unseen = np.delete(worth, np.concatenate([lists.rows[query], movers[g, label]]))
            assert (
                unseen.max()
                <= scale[g, end] * lists.rest[query, -1] + others[g, label, end] + 1e-12
            )


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(batch, marks=pytest.mark.long) for batch in (1, 2))]
)
def test_a_restricted_search_claims_no_more_than_is_true(
    batch: int, transport_instance: Draw
) -> None:
    proven = claimed_in_part = 0
    for seed in range(40 * batch, 40 * batch + 40):
        case = transport_instance(seed, 2 + seed % 2)
        n, losses, costs = len(case["labels"]), case["losses"], case["costs"]
        problem = TransportProblem(case["points"], case["labels"], case["budget"])
        best = DualSolver(problem).solve(losses)
        rounding = 1e-9 * max(1.0, losses.max())
        for k in sorted({1, 2, 3, max(1, n // 2), n, n + 7}):
            plan = DualSolver(problem, neighbours=k).solve(losses)
            what = (seed, k)
            assert plan.value <= best.value + rounding, what
            assert plan.bound >= best.value - rounding, what
            assert plan.spent <= case["budget"] + 1e-9, what
            assert 0.0 <= plan.proven <= 1.0 + 1e-12, what
            # the bound may not be below the dual function at this multiplier over all rows
            worth = case["gains"] - plan.multiplier * costs
            dual = plan.multiplier * case["budget"] + worth.max(axis=0).mean()
            assert plan.bound >= dual - rounding, what
            # no more columns are called proven than are at their best row
            at_best = worth[plan.target, np.arange(n)] >= worth.max(axis=0) - rounding
            assert plan.proven <= at_best.mean() + 1e-12, what
            if plan.proven == 1.0:
                proven += k < n
                assert plan.value == pytest.approx(best.value, abs=rounding), what
            elif plan.proven > 0:
                claimed_in_part += 1
            if k >= n:
                assert plan.proven == 1.0, what
                assert plan.value == pytest.approx(best.value, abs=rounding), what
            if k == 1:
                # at most to another row at distance 0
                assert plan.spent == 0.0, what
                assert costs[plan.target, np.arange(n)].max() == 0.0, what
    assert proven > 20
    assert claimed_in_part > 20


def test_more_neighbours_are_never_worse() -> None:
    rng = np.random.default_rng(9)
    problem = TransportProblem(rng.normal(size=(300, 3)), rng.integers(0, 2, 300), 0.2)
    losses = rng.exponential(size=(2, 300))
    best = DualSolver(problem).solve(losses)
    values, proven = [], []
    for k in (1, 3, 10, 30, 100, 300):
        plan = DualSolver(problem, neighbours=k).solve(losses)
        values.append(plan.value)
        proven.append(plan.proven)
    assert (np.diff(values) >= -1e-12).all()
    assert values[0] < values[2] < best.value + 1e-12
    assert values[-1] == pytest.approx(best.value, rel=1e-12)
    assert proven[0] < proven[-1] == 1.0


def test_neighbours_are_exact_among_the_nearest() -> None:
    rng = np.random.default_rng(10)
    for seed in range(20):
        points = np.random.default_rng(seed).normal(size=(40, 3))
        labels, losses = rng.integers(0, 2, 40), rng.exponential(size=(2, 40))
        costs = cdist(points, points, "sqeuclidean")
        kth = np.sort(costs, axis=0)[6]
        # rows beyond the seven nearest of a column cost more than the budget
        forbidden = np.where(costs <= kth, costs, 1e9)
        near = DualSolver(TransportProblem(points, labels, 0.3), neighbours=7).solve(losses)
        # the dual (B.14) is convex in the multiplier: its least value is that of the linear program
        best = minimize_scalar(
            lambda eta, gains, costs: 0.3 * eta + (gains - eta * costs).max(axis=0).mean(),
            args=(losses[labels].T, forbidden), bounds=(0.0, 100.0), options={"xatol": 1e-12},
        )  # fmt: skip
        assert near.value == pytest.approx(best.fun, rel=1e-9)
        assert near.multiplier == pytest.approx(best.x, rel=1e-6)
