"""Jobs whose fair metric is learned from comparable people: copies of each, or rows that share
values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.distances import EXPLORE, FACE, Metric, SensitiveSubspace, load_metric
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.flows.job import ExploreMetric, FaceMetric, SubspaceMetric
from evenhand.flows.job_file import load_job
from evenhand.tasks.execution.dataset import Dataset, read_dataset

PROJECT = "method={name: project, n_steps: 8, n_jobs: 1}"
REFUSE = "gates={accuracy: {min: 1.5}}"


def run(
    bench: Any, *overrides: str, **more: Any
) -> tuple[dict[str, Any], Metric, Dataset, TableEncoder]:
    """Run up to the gates: what was printed, the metric, the training rows and their encoder."""
    given = [part for override in (*overrides, REFUSE) for part in ("--set", override)]
    done = bench.run(*given, "--json", **more)
    assert done.code == 1, done.err
    found = done.json["artifacts"]
    return (
        done.json,
        load_metric(found["fair_metric.metric"]),
        read_dataset(Path(found["preprocess.train"])),
        TableEncoder.load(found["preprocess.encoder"]),
    )


@pytest.mark.long
@pytest.mark.data
def test_a_model_sees_nothing_of_what_face_removes(bench: Any, data_folder: Path) -> None:
    done, metric, data, encoder = run(
        bench, "fair_metric={kind: face, explained_variance: 1.0}", PROJECT, job="german-project"
    )
    assert isinstance(metric, FACE)
    copies = encoded_copies(encoder, data.X, {"personal_status": "all"})
    assert len(copies) > 2
    for copy in copies:
        np.testing.assert_allclose(metric.distance(data.X, copy), 0.0, atol=1e-6)
    assert metric.basis_.shape[1] == len(copies) - 1
    assert done["metrics"]["consistency.status"] == 1.0


@pytest.mark.long
@pytest.mark.data
def test_explore_learns_from_the_jobs_copies_and_seed(bench: Any, data_folder: Path) -> None:
    done, metric, data, encoder = run(
        bench,
        "fair_metric={kind: explore, strength: 0.02, pairs: 500}",
        "evaluate.certificate.budget=0.2",
        "method={name: gbdt, n_steps: 5, n_jobs: 1}",
        "seed=3",
        job="german-gbdt",
    )
    assert isinstance(metric, EXPLORE)
    copies = encoded_copies(encoder, data.X, {"personal_status": "all"})
    expected = EXPLORE(0.02, max_pairs=500, random_state=derive_seed(3, "fair_metric"))
    expected.fit(data.X, counterfactuals=copies)
    np.testing.assert_allclose(
        metric.pairwise(data.X[:50]), expected.pairwise(data.X[:50]), atol=1e-9
    )
    other = np.roll(data.X, 1, axis=0)
    assert np.mean([metric.squared(data.X, copy).mean() for copy in copies]) < 0.05 * (
        metric.squared(data.X, other).mean()
    )
    assert done["metrics"]["certificate.drf"] >= 0


@pytest.mark.parametrize("kind", ["face", "explore"])
def test_people_with_equal_values_are_comparable(bench: Any, kind: str) -> None:
    _, metric, data, _ = run(
        bench, f"fair_metric={{kind: {kind}, comparable_by: [job, owner]}}", PROJECT
    )
    columns = [*data.groups["job"], *data.groups["owner"]]
    names = ["".join(map(str, row)) for row in data.X[:, columns].tolist()]
    assert len(set(names)) == 6
    if kind == "face":
        expected: Metric = FACE(explained_variance=0.95).fit(data.X, groups=names)
    else:
        ids = np.unique(data.X[:, columns], axis=0, return_inverse=True)[1]
        expected = EXPLORE(random_state=derive_seed(0, "fair_metric")).fit(data.X, groups=ids)
    np.testing.assert_allclose(
        metric.pairwise(data.X[:40]), expected.pairwise(data.X[:40]), atol=1e-6
    )
    # what these people share is all that counts
    assert metric.basis_.shape[1] == data.X.shape[1] - len(columns) or kind == "explore"


@pytest.mark.long
def test_only_the_listed_counterfactuals_count(bench: Any) -> None:
    both = "evaluate.counterfactuals={work: {job: all}, house: {owner: all}}"
    _, one, data, _ = run(
        bench, both, "fair_metric={kind: face, counterfactuals: [house]}", PROJECT
    )
    # who owns has (0, 1), who does not (1, 0)
    expected = np.zeros(data.X.shape[1])
    expected[data.groups["owner"]] = [-np.sqrt(0.5), np.sqrt(0.5)]
    np.testing.assert_allclose(
        np.outer(one.basis_[:, 0], one.basis_[:, 0]), np.outer(expected, expected)
    )
    _, every, _, _ = run(bench, both, "fair_metric={kind: face, explained_variance: 1}", PROJECT)
    assert (one.basis_.shape[1], every.basis_.shape[1]) == (1, 3)
    _, two, _, _ = run(bench, both, "fair_metric={kind: face, n_directions: 2}", PROJECT)
    assert two.basis_.shape[1] == 2


@pytest.mark.long
def test_a_metric_is_relearned_only_if_its_inputs_changed(bench: Any) -> None:
    subspace = "fair_metric={indicators: [], learned: [sex]}"
    face = "fair_metric={kind: face, counterfactuals: [work]}"
    fewer = "evaluate.counterfactuals={work: {job: [cook, smith]}}"
    more = "evaluate.counterfactuals={work: {job: all}, house: {owner: all}}"
    assert isinstance(run(bench, subspace, PROJECT)[1], SensitiveSubspace)
    run(bench, face, PROJECT)
    for change, metric, same in (
        (fewer, subspace, True),
        (more, subspace, True),
        (more, face, True),
        (fewer, face, False),
    ):
        cached = run(bench, change, metric, PROJECT)[0]["cached"]
        assert ("fair_metric" in cached) is same, (change, metric)


# the section as written


@pytest.fixture
def section(bench: Any) -> Callable[..., Any]:
    """The metric's section of a job with some overrides."""

    def load(*overrides: str) -> Any:
        return load_job(str(bench.write()), overrides)[0].fair_metric

    return load


def test_a_section_without_a_kind_is_a_sensitive_subspace(section: Callable[..., Any]) -> None:
    assert section() == SubspaceMetric()
    assert section("fair_metric.learned=[sex]") == SubspaceMetric(learned=["sex"])
    assert section("fair_metric.kind=") == SubspaceMetric()
    assert section("fair_metric.kind=sensitive-subspace").strength == 0.1


def test_keys_of_each_kind(section: Callable[..., Any]) -> None:
    assert section("fair_metric.kind=face") == FaceMetric(kind="face")
    assert section("fair_metric={kind: face, n_directions: 3}").n_directions == 3
    assert section("fair_metric.kind=explore") == ExploreMetric(kind="explore")
    assert section("fair_metric.kind=explore", "fair_metric.strength=1e-3").strength == 1e-3
    assert section("fair_metric.kind=explore").pairs == 20_000
