"""The audit of comparable treatment within a run: its budget, metric, gate and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, logit
from sklearn.metrics import log_loss

from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.transport_adversary import audit_losses, transport_audit
from evenhand.fairlib.methods.registry import load_model, method_class
from evenhand.flows.classifier_jobs import certificate_budget
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.measured_controls import MeasuredControl
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.steps.evaluate_step import _relative_increase

BUDRO = (
    "method={name: budro, n_steps: 4, eta: 0.3, min_child_weight: 0.001, perturbation_budget: 0.2}"
)
REFUSE = "gates={accuracy: {min: 1.5}}"
# one learned direction: whatever the contract makes of the sensitive columns, there is a subspace
METRIC = "fair_metric={indicators: [], learned: [sex]}"


@pytest.fixture
def written(bench: Any) -> Callable[..., ResolvedJob]:
    bench.write()
    return lambda *overrides: resolve(*load_job(str(bench.folder / "job.yaml"), overrides))


def test_the_budget_is_the_jobs_own_or_the_one_trained_with(written: Any) -> None:
    def budget(*overrides: str) -> float | None:
        return certificate_budget(written(*overrides), 2.0)

    assert budget() is None
    assert not written().has_certificate
    assert budget("evaluate.certificate.budget=0.7") == 0.7
    # a share of the mean squared distance between two random people
    share = method_class("budro")().budget_share
    assert budget("method=budro") == 2.0 * share
    assert budget("method={name: budro, budget_share: 0.3}") == 0.6
    assert budget(BUDRO) == 0.2
    assert budget(BUDRO, "evaluate.certificate.budget=0") == 0.0


def test_only_a_job_with_a_certificate_may_have_a_gate_on_it(written: Any) -> None:
    gate = "gates={certificate.drf: {max: 0.1}}"
    assert written(BUDRO, gate).job.gates
    assert written("evaluate.certificate.budget=0.1", gate).job.gates
    with pytest.raises(InputError, match=r"'certificate\.drf' names no metric"):
        written(gate)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "evaluate.certificate.budget=-0.1",
            ("evaluate.certificate.budget", "at least 0"),
        ),
        ("evaluate.certificate.budget=.nan", ("evaluate.certificate.budget", "finite")),
        ("evaluate.certificate={budget: 1, radius: 1}", ("radius", "known: budget")),
        # earlier versions had several solvers
        ("method.solver=entropic", ("unknown key 'method.solver'", "budro takes: ", "neighbours")),
        ("method.entropy=0.1", ("unknown key 'method.entropy'", "budro takes: ")),
        ("method.validation_metric=f1", ("method.validation_metric", "'balanced_accuracy'")),
        ("method.perturbation_budget=.inf", ("method.perturbation_budget", "finite")),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(
    bench: Any, override: str, words: tuple[str, ...]
) -> None:
    done = bench.run("--set", BUDRO, "--set", override)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    for word in words:
        assert word in done.err, done.err
    assert not (bench.store / "steps").exists()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("method.perturbation_budget=-1", ("perturbation_budget", "not negative")),
        ("method.neighbours=0", ("neighbours", "at least 1")),
        (
            "fair_metric={indicators: [], learned: []}",
            ("subspace is nothing", "fair_metric.learned"),
        ),
    ],
)
def test_what_only_training_can_tell_is_one_line_too(
    bench: Any, override: str, words: tuple[str, ...]
) -> None:
    done = bench.run("--set", BUDRO, "--set", "evaluate.certificate.budget=0.1", "--set", override)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    for word in words:
        assert word in done.err, done.err


@pytest.mark.parametrize("method", ["method={name: gbdt, n_steps: 5}", BUDRO])
def test_a_run_keeps_its_certificate_pairs_and_price(bench: Any, method: str) -> None:
    done = bench.run(
        "--set",
        method,
        "--set",
        METRIC,
        "--set",
        REFUSE,
        "--set",
        "evaluate.certificate.budget=0.3",
        "--set",
        "calibration=none",
        "--set",
        "decision=own",
        "--json",
    )
    assert done.code == 1, done.err
    found = done.json["artifacts"]
    model = load_model(found["train.model"])
    data = read_dataset(Path(found["preprocess.test"]))
    metric = SensitiveSubspace.load(found["fair_metric.metric"])
    expected = transport_audit(model, data.X, data.y, metric, 0.3, draws=0)
    metrics = done.json["metrics"]
    assert metrics["certificate.drf"] == pytest.approx(expected.gap, rel=1e-9)
    assert metrics["certificate.drf.low"] <= expected.gap <= metrics["certificate.drf.high"]
    assert metrics["certificate.drf.low"] < metrics["certificate.drf.high"]

    content = json.loads(Path(found["evaluate.audit"]).read_text())
    assert content["people"] == len(data.y)
    assert content["spent"] == pytest.approx(0.3)
    pairs = pq.read_table(found["evaluate.pairs"]).to_pydict()
    row_of = {row: k for k, row in enumerate(data.rows)}
    worst, other = row_of[pairs["row"][0]], row_of[pairs["treated_as"][0]]
    apart = metric.distance(data.X[[worst]], data.X[[other]])[0]
    assert pairs["distance"][0] == pytest.approx(apart, abs=1e-6)
    probability = model.predict_proba(data.X)
    revealed = np.log(probability[worst, data.y[worst]] / probability[other, data.y[worst]])
    assert pairs["revealed_loss"][0] == pytest.approx(revealed, rel=1e-5)
    assert pairs["revealed_loss"] == sorted(pairs["revealed_loss"], reverse=True)
    assert len(content["pairs"]) <= 10

    report = Path(found["report"]).read_text()
    assert "How much does the mean loss rise" in report
    assert "Effect of the mitigation" in report
    plain = done.json["controls"]["plain"]
    assert plain["same_as"] == (None if "budro" in method else "method")
    difference = plain["differences"]["certificate.drf"]["value"]
    assert difference == pytest.approx(
        metrics["certificate.drf"] - plain["metrics"]["certificate.drf"]
    )
    assert (difference < 0) == ("budro" in method)
    # relative to the plain control where its log loss is not below the model's
    relative = metrics["certificate.drf_relative"]
    if "budro" not in method:
        assert relative == pytest.approx(1.0)
        return
    score = load_model(found["controls.plain"]).predict_proba(data.X)[:, 1]
    centre = logit(data.y.mean())
    drawn = [
        expit(share * logit(score) + (1 - share) * centre) for share in np.linspace(0, 1, 10_001)
    ]
    losses_drawn = [-np.log(np.where(data.y == 1, p, 1 - p)).mean() for p in drawn]
    nearest = drawn[int(np.abs(np.array(losses_drawn) - expected.loss).argmin())]
    assert log_loss(data.y, score) < expected.loss, "nothing had to be drawn together"
    losses = -np.log(np.stack([1 - nearest, nearest]))
    increase = audit_losses(losses, metric.project(data.X), data.y, 0.3, draws=0).gap
    assert relative == pytest.approx(expected.gap / increase, rel=1e-3)


def test_the_relative_increase_by_hand(tmp_path: Path) -> None:
    """Of two people two apart, the plain control's loss, no lower than the model's, rises
    by 1/4.
    """
    SensitiveSubspace(indicators=[0]).fit(np.zeros((2, 2))).save(tmp_path)
    test = SimpleNamespace(
        context=SimpleNamespace(inputs={"metric": tmp_path}),
        data=SimpleNamespace(X=np.array([[0.0, 0.0], [1.0, 2.0]])),
    )
    model = SimpleNamespace(loss=1.4, budget=1.0, gap=0.05)

    def relative(*score: float) -> MetricValue:
        outcomes = Outcomes(y_true=[1, 1], y_pred=[1, 1], score=list(score), sensitive={})
        return _relative_increase(test, model, [MeasuredControl("plain", outcomes, {})])

    assert relative(np.exp(-1), np.exp(-2)).value == pytest.approx(0.05 / 0.25)
    equal = relative(0.1, 0.1)
    assert equal.value is None
    assert "does not rise either" in equal.reason


def test_another_certificate_evaluates_again_and_trains_nothing(bench: Any) -> None:
    first = bench.run("--set", BUDRO, "--set", METRIC, "--set", REFUSE, "--json")
    assert first.code == 1, first.err
    again = bench.run(
        "--set",
        BUDRO,
        "--set",
        METRIC,
        "--set",
        REFUSE,
        "--set",
        "evaluate.certificate.budget=0.9",
        "--json",
    )
    assert "train" in again.json["cached"]
    assert "evaluate" not in again.json["cached"]
    assert again.json["metrics"]["certificate.drf"] > first.json["metrics"]["certificate.drf"]


NETWORK = "method={name: nn, n_steps: 40, hidden: [8]}"


@pytest.mark.parametrize("decided", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_proof_of_a_network_is_in_metrics_gates_and_report(bench: Any, decided: bool) -> None:
    settings = ["evaluate.certificate.budget=0.01", "evaluate.proof_parts=5", METRIC, NETWORK]
    settings += ["gates={certificate.score.proved: {max: 0.0}, certificate.dif: {max: 1000}}"]
    settings += ["calibration=isotonic"] if decided else ["calibration=none", "decision=own"]
    done = bench.run("--json", "--direct", *(word for one in settings for word in ("--set", one)))
    assert done.code == 1, done.json["gates"]
    metrics = done.json["metrics"]
    for name in ("dif", "score", "flips", "loss"):
        assert 0.0 <= metrics[f"certificate.{name}.found"] <= metrics[f"certificate.{name}.proved"]
    # the given people are among the comparable points
    assert 0.0 < metrics["certificate.drf"] <= metrics["certificate.loss.proved"]
    assert 0.0 <= metrics["certificate.radius.proved"] <= metrics["certificate.radius.found"]
    assert metrics["certificate.dif"] <= metrics["certificate.dif.found"] * (1 + 1e-6)
    # the interval over people is beside the proved value
    low, high = (metrics[f"certificate.dif.proved.{end}"] for end in ("low", "high"))
    assert low <= metrics["certificate.dif.proved"] <= high
    texts = [result["text"] for result in done.json["gates"]["results"]]
    assert texts[0].startswith("certificate.score.proved is 0.")
    assert "certificate.dif.proved, by which a max of certificate.dif is judged, is" in texts[1]
    assert_nobody_beyond_the_proof(done, decided)
    report = Path(done.json["artifacts"]["report"]).read_text()
    assert (
        "over all possible people at fair distance up to 0.1, changes the score by more than"
        in report
    )


@pytest.mark.parametrize("decided", [False, True])
def test_the_proof_of_trees_is_in_metrics_gates_and_report(bench: Any, decided: bool) -> None:
    settings = [
        "evaluate.certificate.budget=0.01",
        METRIC,
        "method={name: gbdt, n_steps: 20, max_depth: 2}",
    ]
    settings += ["gates={certificate.score.proved: {max: 0.0}, certificate.flips: {max: 1}}"]
    # without effort there are bounds too
    settings += [] if decided else ["calibration=none", "decision=own", "evaluate.proof_parts=0"]
    done = bench.run("--json", "--direct", *(word for one in settings for word in ("--set", one)))
    assert done.code == 1, done.json["gates"]
    metrics = done.json["metrics"]
    for name in ("score", "flips", "loss"):
        assert 0.0 <= metrics[f"certificate.{name}.found"] <= metrics[f"certificate.{name}.proved"]
    assert 0.0 < metrics["certificate.drf"] <= metrics["certificate.loss.proved"]
    assert metrics["certificate.score.found"] > 0.0
    assert "certificate.dif" not in metrics
    texts = [result["text"] for result in done.json["gates"]["results"]]
    assert "certificate.flips.proved, by which a max of certificate.flips is judged, is" in texts[1]
    assert_nobody_beyond_the_proof(done, decided)
    report = Path(done.json["artifacts"]["report"]).read_text()
    assert "Change of scores under comparable treatment" in report
    assert "fair distance up to 0.1, changes the score by more than" in report


def assert_nobody_beyond_the_proof(done: Any, decided: bool) -> None:
    """No attack on the whole model is above what is proved."""
    metrics = done.json["metrics"]
    model = load_model(done.json["artifacts"]["train.model" if not decided else "decide.model"])
    data = read_dataset(Path(done.json["artifacts"]["preprocess.test"]))
    region = Region.of(
        SensitiveSubspace.load(done.json["artifacts"]["fair_metric.metric"]), data.X, 0.1
    )
    random = np.random.default_rng(0)
    points = region.points(
        random.normal(size=(50, *data.X.shape)), 9.0 * random.normal(size=(50, len(data.X), 1))
    )
    own = model.predict_proba(data.X)[:, 1]
    scores = model.predict_proba(points.reshape(-1, data.X.shape[1]).astype(np.float32))[:, 1]
    changes = np.abs(scores.reshape(50, -1) - own)
    assert changes.max() <= metrics["certificate.score.proved"] + 1e-5
    assert changes.max() > 0.2 * metrics["certificate.score.found"]


def test_without_a_proof_there_is_the_audit_alone(bench: Any) -> None:
    settings = [
        "evaluate.certificate.budget=0.01",
        "evaluate.proof_parts=none",
        METRIC,
        "method={name: gbdt, n_steps: 5, max_depth: 2}",
    ]
    options = [word for setting in settings for word in ("--set", setting)]
    done = bench.run("--json", "--direct", *options, "--set", "gates={certificate.drf: {max: 9}}")
    assert done.code == 0, done.json
    metrics = done.json["metrics"]
    assert "certificate.drf" in metrics
    assert not [name for name in metrics if name.endswith(".proved")]
    gate = "gates={certificate.score.proved: {max: 1}}"
    refused = bench.run("--json", "--direct", *options, "--set", gate)
    assert refused.code == 2
    assert "certificate.score.proved" in refused.json["error"]
