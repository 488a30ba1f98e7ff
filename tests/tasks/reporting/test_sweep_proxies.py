"""The report of a sweep of proxies: trade-offs held out and in training, and the groups of each proxy."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from html_tree import Node, read
from test_report_svg import boxes

from evenhand.flows.grid import PointResult, make_grid
from evenhand.flows.tradeoffs import tradeoffs
from evenhand.tasks.reporting.balance_plots import differences
from evenhand.tasks.reporting.sweep import render_sweep
from evenhand.tasks.reporting.sweep_balance import evenly, share_panels, tell_panels
from evenhand.tasks.reporting.sweep_panels import estimate

GROUPS = ["admin", "student", "unknown"]
HOSTILE = '<script>alert("1")</script>'


def balance(alpha: float, seed: int) -> dict[str, Any]:
    """The larger alpha, the nearer the shares come to the target; too few rows of the last group."""
    spread = [0.0] if alpha == 0 else [alpha, -alpha]
    after = 0.2 + alpha + seed / 100
    return {
        "attributes": {"job": GROUPS},
        "groups": [f"job={group}" for group in GROUPS],
        "target": [0.3, 0.5, 0.2],
        "base_rates": [0.7, 0.2, None],
        "base_rates_train": [0.7, 0.2, 0.1],
        "compositions": [[0.7 - d, 0.2 + d, None] for d in spread],
        "compositions_train": [[0.7 - d, 0.2 + d, 0.1] for d in spread],
        "rows": [100.0 for _ in spread],
        "masses": [0.25, 0.75][: len(spread)],
        "acceptance": [1.0 for _ in spread],
        "shares_before": [0.7, 0.2, None],
        "shares_after": [0.9 - after, after, None],
        "shares_after_train": [0.9 - after, after, 0.1],
        "distances": [0.4],
        "bound": None,
    }


def outcome(alpha: float, seed: int, shift: float = 0.0) -> PointResult:
    found = {
        "disclosivity": alpha + 0.02,
        "imbalance": 0.5 - alpha + shift,
        "imbalance_before": 0.5,
        "kept": 0.3,
        "disclosivity.train": alpha,
        "imbalance.train": 0.4 - alpha + shift,
    }
    metrics: dict[str, dict[str, float | None]] = {
        name: {"value": value + seed / 1000, "low": None, "high": None} for name, value in found.items()
    }
    return PointResult("done", "passed", metrics, {"learn_proxy": 1.0}, [], balance=balance(alpha, seed))


def example(
    *over: str, seeds: int = 2, best: str | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    grid = make_grid("bank-proxy", over or ["method.alpha=0,0.1,0.2"], seeds=seeds, best=best)
    results = [
        outcome(
            point.resolved.arguments.get("alpha", 0.3),
            point.seed,
            0.01 * point.resolved.method.startswith("relaxed"),
        )
        for point in grid.points
    ]
    balances = [
        {"value": point.value, "seed": point.seed, "balance": result.balance}
        for point, result in zip(grid.points, results, strict=True)
    ]
    return {"run_id": "sweep-1", "seconds": 12.5} | tradeoffs(grid, results), balances


def page(document: dict[str, Any], balances: list[dict[str, Any]]) -> Node:
    return read(render_sweep(document, balances=balances, created="2026-05-03", made=[], files=[]))


def plots(root: Node, title: str) -> list[Node]:
    return [plot for plot in root.all("svg") if title in plot.all("title")[0].text()]


BY_METHOD = ("method=proxy,relaxed-proxy", "method.alpha=0.1,0.2")


@pytest.mark.parametrize("over", [(), BY_METHOD, ("method=proxy,qp-tree",)])
def test_ids_are_unique_and_every_plot_speaks(over: tuple[str, ...]) -> None:
    root = page(*example(*over))
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    targets = {(node.attrs.get("href") or "")[1:] for node in root.all("a")}
    assert {"tradeoffs", "groups", "tells"} <= targets <= set(ids)
    for plot in root.all("svg"):
        assert plot.all("desc")[0].text()
    for table in root.all("table"):
        assert len({len(row.all("th", "td")) for row in table.all("tr")}) == 1


def test_a_sweep_of_classifiers_has_no_such_sections() -> None:
    grid = make_grid("loans-gbdt", ["method.eta=0.1,0.2"])
    metrics: dict[str, dict[str, float | None]] = {"auc": {"value": 0.5, "low": None, "high": None}}
    document = tradeoffs(grid, [PointResult("done", "passed", metrics) for _ in grid.points])
    root = page(document | {"run_id": "r", "seconds": 1.0}, [])
    assert not {"groups", "tells"} & {node.attrs.get("id") for node in root.walk()}
    assert "proxy" not in root.text()


def test_what_is_told_against_what_is_left_is_drawn_held_out_and_in_training_on_equal_axes() -> None:
    document, balances = example(best="imbalance where disclosivity <= 0.3")
    assert document["fronts"] == {"disclosivity": [0, 1, 2], "disclosivity.train": [0, 1, 2]}
    assert document["front"] == [0, 1, 2]
    assert document["best"]["value"] == 2
    drawn = plots(page(document, balances), "against")
    assert [plot.all("title")[0].text() for plot in drawn] == [
        "Distance from the target against Most a proxy group tells",
        "Distance, training rows against Tells at most, training rows",
    ]
    held, train = ([text.text() for text in plot.all("text")] for plot in drawn)
    numbers = [[text for text in texts if re.fullmatch(r"0\.\d+", text)] for texts in (held, train)]
    assert numbers[0] == numbers[1], "ticks and labels of values"
    assert {"0", "0.1", "0.2"} <= set(held)
    # on equal axes, in training less is told and less is left
    corner = [min(float(c.attrs["cx"] or 0) for c in plot.all("circle")) for plot in drawn]
    assert corner[0] > corner[1]
    # the limit is one of what is held out
    lines = [[n for n in plot.all("line") if n.attrs["class"] == "reference"] for plot in drawn]
    assert [len(found) for found in lines] == [1, 0]


def test_intervals_end_where_the_metrics_do() -> None:
    document, _ = example()
    (value, *_) = document["values"]
    for name in value["metrics"]:
        value["metrics"][name] |= {"low": -0.5, "high": 1.5}
    ends = {name: estimate(document, value, name) for name in value["metrics"]}
    assert {found.low for found in ends.values() if found} == {0.0}
    assert {name for name, found in ends.items() if found and found.high == 1.0} == {
        "disclosivity",
        "disclosivity.train",
        "kept",
    }


def test_the_metric_to_compare_with_is_called_neither_better_way() -> None:
    document, balances = example()
    assert document["metrics"]["imbalance_before"] is None
    text = page(document, balances).text()
    assert "Distance before filtering (to compare with)" in text
    assert "None is better" not in text


def test_one_line_joins_the_values_of_each_method() -> None:
    document, balances = example(*BY_METHOD)
    root = page(document, balances)
    for plot in plots(root, "against"):
        curves = [n for n in plot.all("path") if (n.attrs["class"] or "").startswith("curve")]
        assert [n.attrs["class"] for n in curves] == ["curve c0", "curve c1"]
        texts = [text.text() for text in plot.all("text")]
        assert {"proxy", "relaxed-proxy"} <= set(texts)
        assert texts.count("0.1") >= 2, "each method has its own"
    assert "A line joins the values of one method" in root.text()
    assert "dashed line joins" not in root.text()


@pytest.mark.parametrize("over", [("method=proxy,relaxed-proxy",), ("method.alpha=0.1,0.2",)])
def test_without_several_values_of_a_method_the_line_is_the_front(over: tuple[str, ...]) -> None:
    root = page(*example(*over))
    assert "dashed line joins the Pareto front" in root.text()
    for plot in plots(root, "against"):
        assert not [n for n in plot.all("path") if n.attrs["class"] == "curve c0"]


def test_six_values_at_most_both_ends_among_them() -> None:
    assert evenly(range(4), 6) == [0, 1, 2, 3]
    assert evenly(range(11), 6) == [0, 2, 4, 6, 8, 10]
    assert evenly([3, 5, 6, 9], 3) == [3, 6, 9]
    document, balances = example("method.alpha=0,0.01,0.02,0.03,0.04,0.05,0.06,0.07", seeds=1)
    (panel,) = share_panels(document, balances)
    assert panel["heads"][2:] == ["0", "0.01", "0.03", "0.04", "0.06", "0.07"]
    assert "six are shown" in page(document, balances).text()


def test_the_table_of_groups_has_means_over_the_seeds_by_hand() -> None:
    (panel,) = share_panels(*example())
    assert panel["about"] == "job"
    assert panel["heads"] == ["All rows", "Wanted", "0", "0.1", "0.2"]
    student = panel["rows"][1]
    assert (student["group"], student["common"]) == ("student", ["20.0%", "50.0%"])
    # 0.2 + alpha, and the mean of 0 and 0.01 for the seeds
    assert student["cells"] == [("20.5%", ""), ("30.5%", ""), ("40.5%", "")]


def test_what_one_seed_hides_stays_hidden() -> None:
    document, balances = example()
    balances[0]["balance"]["shares_after"][1] = None
    (panel,) = share_panels(document, balances)
    assert [row["cells"][0][0] for row in panel["rows"]] == ["69.5%", "not available", "not available"]
    assert [row["cells"][1][0] for row in panel["rows"]] == ["59.5%", "30.5%", "not available"]


def test_values_with_other_rows_targets_or_groups_say_so_themselves() -> None:
    document, balances = example(seeds=1)
    other = balances[1]["balance"]
    other["target"] = [0.4, 0.4, 0.2]
    other["shares_before"] = [0.6, 0.3, None]
    (panel,) = share_panels(document, balances)
    assert panel["heads"] == ["0", "0.1", "0.2"]
    assert panel["rows"][1]["cells"][1] == ("30.0%", "All rows: 30.0%, Wanted: 40.0%")
    other["attributes"] = {"job": ["admin", "student", "clerk"]}
    (panel,) = share_panels(document, balances)
    assert [row["group"] for row in panel["rows"]] == [*GROUPS, "clerk"]
    assert panel["rows"][3]["cells"][0] == ("no such group", "")
    assert page(document, balances).text().count("no such group") == 3
    other["attributes"] = {"sex": ["a", "b", "c"]}
    assert [part["heads"] for part in share_panels(document, balances)] == [
        ["All rows", "Wanted", "0", "0.2"],
        ["All rows", "Wanted", "0.1"],
    ]


def test_labels_too_long_for_a_column_are_numbered_in_picture_and_table() -> None:
    document, balances = example(*BY_METHOD)
    (panel,) = share_panels(document, balances)
    assert panel["heads"][2:4] == ["1: method=proxy, alpha=0.1", "2: method=proxy, alpha=0.2"]
    for plot in panel["plots"]:
        assert {"1", "2", "3", "4"} <= {text for text, *_ in boxes(plot)}


def test_differences_by_hand_largest_proxy_group_first() -> None:
    found = differences(balance(0.1, 0))
    assert found[:2] == [[pytest.approx(0.1), pytest.approx(-0.1)], [pytest.approx(-0.1), pytest.approx(0.1)]]
    assert found[2] == [None, None]
    thin = balance(0.1, 0)
    thin["compositions"][1] = None
    assert [line[0] for line in differences(thin)] == [None, None, None]


def test_what_is_told_is_drawn_of_three_values_that_tell_something_in_equal_colours() -> None:
    document, balances = example("method.alpha=0,0.1,0.2,0.3,0.4")
    panels = tell_panels(document, balances)
    assert [part["name"] for part in panels] == [f"method.alpha {alpha}" for alpha in (0.1, 0.3, 0.4)]
    assert all(part["said"].startswith("Seed 0: 2 proxy groups.") for part in panels)
    assert "40.0 percentage points, of “" in panels[2]["said"]
    darkest = [
        max(float(text) for text in re.findall(r'fill-opacity="([\d.]+)"', part["plots"][0]))
        for part in panels
    ]
    assert darkest == [pytest.approx(0.25 * darkest[2]), pytest.approx(0.75 * darkest[2]), darkest[2]]
    assert "one with a single proxy group tells nothing" in page(document, balances).text()


def test_the_first_seed_that_finished_is_drawn() -> None:
    document, balances = example("method.alpha=0.1,0.2", seeds=3)
    panels = tell_panels(document, [point for point in balances if (point["value"], point["seed"]) != (0, 0)])
    assert [part["said"].partition(":")[0] for part in panels] == ["Seed 1", "Seed 0"]


def test_many_proxy_groups_are_cut_and_the_rest_is_told() -> None:
    document, balances = example("method.alpha=0.1", seeds=1)
    many = balances[0]["balance"]
    many["masses"], many["compositions"] = [1 / 40] * 40, [[0.6, 0.3, None]] * 40
    (panel,) = tell_panels(document, balances)
    assert "40 proxy groups, of which the largest 30 are drawn." in panel["said"]


def test_proxies_that_all_have_one_group_have_no_heat_maps() -> None:
    document, balances = example("method.alpha=0", seeds=1)
    root = page(document, balances)
    assert tell_panels(document, balances) == []
    assert "tells" not in {node.attrs.get("id") for node in root.walk()}


def test_without_held_out_evidence_the_page_is_still_whole() -> None:
    grid = make_grid("bank-proxy", ["method.alpha=0,0.1"])
    lacking = {"value": None, "low": None, "high": None}
    results = [outcome(0.1, 0), outcome(0.1, 0)]
    for result in results:
        result.metrics |= {"imbalance": dict(lacking), "kept": dict(lacking)}
    document = tradeoffs(grid, results) | {"run_id": "r", "seconds": 1.0}
    assert document["fronts"] == {"disclosivity": [], "disclosivity.train": [0, 1]}
    drawn = plots(page(document, []), "against")
    assert [plot.all("title")[0].text() for plot in drawn] == [
        "Distance, training rows against Tells at most, training rows"
    ]


def test_hostile_groups_and_labels_stay_text() -> None:
    document, balances = copy.deepcopy(example())
    for point in balances:
        point["balance"]["attributes"] = {HOSTILE: [HOSTILE, "b", "c"]}
    for value in document["values"]:
        value["label"] = value["mark"] = value["name"] = HOSTILE + value["label"]
    root = page(document, balances)
    assert not root.all("script")
    assert HOSTILE in root.text()
