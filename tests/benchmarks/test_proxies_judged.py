"""The choice of a proxy's settings on other people, and its controls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.studies import judged_proxies
from benchmarks.studies.judged_proxies import (
    Fits,
    candidates,
    distance,
    least_imbalance,
    measured,
    sampled,
)
from benchmarks.summaries import records_of
from evenhand.fairlib.proxies.tree import ProxyTree


def mean(disclosivity: float, imbalance: float, support: float = 1.0) -> dict[str, float]:
    return {"disclosivity": disclosivity, "imbalance": imbalance, "support": support}


def test_the_most_balanced_candidate_near_the_limit_is_chosen() -> None:
    """A candidate is near up to a quarter above the limit."""
    means = [mean(0.1, 0.5), mean(0.25, 0.3), mean(0.26, 0.1), mean(0.2, 0.2, support=0.59)]
    assert least_imbalance(0.2, 0.0)(means) == 3
    assert least_imbalance(0.2, 0.6)(means) == 1
    # without one within the limit the least disclosive, and without support all count
    assert least_imbalance(0.05, 0.6)(means) == 0
    assert least_imbalance(0.2, 1.1)(means) == 3
    # an undefined disclosivity is not within any limit
    assert least_imbalance(0.2, 0.0)([mean(float("nan"), 0.0), mean(0.1, 0.9)]) == 1


def test_the_distance_of_shares_by_hand() -> None:
    names = np.array(["a", "b"])
    assert distance(np.array(["a", "a", "a", "b"]), names) == pytest.approx(np.hypot(0.25, 0.25))
    assert distance(np.array(["b", "a"]), names) == 0.0
    # a group that the sample lacks counts
    assert distance(np.array(["a", "a"]), names) == pytest.approx(np.hypot(0.5, 0.5))


def split() -> Any:
    """Two groups of 3 to 1, which the first column tells apart nine times in ten."""
    rng = np.random.default_rng(0)
    group = np.where(rng.random(600) < 0.25, "few", "many")
    x = np.where(rng.random(600) < 0.9, group == "few", group != "few") + 0.1 * rng.normal(size=600)
    X = np.stack([x, rng.normal(size=600)], axis=1).astype(np.float32)
    made = SimpleNamespace(
        X=[X[:400], X[400:]], groups=[group[:400], group[400:]], attribute="group"
    )

    def fit(method: str, rows: Any, **arguments: Any) -> ProxyTree:
        made.fits += 1
        return ProxyTree(**arguments).fit(
            X[:400][rows], sensitive_features={"group": group[:400][rows]}
        )

    made.fit, made.fits = fit, 0
    return made


def test_a_tree_is_grown_once_for_all_supports() -> None:
    people = split()
    fits, rows = Fits(people, "proxy", 0.7), np.arange(300)
    settings = [
        {"progress": 0.1, "tolerance": 0.1, "min_leaf": 20, "support": s} for s in (0.0, 0.1)
    ]
    plain, supported = (fits.measure(each, rows, np.arange(300, 400)) for each in settings)
    assert people.fits == 1
    assert plain["support_size"] < supported["support_size"]
    again = Fits(people, "proxy", 0.7).measure(settings[0], rows, np.arange(300, 400))
    assert again == plain
    fits.measure(settings[0], rows[:200], np.arange(300, 400))
    assert people.fits == 3


def test_samples_by_known_group_are_balanced_random_ones_are_not() -> None:
    people = split()
    rare = float((people.groups[1] == "few").mean())
    chances = np.where(people.groups[1] == "few", 1.0, rare / (1 - rare))
    found = sampled(people, chances, seed=0)
    before = distance(people.groups[1], np.array(["few", "many"]))
    assert found["sampled_imbalance"] < 0.1 < before / 2
    assert found["random_imbalance"] == pytest.approx(before, abs=0.05)


def test_a_limit_that_allows_no_split_measures_everybody() -> None:
    people = split()
    proxy = ProxyTree(alpha=1.0, min_leaf=400).fit(
        people.X[0], sensitive_features={"group": people.groups[0]}
    )
    found = measured(proxy, people, 1)
    assert (found["disclosivity"], found["kept"]) == (0.0, 1.0)
    assert found["imbalance"] == pytest.approx(
        distance(people.groups[1], np.array(["few", "many"]))
    )


def test_the_page_counts_choices_and_misses() -> None:
    row = dict.fromkeys((*judged_proxies.COLUMNS, "auc_random"), 0.5)
    runs = []
    for seed in range(3):
        run: dict[str, Any] = {
            name: row | {"chosen": candidates("qp-regression")[seed > 0], "within": seed > 0}
            for name in (*judged_proxies.TREE_FAMILIES, *judged_proxies.COMPARATORS)
        }
        runs.append(
            run | {judged_proxies.KNOWN: row, "no filter": {"imbalance": 0.25 + 0.1 * seed}}
        )
    summary = records_of(judged_proxies.summarise({"result": {"bank": {"0.2": runs}}}))
    page = judged_proxies.section(summary["result"], {"bank": "Bank"})
    assert "no filter: imbalance 0.350 ± 0.058" in page
    assert "`qp-regression`: mixing 0.1 (2) / mixing 0.0 (1), 1 above the limit" in page
    assert page.count("| 0.000 ± 0.000 |") == 7
    assert cast(str, page).count("\n| ") == 8
