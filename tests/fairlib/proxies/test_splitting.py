"""One split: halfspaces and their tallies, the program over them, and the two-player game."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.fairlib.proxies import splitting
from evenhand.fairlib.proxies.splitting import TIE_BREAK, Hypotheses, Limits, solve_program
from tests.oracles.proxy_game import add_halfspace, play_game


def vertex(seed: int, rows: int = 0) -> tuple[Hypotheses, Limits, np.ndarray, float]:
    """A few weighted rows, each its own cell, with limits, a direction and an offset."""
    rng = np.random.default_rng(seed)
    groups, rows = int(rng.integers(2, 5)), rows or int(rng.integers(2, 9))
    indicators = np.eye(groups)[rng.integers(0, groups, rows)]
    weights = np.ones(rows) if seed % 2 else rng.random(rows) + 0.05
    pool = Hypotheses(indicators, indicators, weights)
    composition = pool.total[:-1] / pool.total[-1]
    base = (
        composition if seed % 3 == 0 else 0.7 * composition + 0.3 * rng.dirichlet(np.ones(groups))
    )
    limits = Limits(
        base, float(rng.choice([0.02, 0.1, 0.3, 1.0])), float(rng.choice([0.01, 0.3, 1.0]))
    )
    direction = rng.normal(size=groups)
    direction -= direction.mean()
    direction /= np.linalg.norm(direction)
    return pool, limits, direction, float(rng.choice([0.0, 0.05, 0.2]))


def add_all_subsets(pool: Hypotheses) -> np.ndarray:
    """Give the pool every deterministic splitting function of its rows."""
    subsets = np.array(list(product([0.0, 1.0], repeat=len(pool.counted))))
    pool.tallies = subsets @ pool.counted
    pool.directions = [np.zeros(pool.scores.shape[1])] * len(subsets)
    pool.cuts = [0.0] * len(subsets)
    return subsets


def gains_of(
    tallies: np.ndarray, total: np.ndarray, direction: np.ndarray, offset: float
) -> np.ndarray:
    """What the program maximises, in rows of the vertex."""
    mean = direction @ total[:-1] / total[-1]
    return np.asarray((tallies[:, :-1] @ direction - (mean + offset) * tallies[:, -1]) / total[-1])


def best_randomised(
    pool: Hypotheses, limits: Limits, direction: np.ndarray, offset: float
) -> float | None:
    """
    The optimum over all randomised splitting functions, row by row.

    The mixtures of all subsets of m rows are the cube: h is any vector of [0, 1]^m.
    """
    counted, total = pool.counted, pool.total
    apart = (counted[:, :-1] - counted[:, -1:] * limits.base_rates).T
    size = limits.alpha * counted[:, -1]
    # what is not selected is the whole less what is
    whole, whole_size = apart.sum(axis=1), size.sum()
    limited = [
        apart - size,
        -apart - size,
        size - apart,
        size + apart,
        counted[:, -1],
        -counted[:, -1],
    ]
    found = linprog(
        -gains_of(counted, total, direction, offset),
        A_ub=np.vstack(limited),
        b_ub=np.concatenate(
            [
                np.zeros(2 * len(apart)),
                whole_size - whole,
                whole_size + whole,
                [total[-1] - limits.least_rows, -limits.least_rows],
            ]
        ),
        bounds=(0, 1),
    )
    return None if found.x is None else float(-found.fun)


def within(limits: Limits, tally: np.ndarray) -> bool:
    """The constraints of the appendix, as it normalises them: by the rows of the child itself."""
    shares = tally[:-1] / tally[-1]
    near = bool((np.abs(shares - limits.base_rates) <= limits.alpha + 1e-11).all())
    return near and bool(tally[-1] >= limits.least_rows * (1 - 1e-6))


def test_limits_by_hand() -> None:
    limits = Limits(np.array([0.25, 0.75]), 0.1, 10.0)
    tally = np.array([3.0, 7.0, 10.0])
    assert limits.disclosivity(tally) == pytest.approx(0.05, rel=1e-12)
    assert limits.disclosivity(np.zeros(3)) == 0.0
    # N - r M is 0.5 and -0.5, and the slack is 0.1 times 10
    np.testing.assert_allclose(limits.excess(tally, 0.1), [-0.5, -1.5, -1.5, -0.5], rtol=1e-12)
    np.testing.assert_allclose(
        limits.excess(np.stack([tally, 2 * tally]), 0.01),
        [[0.4, -0.6, -0.6, 0.4], [0.8, -1.2, -1.2, 0.8]],
    )
    assert limits.allow(tally)
    assert replace(limits, alpha=0.05).allow(
        tally
    )  # a difference as large as the limit, but for rounding
    assert not replace(limits, alpha=0.05 - 1e-9).allow(tally)
    # as few rows as required, but for rounding
    assert replace(limits, least_rows=10.0 * (1 + 5e-10)).allow(tally)
    assert not replace(limits, least_rows=10.0 * (1 + 2e-9)).allow(tally)


def test_a_halfspace_does_not_select_the_rows_on_its_edge() -> None:
    scores = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    pool = Hypotheses(scores, np.eye(2)[[0, 0, 1]], np.array([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(pool.total, [11.0, 100.0, 111.0])
    add_halfspace(pool, np.array([1.0, 0.0]), 0.5)
    add_halfspace(pool, np.array([1.0, 0.0]), 0.25)
    np.testing.assert_array_equal(pool.tallies, [[1.0, 0.0, 1.0], [11.0, 0.0, 11.0]])


def test_the_cuts_of_a_sweep_by_hand() -> None:
    # Cumulated weights 0.3, 1.3, ..., 98.3, 98.9. The shares begin at 2 rows: 2, 9.9, 49.5, 89 and
    # 96.9 rows.
    weights = np.ones(100)
    weights[[0, -1]] = 0.3, 0.6
    scores = np.linspace(1.0, 0.01, 100)
    pool = Hypotheses(scores[:, None], np.ones((100, 1)), weights)
    pool.sweep(np.array([1.0]), 6)
    rows = [1.3, 2.3, 9.3, 10.3, 49.3, 50.3, 88.3, 89.3, 96.3, 97.3]
    np.testing.assert_allclose(pool.tallies[:, -1], rows, rtol=1e-12)
    # halfway between the last score that is selected and the next
    np.testing.assert_allclose(
        pool.cuts, [1.005 - 0.01 * np.ceil(count) for count in rows], rtol=1e-9
    )
    # of few rows the least share is a half
    few = Hypotheses(np.array([[3.0], [1.0]]), np.ones((2, 1)), np.array([0.5, 0.5]))
    few.sweep(np.array([1.0]), 2)
    np.testing.assert_array_equal(few.tallies, [[0.5, 0.5]])
    assert few.cuts == [2.0]


def test_scores_that_rounding_tells_apart_are_not_cut_between() -> None:
    scores = np.array([1.0, 1.0 - 5e-11, 0.5, 0.5 - 2e-10])
    pool = Hypotheses(scores[:, None], np.ones((4, 1)), np.full(4, 10.0))
    pool.sweep(np.array([1.0]), 32)
    assert pool.tallies[:, -1].tolist() == [20.0, 30.0]


def test_tallies_of_a_sweep_are_what_its_halfspaces_select() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, groups = int(rng.integers(1, 300)), int(rng.integers(2, 6))
        scores = rng.normal(size=(rows, groups))
        if seed % 3 == 0:
            scores = np.round(scores)
        indicators = np.eye(groups)[rng.integers(0, groups, rows)]
        weights = rng.random(rows) ** 3 + 1e-9
        pool = Hypotheses(scores, indicators, weights)
        pool.sweep(rng.normal(size=groups), 32)
        pool.sweep(np.eye(groups)[0], 12)
        add_halfspace(pool, rng.normal(size=groups), 0.3)
        assert len(pool.cuts) == len(pool.directions) == len(pool.tallies) >= 1
        for direction, cut, tally in zip(pool.directions, pool.cuts, pool.tallies, strict=True):
            selected = weights * (scores @ direction > cut)
            np.testing.assert_allclose(tally[:-1], selected @ indicators, rtol=1e-9, atol=1e-12)
            assert tally[-1] == pytest.approx(selected.sum(), rel=1e-9, abs=1e-12)


def test_a_sweep_leaves_rows_on_both_sides() -> None:
    """It reaches small parts."""
    rng = np.random.default_rng(0)
    pool = Hypotheses(
        rng.normal(size=(5000, 3)), np.eye(3)[rng.integers(0, 3, 5000)], np.ones(5000)
    )
    pool.sweep(np.array([1.0, -1.0, 0.0]), 32)
    rows = pool.tallies[:, -1]
    assert rows.min() >= 1
    assert rows.max() <= 4999
    assert rows.min() < 10
    assert rows.max() > 4990
    assert ((rows > 1500) & (rows < 3500)).any()


@pytest.mark.parametrize("ones", [1, 30, 100, 333, 500, 620, 999])
def test_a_score_of_two_values_is_cut_between_them(ones: int) -> None:
    high = (np.arange(1000) < ones).astype(float)
    pool = Hypotheses(
        np.column_stack([high, 1 - high]), np.eye(2)[np.arange(1000) % 2], np.ones(1000)
    )
    pool.sweep(np.array([1.0, 0.0]), 32)
    assert {int(rows) for rows in pool.tallies[:, -1]} == {ones}


def test_a_score_of_few_values_is_cut_between_all_of_them() -> None:
    values = np.repeat([0.1, 0.2, 0.4, 0.7, 0.9], [500, 200, 150, 100, 50])
    pool = Hypotheses(
        np.column_stack([values, 1 - values]), np.eye(2)[np.arange(1000) % 2], np.ones(1000)
    )
    pool.sweep(np.array([1.0, 0.0]), 32)
    assert {int(rows) for rows in pool.tallies[:, -1]} == {50, 150, 300, 500}


def test_dropping_hypotheses_leaves_the_others_unchanged() -> None:
    rng = np.random.default_rng(1)
    pool = Hypotheses(rng.normal(size=(50, 2)), np.eye(2)[rng.integers(0, 2, 50)], np.ones(50))
    pool.sweep(np.array([0.6, -0.8]), 16)
    cuts, tallies = list(pool.cuts), pool.tallies.copy()
    pool.keep(np.array([1, 3]))
    assert len(pool.directions) == 2
    assert pool.cuts == [cuts[1], cuts[3]]
    np.testing.assert_array_equal(pool.tallies, tallies[[1, 3]])


@pytest.mark.parametrize("least_rows", [None, pytest.param(1e-6, marks=pytest.mark.long)])
@pytest.mark.parametrize("seeds", [80, pytest.param(300, marks=pytest.mark.long)])
def test_the_program_over_all_subsets_is_the_best_split(
    seeds: int, least_rows: float | None
) -> None:
    """It is the best randomised split."""
    solved_ones = infeasible = 0
    for seed in range(seeds):
        pool, limits, direction, offset = vertex(seed)
        add_all_subsets(pool)
        limits = replace(limits, least_rows=least_rows or limits.least_rows)
        expected = best_randomised(pool, limits, direction, offset)
        solved = solve_program(pool, limits, direction, offset)
        assert (solved is None) == (expected is None), seed
        if solved is None or expected is None:
            infeasible += 1
            continue
        solved_ones += 1
        mixture = solved[0]
        one = mixture @ pool.tallies
        assert gains_of(one[None], pool.total, direction, offset)[0] == pytest.approx(
            expected, abs=1e-6
        ), seed
        assert mixture.min() >= 0
        assert mixture.sum() == pytest.approx(1, abs=1e-12)
        assert (mixture > 0).sum() <= 4 * len(direction) + 3
        assert within(limits, one), seed
        assert within(limits, pool.total - one), seed
    assert solved_ones > seeds / 3
    assert infeasible > seeds / 6


@pytest.mark.parametrize("seeds", [60, pytest.param(150, marks=pytest.mark.long)])
def test_no_single_subset_that_is_allowed_does_better(seeds: int) -> None:
    better = compared = 0
    for seed in range(seeds):
        pool, limits, direction, offset = vertex(seed)
        add_all_subsets(pool)
        gains = gains_of(pool.tallies, pool.total, direction, offset)
        allowed = [
            gain
            for tally, gain in zip(pool.tallies, gains, strict=True)
            if 0 < tally[-1] < pool.total[-1]
            and within(limits, tally)
            and within(limits, pool.total - tally)
        ]
        solved = solve_program(pool, limits, direction, offset)
        if not allowed:
            continue
        assert solved is not None, seed
        compared += 1
        value = gains_of((solved[0] @ pool.tallies)[None], pool.total, direction, offset)[0]
        assert value >= max(allowed) - 1e-7, seed
        better += value > max(allowed) + 1e-6
    # a mixture is worth its trouble
    assert compared > seeds / 5
    assert better > seeds / 15


@pytest.mark.parametrize("seeds", [16, pytest.param(60, marks=pytest.mark.long)])
def test_the_constraints_hold_to_rounding_on_large_vertices(seeds: int) -> None:
    split = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        groups, rows = 2 + seed % 4, int(rng.integers(100, 1500))
        indicators = np.eye(groups)[rng.choice(groups, rows, p=rng.dirichlet(np.full(groups, 2.0)))]
        scores = indicators + rng.normal(size=(rows, groups))
        weights = rng.random(rows) if seed % 2 else np.ones(rows)
        pool = Hypotheses(scores, indicators, weights)
        towards = 1 / groups - pool.total[:-1] / pool.total[-1]
        towards /= np.linalg.norm(towards)
        for direction in [towards, *np.eye(groups)]:
            pool.sweep(direction, 32)
        base = pool.total[:-1] / pool.total[-1]
        for alpha, least in [(0.02, 1.0), (0.1, 20.0), (0.2, 50.0)]:
            limits = Limits(base, alpha, min(least, pool.total[-1] / 4))
            for offset in (0.0, 0.1, 0.3):
                solved = solve_program(pool, limits, towards, offset)
                if solved is None:
                    continue
                split += 1
                one = solved[0] @ pool.tallies
                assert within(limits, one), (seed, alpha, offset)
                assert within(limits, pool.total - one), (seed, alpha, offset)
                assert (solved[0] > 0).sum() <= 4 * groups + 3
    assert split > 5 * seeds


def test_chosen_hypotheses_are_the_best_under_the_prices() -> None:
    """The charge for rows counts, too."""
    # the duals' sign and size: they must leave no other hypothesis of the pool with more to give
    for seed in range(80):
        pool, limits, direction, offset = vertex(seed)
        add_all_subsets(pool)
        solved = solve_program(pool, limits, direction, offset)
        if solved is None:
            continue
        mixture, prices = solved
        worth = pool.tallies[:, :-1] @ prices / pool.total[-1]
        # later hypotheses are a little less worth, in units of the least share of a child
        unit = max(limits.least_rows / pool.total[-1], 1e-4)
        worth -= TIE_BREAK * unit * np.arange(len(worth)) / len(worth)
        rows = pool.tallies[:, -1] / pool.total[-1]
        chosen = mixture > 1e-7
        # is there a charge c and a level v with worth - c rows <= v everywhere, and equal where
        # chosen?
        found = linprog(
            [0, 0],
            A_ub=np.column_stack([-rows[~chosen], -np.ones((~chosen).sum())]),
            b_ub=-worth[~chosen] + 1e-6,
            A_eq=np.column_stack([rows[chosen], np.ones(chosen.sum())]),
            b_eq=worth[chosen],
            bounds=(None, None),
            options={"primal_feasibility_tolerance": 1e-6},
        )
        assert found.status == 0, seed


def test_limits_that_nothing_meets_give_no_mixture() -> None:
    pool, limits, direction, _ = vertex(1, rows=6)
    add_all_subsets(pool)
    composition = pool.total[:-1] / pool.total[-1]
    # both children cannot be nearer to the base rates than the vertex between them
    far = np.roll(composition, 1) * 0.5 + 0.5 * np.eye(len(composition))[composition.argmin()]
    assert solve_program(pool, Limits(far, 0.001, 1e-6), direction, 0.0) is None
    assert solve_program(pool, Limits(composition, 1.0, 3.5), direction, 0.0) is None
    assert (
        solve_program(pool, replace(limits, base_rates=composition, alpha=1.0), direction, 0.0)
        is not None
    )


def test_a_mixture_beyond_the_limit_is_solved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second limit is stricter."""
    # of ten rows, half of each group: the mixture selects shares that are 0.1 + broken off
    pool = Hypotheses(np.eye(2)[np.arange(10) % 2], np.eye(2)[np.arange(10) % 2], np.ones(10))
    limits = Limits(np.array([0.5, 0.5]), 0.1, 1.0)
    alphas: list[float] = []

    def solve_by(broken: list[float]) -> None:
        """Let the program's answers break the limit by so much, one after another."""

        def solve(
            pool: Hypotheses, limits: Limits, alpha: float, *_: object
        ) -> tuple[np.ndarray, np.ndarray]:
            share = 0.6 + broken[len(alphas)]
            pool.tallies = np.array([[5 * share, 5 * (1 - share), 5.0]])
            alphas.append(alpha)
            return np.array([1.0]), np.array([float(len(alphas)), 0.0])

        alphas.clear()
        monkeypatch.setattr(splitting, "_solve", solve)

    def solved() -> np.ndarray | None:
        found = solve_program(pool, limits, np.array([1.0, -1.0]), 0.0)
        return None if found is None else found[1]

    solve_by([0.01, 0.005, 0.0])
    np.testing.assert_array_equal(solved(), [3.0, 0.0])
    np.testing.assert_allclose(alphas, [0.1, 0.08, 0.07], rtol=1e-9)
    solve_by([0.01] * 3 + [0.0])
    np.testing.assert_array_equal(solved(), [4.0, 0.0])
    solve_by([0.01] * 5)
    assert solved() is None
    np.testing.assert_allclose(alphas, [0.1, 0.08, 0.06, 0.04], rtol=1e-9)
    # no limit below zero is tried
    solve_by([0.06] * 2)
    assert solved() is None
    assert alphas == [0.1]


def cells(seed: int) -> tuple[Hypotheses, Limits, np.ndarray]:
    """Cells whose scores are their compositions: the regressions answer every cost exactly."""
    rng = np.random.default_rng(seed)
    groups = 2 + seed % 3
    compositions = rng.dirichlet(np.ones(groups), 6)
    pool = Hypotheses(compositions, compositions, rng.random(6) * 50 + 20)
    base = pool.total[:-1] / pool.total[-1]
    towards = 1 / groups - base
    return pool, Limits(base, 0.12, 1e-6), towards / np.linalg.norm(towards)


def game_value(seed: int, rounds: int) -> float | None:
    pool, limits, towards = cells(seed)
    mixture = play_game(pool, limits, towards, 0.05, rounds)
    if mixture is None:
        return None
    assert mixture.sum() == pytest.approx(1)
    one = mixture @ pool.tallies
    assert within(limits, one)
    assert within(limits, pool.total - one)
    return float(gains_of(one[None], pool.total, towards, 0.05)[0])


def test_the_game_approaches_the_programs_value() -> None:
    """It comes nearer as its rounds grow."""
    gaps: dict[int, list[float]] = {30: [], 2000: []}
    for seed in range(8):
        pool, limits, towards = cells(seed)
        best = best_randomised(pool, limits, towards, 0.05)
        # what is left to gain if each limit is kept a twentieth below what is allowed
        margin = best_randomised(pool, replace(limits, alpha=0.95 * limits.alpha), towards, 0.05)
        assert best is not None
        assert margin is not None
        for rounds, gap in gaps.items():
            value = game_value(seed, rounds)
            gap.append(best if value is None else best - value)
            assert value is None or value <= best + 1e-9
        assert gaps[2000][-1] <= best - margin + 0.05 * best + 1e-3, seed
    assert np.mean(gaps[2000]) < 0.5 * np.mean(gaps[30])


def test_a_mixture_of_the_game_that_breaks_the_limit_is_refused() -> None:
    for seed in range(8):
        pool, limits, towards = cells(seed)
        # the first answer heeds no dual: the best subset of all, which tells more than .001
        assert play_game(pool, replace(limits, alpha=0.001), towards, 0.0, 1) is None
        one = pool.tallies[0]
        np.testing.assert_allclose(
            one, pool.counted[pool.scores @ towards > towards @ limits.base_rates].sum(0)
        )
        assert not within(replace(limits, alpha=0.001), one)
        pool, limits, towards = cells(seed)
        free = play_game(pool, replace(limits, alpha=1.0), towards, 0.0, 1)
        assert free is not None
        assert free.tolist() == [1.0]


def plain_game(
    scores: np.ndarray,
    weights: np.ndarray,
    limits: Limits,
    towards: np.ndarray,
    offset: float,
    rounds: int,
) -> list[np.ndarray]:
    """Algorithm 3, constraint by constraint: which cells the learner selects in every round."""
    share = weights / weights.sum()
    alpha = 0.95 * limits.alpha

    def constraints(selected: np.ndarray) -> np.ndarray:
        """How far both children break each limit, in shares of the vertex; linear in the
        selection.
        """
        broken = []
        for child in (selected, 1 - selected):
            for sign in (1, -1):
                for k, base in enumerate(limits.base_rates):
                    group, rows = (share * child) @ scores[:, k], (share * child).sum()
                    broken.append(sign * (group - base * rows) - alpha * rows)
        return np.array(broken)

    def gain(selected: np.ndarray) -> float:
        rows = share * selected
        composition = share @ scores
        return float(towards @ (rows @ scores) - (towards @ composition + offset) * rows.sum())

    nothing, everything = np.zeros(len(share)), np.eye(len(share))
    duals = np.zeros(len(constraints(nothing)))
    answers = []
    for t in range(1, rounds + 1):

        def cost(selected: np.ndarray, duals: np.ndarray = duals) -> float:
            return float(duals @ constraints(selected)) - gain(selected)

        answers.append(np.array([float(cost(row) < cost(nothing)) for row in everything]))
        duals = np.maximum(duals + constraints(answers[-1]) / np.sqrt(t), 0.0)
    return answers


def test_the_game_is_the_plain_loop() -> None:
    allowed = changed = 0
    for seed, alpha in product(range(6), (0.02, 0.12, 0.3)):
        pool, limits, towards = cells(seed)
        limits = replace(limits, alpha=alpha)
        answers = plain_game(pool.scores, pool.counted[:, -1], limits, towards, 0.05, 8)
        changed += len({tuple(answer) for answer in answers}) > 1
        # hypotheses from before take no part in the mixture
        pool.sweep(towards, 4)
        before = len(pool.cuts)
        mixture = play_game(pool, replace(limits, least_rows=0.0), towards, 0.05, 8)
        for answer, tally in zip(answers, pool.tallies[before:], strict=True):
            np.testing.assert_allclose(tally, answer @ pool.counted, rtol=1e-12)
        if mixture is not None:
            allowed += 1
            assert mixture.tolist() == [0.0] * before + [0.125] * 8
    assert changed >= 3
    assert allowed >= 1


def test_a_game_without_enough_rows_on_a_side_is_refused() -> None:
    pool, limits, towards = cells(0)
    limits = replace(limits, alpha=1.0)
    assert play_game(pool, limits, towards, 0.0, 1) is not None
    selected = float(pool.tallies[0, -1])
    rest = float(pool.total[-1]) - selected
    for least, allowed in ((min(selected, rest) - 1, True), (min(selected, rest) + 1, False)):
        pool, _, _ = cells(0)
        assert (
            play_game(pool, replace(limits, least_rows=least), towards, 0.0, 1) is not None
        ) == allowed
