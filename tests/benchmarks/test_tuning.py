"""The peers' metrics are ours, candidates are chosen by our rule, and a search keeps to its rows
and time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.page_generators import short_tuning, tuning_page
from benchmarks.peers import exchange
from benchmarks.peers.tuning_comparison import choose_trial
from benchmarks.studies import tune_first_answer
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.tuning.study import Trial


def _rows(rng: np.random.Generator, n: int, groups: int = 2) -> exchange.Rows:
    """Random rows; column 0 is the group, which a flip overwrites, and column 1 the label with
    noise.
    """
    y, group = rng.integers(0, 2, n), rng.integers(0, groups, n)
    X = np.stack([group, y + rng.normal(0, 0.7, n)], axis=1).astype(np.float32)
    return exchange.Rows(X, y, group, np.array([0]), np.arange(groups, dtype=np.float32)[:, None])


@settings(deadline=None)  # the first example imports
@given(st.integers(0, 2**32 - 1), st.integers(8, 120), st.integers(1, 3))
def test_metrics_are_ours(seed: int, n: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    rows = _rows(rng, n, groups)

    def decide(X: Any, group: Any) -> Any:
        return (X[:, 1] + 0.4 * X[:, 0] > 0.5).astype(int)

    found = exchange.measure(rows, decide)
    labels = np.stack([decide(copy, rows.group) for copy in rows.copies])
    predicted = decide(rows.X, rows.group)
    outcomes = Outcomes(
        y_true=rows.y,
        y_pred=predicted,
        score=predicted.astype(float),
        sensitive={"g": rows.group.astype(str)},
        consistent={"g": (labels == labels[0]).all(axis=0)},
    )
    expected = evaluate(outcomes, draws=0, min_cell=exchange.MIN_CELL).metrics
    for name, value in found.items():
        ours = expected[name if name == "balanced_accuracy" else f"{name}.g"].value
        assert (value is None) == (ours is None), name
        assert value is None or value == pytest.approx(ours, abs=1e-12), name


def test_metrics_by_hand() -> None:
    # group 0: TPR 4/5, FPR 1/5; group 1: TPR 2/5, FPR 2/5
    y = np.tile(np.repeat([1, 0], 5), 2)
    decided = np.array([1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0])
    found = exchange.group_metrics(y, decided, np.repeat([0, 1], 10))
    assert found == {
        "balanced_accuracy": pytest.approx((0.6 + 0.7) / 2),
        "equal_opportunity_difference": pytest.approx(0.4),
        "gap_max": pytest.approx(0.4),
        "demographic_parity_difference": pytest.approx(0.1),
    }


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_the_balanced_threshold_is_the_best_of_all(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    y, score = rng.integers(0, 2, n), rng.integers(0, 6, n) / 5
    y[:2] = 0, 1

    def gain(threshold: float) -> float:
        return float((score[y == 1] >= threshold).mean() - (score[y == 0] >= threshold).mean())

    found = gain(exchange.balanced_threshold(y, score))
    assert found == pytest.approx(max(gain(threshold) for threshold in [*score, np.inf]))


def _metrics(
    accuracy: float | None, gap: float | None, consistency: float | None = 1.0
) -> dict[str, Any]:
    return dict.fromkeys(exchange.CRITERIA, gap) | {
        "balanced_accuracy": accuracy,
        "consistency": consistency,
    }


def test_the_choice_by_hand() -> None:
    candidates = [
        _metrics(0.9, 0.2),
        _metrics(0.7, 0.05),
        _metrics(0.8, 0.04, 0.93),
        _metrics(0.8, 0.01),
    ]
    assert exchange.choose(candidates, "gap_max", 0.05) == 2
    assert exchange.choose(candidates, "gap_max", 0.2) == 0
    assert exchange.choose(candidates[:3], "gap_max", 0.02) == 2  # the nearest
    assert exchange.choose(candidates, "consistency", 0.1) == 0
    assert exchange.choose(candidates[2:3] + candidates[1:2], "consistency", 0.05) == 1
    assert exchange.choose([_metrics(0.9, None), _metrics(None, 0.0)], "gap_max", 0.05) is None


@given(
    st.lists(
        st.tuples(st.integers(50, 99), st.integers(0, 30) | st.none(), st.integers(80, 100)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(exchange.CRITERIA),
    st.sampled_from(exchange.LIMITS),
)
def test_the_choice_is_ours(table: list[Any], criterion: str, limit: float) -> None:
    candidates = [_metrics(a / 100, None if g is None else g / 100, c / 100) for a, g, c in table]
    candidates = [item for item in candidates if item[criterion] is not None]
    trials = [
        Trial(
            number,
            "search",
            "judged",
            metrics={
                "balanced_accuracy": {"value": item["balanced_accuracy"]},
                f"{criterion}.g": {"value": item[criterion]},
            },
        )
        for number, item in enumerate(candidates)
    ]
    ours, is_within = choose_trial(trials, f"{criterion}.g", limit, "point")
    number = exchange.choose(candidates, criterion, limit)
    assert number == (None if ours is None else ours.model)
    assert number is None or is_within == (
        exchange.shortfall(candidates[number], criterion, limit) == 0
    )


def test_rows_are_exchanged_and_split_without_overlap(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    train, test = _rows(rng, 200), _rows(rng, 50)
    exchange.write_rows(tmp_path / "rows.npz", train, test)
    for written, read in zip((train, test), exchange.read_rows(tmp_path / "rows.npz"), strict=True):
        for key, value in vars(written).items():
            np.testing.assert_array_equal(value, getattr(read, key))
            assert value.dtype == getattr(read, key).dtype
    parts = exchange.split(train, 0)
    assert [len(part.y) for part in parts] == pytest.approx([120, 40, 40], abs=4)
    noise = np.concatenate([part.X[:, 1] for part in parts])
    np.testing.assert_array_equal(np.sort(noise), np.sort(train.X[:, 1]))
    other = exchange.split(train, 1)[0]
    assert not np.array_equal(other.X, parts[0].X)


def test_a_search_trains_on_its_rows_and_chooses_by_validation(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    train, test = _rows(rng, 400), _rows(rng, 200)
    fit, held, validation = exchange.split(train, 0)
    seen: list[tuple[int, int]] = []

    def learn(settings: exchange.Settings, fit: exchange.Rows, held: exchange.Rows) -> Any:
        seen.append((len(fit.y), len(held.y)))
        if settings["shift"] > 1.5:
            raise ValueError("too far")
        sum(range(200_000))  # some CPU time
        yield {"rule": 0}, lambda X, group: (X[:, 1] > settings["shift"]).astype(int)

    found = exchange.search(
        lambda rng: {"shift": float(rng.uniform(-1, 2))},
        learn,
        train,
        test,
        clock=exchange.Clock(0.3),
        seed=0,
    )
    assert found["drawn"] == len(found["candidates"]) + found["failed"]
    assert found["errors"] == {"ValueError: too far": found["failed"]}
    chosen = found["cells"][exchange.FREE]
    candidates = found["candidates"]
    best = max(candidates, key=lambda item: item["validation"]["balanced_accuracy"])
    assert chosen["validation"] == best["validation"]
    shift = best["settings"]["shift"]
    assert best["validation"] == exchange.measure(validation, lambda X, group: X[:, 1] > shift)
    # this rule learns nothing from the rows, so the last training changes nothing
    assert (
        chosen["test"]
        == chosen["searched"]
        == exchange.measure(test, lambda X, group: X[:, 1] > shift)
    )
    assert seen[0] == (len(fit.y), len(held.y))
    assert seen[-1] == (len(fit.y) + len(validation.y), len(held.y))
    json.dumps(found, allow_nan=False)


def test_chosen_candidates_are_retrained_only_on_request() -> None:
    rng = np.random.default_rng(7)
    train, test = _rows(rng, 100), _rows(rng, 100)

    def learn(settings: exchange.Settings, fit: exchange.Rows, held: exchange.Rows) -> Any:
        sum(range(200_000))
        yield {}, lambda X, group: (X[:, 1] > len(fit.y) / 100).astype(int)

    fit, _, validation = exchange.split(train, 0)
    for again, rows in ((False, len(fit.y)), (True, len(fit.y) + len(validation.y))):
        found = exchange.search(
            lambda rng: {}, learn, train, test, clock=exchange.Clock(0.01), seed=0, again=again
        )
        expected = exchange.group_metrics(test.y, test.X[:, 1] > rows / 100, test.group)
        assert found["cells"][exchange.FREE]["test"] == expected | {"consistency": 1.0}


@pytest.mark.parametrize("of_wall", [False, True])
def test_a_candidate_that_takes_too_long_is_stopped(*, of_wall: bool) -> None:
    rows = _rows(np.random.default_rng(5), 60)

    def learn(settings: exchange.Settings, fit: exchange.Rows, held: exchange.Rows) -> Any:
        while True:
            if of_wall:
                time.sleep(0.01)  # takes no CPU time
            else:
                sum(range(1000))
        yield {}, None

    clock = exchange.Clock(0.05, of_wall=of_wall)
    found = exchange.search(lambda rng: {}, learn, rows, rows, clock=clock, seed=0)
    assert found["candidates"] == []
    assert found["cells"] == {}
    assert found["errors"] == {"stopped at 2 times the time": 1}


def test_each_clock_counts_its_own_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "cpu_seconds", iter([1.0, 3.0]).__next__)
    monkeypatch.setattr(exchange.time, "monotonic", iter([10.0, 17.0]).__next__)
    of_cpus = exchange.Clock(60.0)
    of_wall = exchange.Clock(60.0, of_wall=True)
    with of_cpus:
        pass
    with of_wall:
        pass
    assert (of_cpus.spent, of_wall.spent) == (2.0, 7.0)


# the page


def _entry(accuracy: float, gap: float = 0.01, *, within: bool = True) -> dict[str, Any]:
    found = {"within": within, "test": _metrics(accuracy, gap)}
    return {
        "candidates": 7,
        "cells": {"gap_max@0.05": found},
        "cells_interval": {"gap_max@0.05": found},
    }


def _content(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = enumerate(zip(ours, theirs, strict=True))
    splits = {str(split): {"evenhand": a, "fairgbm": b} for split, (a, b) in pairs}
    return {"seconds": 30.0, "commits": ["0a1b2c3d"], "results": {"adult": splits}}


@pytest.mark.parametrize(
    ("shift", "verdict"),
    # the noise has the variance .0001; times 1/5 + 1/4 the standard error is .00671; times 2.776:
    # .0186
    [(0.019, "ahead"), (0.018, "tied"), (-0.018, "tied"), (-0.019, "behind")],
)
def test_cells_are_judged_by_the_interval(shift: float, verdict: str) -> None:
    offs = [-0.01, 0.01, -0.01, 0.01, 0.0]
    content = _content([_entry(0.8 + shift + off) for off in offs], [_entry(0.8)] * 5)
    (cell,) = tuning_page.compare(content["results"], "fairgbm")
    assert (cell.difference, cell.verdict) == (pytest.approx(shift), verdict)
    page = "\n".join(tuning_page.sections(tuning_page.summarise(content), lambda result: ""))
    assert f"`tune` is behind by more than 0.01: {1 if shift < 0 else 'none'}" in page
    assert f"In {int(shift > -0.019)} of 1 cells" in page


def test_a_missing_candidate_decides_in_most_splits() -> None:
    here, not_here = _entry(0.7), _entry(0.9, within=False)
    for missing, verdict in ((2, "tied"), (3, "behind")):
        ours = [not_here] * missing + [here] * (5 - missing)
        (cell,) = tuning_page.compare(_content(ours, [here] * 5)["results"], "fairgbm")
        assert (cell.difference, cell.verdict, cell.only_peer) == (0.0, verdict, missing)
        (other,) = tuning_page.compare(_content([here] * 5, ours)["results"], "fairgbm")
        assert (other.verdict, other.only_ours) == (verdict.replace("behind", "ahead"), missing)


def test_kept_limits_are_counted_where_validation_kept_them() -> None:
    theirs = [_entry(0.8, 0.05), _entry(0.8, 0.051), _entry(0.8, 0.0, within=False)]
    content = _content([_entry(0.8)] * 3, theirs)
    assert tuning_page.kept(content["results"], "fairgbm") == (1, 2)


def _searched(accuracy: float, *, within: bool = True) -> dict[str, Any]:
    """An entry of one search with all that is kept of it."""
    entry = _entry(accuracy, 0.0345, within=within)
    del entry["cells_interval"]
    return entry | {"drawn": 3, "cpu_seconds": 30.04, "cells_auto": entry["cells"]}


def test_a_short_search_goes_on_from_what_is_kept() -> None:
    content = _content([_searched(0.7)], [_searched(0.8, within=False)])
    content["results"]["adult"]["0"]["fairlearn"] = {"error": "stopped"}
    kept = short_tuning.compact(content)
    again = short_tuning.whole_of(json.loads(json.dumps(kept)))
    assert short_tuning.compact(again) == kept
    entries = again["results"]["adult"]["0"]
    assert entries["fairlearn"] == {"error": "stopped"}
    assert not entries["fairgbm"]["cells"]["gap_max@0.05"]["within"]
    cell = entries["evenhand"]["cells"]["gap_max@0.05"]
    expected = {"balanced_accuracy": pytest.approx(0.7), "gap_max": pytest.approx(0.0345)}
    assert cell == {"within": True, "test": expected}


@pytest.mark.parametrize(
    ("shift", "verdict", "far"),
    # the differences have a standard error of .01 over five splits
    [(0.011, "ahead", 0), (0.009, "tied", 0), (-0.009, "tied", 0), (-0.011, "behind", 1)],
)
def test_short_searches_tie_within_an_error(shift: float, verdict: str, far: int) -> None:
    off = 0.01 * 5**0.5  # with two of each sign and a 0 it is the standard deviation
    ours = [_searched(0.7 + shift + sign * off) for sign in (-1, 1, -1, 1, 0)]
    content = _content(ours, [_searched(0.7)] * 5)
    (cell,) = short_tuning.compared(content["results"], "fairgbm")
    assert (cell.verdict, cell.is_far_behind) == (verdict, bool(far))
    assert cell.error == pytest.approx(0.01)
    page = "\n".join(short_tuning.short_sections(short_tuning.compact(content), lambda result: ""))
    assert f"In {far} of 1 cells" in page
    assert "Measured at 0a1b2c3d" in page
    summary = short_tuning.compact(content) | {"seen": ["adult"]}
    page = "\n".join(short_tuning.short_sections(summary, lambda result: ""))
    assert "| adult (seen) |" in page
    assert "| tables not marked as seen | 0 of 0 |" in page
    assert f"| public tables | {far} of 1 ({far:.1%}) | {verdict_of(shift)} |" in page


def test_counts_of_fewer_and_more_splits_stand_apart() -> None:
    """The goal is judged on the splits that are asked for."""
    ours = [_searched(accuracy) for accuracy in (0.6, 0.61, 0.8, 0.9)]
    content = _content(ours, [_searched(0.7)] * 4) | {"seconds": 120.0}
    for entries in content["results"]["adult"].values():
        entries |= dict.fromkeys(("error_parity", "fairlearn"), entries["fairgbm"])
    tables = {f"table {number}": content["results"]["adult"] for number in range(12)}
    content["results"] |= tables
    page = "\n".join(short_tuning.short_sections(short_tuning.compact(content), lambda result: ""))
    assert "Run so far: 26 of 26 pairs of table and split" in page
    assert "Beyond that 26 pairs of further splits." in page
    assert "In 13 of 13 cells (100.0%) another tool is ahead by more than .01: the goal" in page
    assert "of at most 5% is missed" in page
    assert "With the first 3 splits it is 0 of 13 (0.0%), with the first 4 splits" in page
    first = short_tuning.first_splits(content["results"], 2)
    assert {tuple(splits) for splits in first.values()} == {("0", "1")}


def verdict_of(difference: float) -> str:
    """A mean difference, and the same where both keep the limit, as the page has them."""
    text = f"{difference:+.3f}".replace("-", "−")
    return f"{text} ({text})"


def test_constants_are_counted_and_not_compared() -> None:
    """They keep every limit on groups, and their accuracy says nothing of a search."""
    constant = _searched(0.5)
    constant["cells"]["gap_max@0.05"]["test"]["gap_max"] = 0.0
    content = _content([_searched(0.7)] * 2, [constant, _searched(0.6)])
    (cell,) = short_tuning.compared(content["results"], "fairgbm")
    assert (cell.splits, cell.difference) == (1, pytest.approx(0.1))
    assert short_tuning.constants(content["results"], "fairgbm") == 1
    # one half of the labels right by chance, with a gap
    chance = _content([_searched(0.7)] * 2, [_searched(0.5)] * 2)
    assert short_tuning.constants(chance["results"], "fairgbm") == 0
    # a good candidate without a gap
    gapless = _searched(0.7)
    gapless["cells"]["gap_max@0.05"]["test"]["gap_max"] = 0.0
    good = _content([gapless] * 2, [_searched(0.6)] * 2)
    assert short_tuning.constants(good["results"], "fairgbm") == 0
    means = short_tuning.means(content["results"])
    assert means == {"evenhand": pytest.approx(0.7), "fairgbm": pytest.approx(0.6)}


def test_differences_where_both_keep_the_limit_are_shown_apart() -> None:
    content = _content([_searched(0.7)] * 2, [_searched(0.8), _searched(0.6)])
    content["results"]["adult"]["0"]["fairgbm"]["cells"]["gap_max@0.05"]["test"]["gap_max"] = 0.06
    (cell,) = short_tuning.compared(content["results"], "fairgbm")
    assert cell.difference == pytest.approx(0.0)
    assert cell.where_kept == (pytest.approx(0.1),)


def test_hypervolume_by_hand_and_by_counting() -> None:
    # .3 high above a criterion of .2, and .1 more above .4
    points = [(0.8, 0.2), (0.9, 0.4), (0.7, 0.3), (0.95, 1.0), (0.4, 0.0)]
    assert tuning_page.hypervolume(points) == pytest.approx(0.3 * 0.8 + 0.1 * 0.6)
    rng = np.random.default_rng(6)
    points = list(zip(rng.uniform(0.4, 1.0, 6), rng.uniform(0.0, 1.1, 6), strict=True))
    drawn = rng.uniform([0.5, 0.0], 1.0, (40_000, 2))
    share = np.mean([any(a >= x and c <= y for a, c in points) for x, y in drawn])
    assert tuning_page.hypervolume(points) == pytest.approx(0.5 * share, abs=0.01)
    assert tuning_page.hypervolume([]) == 0.0


def test_first_answers_are_medians_with_the_latest() -> None:
    rows = []
    for seconds, within in ((4.0, 8.0), (6.0, None)):
        rows.append({"table": "adult"} | dict.fromkeys(tune_first_answer.SECONDS, seconds))
        rows[-1]["first_within_cpu_seconds"] = within
    (line,) = tune_first_answer.summary_of(rows)
    assert line["runs"] == 2
    assert line["first_answer_cpu_seconds"] == {"runs": 2, "median": 5.0, "largest": 6.0}
    assert line["first_within_cpu_seconds"] == {"runs": 1, "median": 8.0, "largest": 8.0}
    page = "\n".join(tune_first_answer.sections([{"summary": [line]}, {}], lambda _: "made"))
    seconds = "5.0 s (6.0) | 5.0 s (6.0) | 5.0 s (6.0) | 8.0 s (8.0), 1 of 2 runs |"
    assert f"| adult | 48,842 | 2 | {seconds}" in page
    assert tune_first_answer.sections([{}, {}], lambda _: "made") == []
