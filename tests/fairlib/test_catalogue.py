"""Every metric and every method has its text, once."""

from __future__ import annotations

import inspect
import re

import pytest

from evenhand.fairlib import catalogue
from evenhand.fairlib.catalogue import METRICS, better, describe, direction, names_of, title
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, OVERALL_METRICS
from evenhand.fairlib.methods.registry import METHODS, PROXIES, method_class
from evenhand.fairlib.proxies.proxy_evaluation import MEASURES


@pytest.mark.parametrize("pattern", METRICS)
def test_every_metric_has_all_its_texts(pattern: str) -> None:
    info = METRICS[pattern]
    for text in (info.title, info.explanation, info.compares, info.formula, info.unit):
        assert text.strip()
    assert info.explanation.endswith(".")
    assert ("{subject}" in info.explanation) == bool(info.subject)
    low, high = info.domain
    assert low is None or high is None or low < high


def test_metrics_of_groups_are_those_that_are_measured_by_group() -> None:
    assert catalogue.group_metrics() == [*GROUP_METRICS, "calibration_gap"]


def test_every_measured_metric_is_in_the_catalogue() -> None:
    assert {*OVERALL_METRICS, *(f"{name}.<attr>" for name in GROUP_METRICS)} < set(
        names_of("classifier")
    )
    assert set(MEASURES) < set(names_of("proxy"))


def test_no_two_metrics_of_one_kind_share_a_title() -> None:
    titles = [(info.kind, info.title) for info in METRICS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", [*METHODS, *PROXIES])
def test_every_method_has_a_summary_and_a_source(name: str) -> None:
    spec = catalogue_entry = (METHODS | PROXIES)[name]
    # pages write "The model is <summary>"
    assert spec.summary.split()[0] in ("a", "an", "gradient-boosted")
    assert catalogue_entry.source
    assert inspect.isclass(method_class(name))


def test_a_name_is_its_entry_and_its_subject() -> None:
    assert describe("auc") == (METRICS["auc"], "")
    assert describe("gap_max.sex&race") == (METRICS["gap_max.<attr>"], "sex&race")
    assert describe("disclosivity.train") == (METRICS["disclosivity.train"], "")
    assert describe("label_rate_change") == (METRICS["label_rate_change"], "")
    assert describe("label_rate_change.sex") == (METRICS["label_rate_change.<attr>"], "sex")
    assert describe("psi.a.b") == (METRICS["psi.<column>"], "a.b")
    for unknown in ("gap_max", "auc.sex", "no_such"):
        with pytest.raises(KeyError):
            describe(unknown)


def test_titles_name_the_subject() -> None:
    assert (
        title("gap_max.sex&marital_status")
        == "Largest gap in error rates by sex and marital status"
    )
    assert title("consistency.spouse") == "Counterfactual consistency over spouse"
    assert title("psi.age") == "Population stability index of age"
    assert title("no_such.metric") == "no_such.metric"


def test_directions() -> None:
    assert better("auc") == "higher"
    assert better("gap_max.sex") == "lower"
    assert direction("imbalance_before") is None
    assert direction("no_such") is None
    with pytest.raises(ValueError, match="no direction"):
        better("imbalance_before")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("balanced_acuracy", "balanced_accuracy"),
        ("gap_max", "gap_max.<attr>"),
        ("equal_opportunity.sex", "equal_opportunity_difference.sex"),
        ("accuracy.sex", "accuracy"),
    ],
)
def test_the_nearest_name_of_an_unknown_metric_is_given(name: str, nearest: str) -> None:
    with pytest.raises(
        ValueError, match=rf"is not known \(did you mean {re.escape(repr(nearest))}"
    ):
        better(name)
    with pytest.raises(ValueError, match="'zzz', which is not known; "):
        better("zzz")


def test_no_second_list_of_metrics_or_methods() -> None:
    """Titles stand in the catalogue alone: no other module of ours repeats one."""
    from pathlib import Path

    root = Path(inspect.getfile(catalogue)).parents[1]
    sources = [
        path
        for folder in ("flows", "tasks", "data_contracts")
        for path in (root / folder).rglob("*.py")
    ]
    titles = [f'"{info.title}"' for info in METRICS.values() if " " in info.title]
    repeated = [
        (path.name, text) for path in sources for text in titles if text in path.read_text()
    ]
    assert repeated == []
