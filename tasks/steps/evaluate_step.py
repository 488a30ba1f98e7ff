"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.evaluation.drivers import drivers, explained_rows, selection_report
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.evaluate import evaluate as measure
from evenhand.fairlib.evaluation.flips import flips
from evenhand.fairlib.evaluation.membership import stronger_attack
from evenhand.fairlib.evaluation.outcomes import Outcomes, overall_rates, score_histograms
from evenhand.fairlib.evaluation.probabilities import reliability
from evenhand.fairlib.evaluation.transport_adversary import (
    TransportAudit,
    audit_losses,
    drawn_together,
    transport_audit,
)
from evenhand.fairlib.execution import available_cores, derive_seed, generator, sample_rows
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.methods.reasons import contributions, reasons_kept
from evenhand.fairlib.methods.registry import METHODS, load_model
from evenhand.fairlib.numerics import log_losses
from evenhand.fairlib.preprocessing.counterfactuals import check_counterfactuals, encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import input_errors
from evenhand.tasks.evaluating import measured_controls as controls
from evenhand.tasks.evaluating.acquired_features import (
    FullInformation,
    acquisition_content,
    adversaries,
    questions_of,
)
from evenhand.tasks.evaluating.control_names import (
    BLIND,
    CONTROLS,
    LEAVE_OUT,
    MAJORITY,
    METHOD,
    PLAIN,
    SIMPLE_MITIGATIONS,
)
from evenhand.tasks.evaluating.decisions import (
    Decisions,
    acquire,
    asks,
    bootstrap_settings,
    decide_rows,
    person_mean,
)
from evenhand.tasks.evaluating.metric_leaks import (
    adapted_consistency,
    adapted_copies,
    consistency_of,
    metric_leaks,
)
from evenhand.tasks.evaluating.token_moves import TokenMoves, token_moves
from evenhand.tasks.execution.dataset import Block, Dataset, StoredTable, dataset_of, read_targets
from evenhand.tasks.execution.step import Outputs, Stages, StepContext, StepResult, in_units
from evenhand.tasks.sentence_rows import sentences_of, vectors_folder

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.dadi_classifier import Acquisition
    from evenhand.tasks.evaluating.certified import Certified


# The output change of a network or of trees is certified for at most this many people, drawn at
# random: searches and proofs take most of an evaluation, in proportion to them.
MAX_CERTIFIED = 500
# A vector of a sentence has many dimensions, in each of which the proof searches.
MAX_CERTIFIED_SENTENCES = 50
# Integrated gradients take longer than predictions.
MAX_REASONS = 500
# Pairs in pairs.parquet, those with the largest revealed loss first, and on the page.
MAX_PAIRS = 1000
SHOWN_PAIRS = 10
DISTANCE_BINS = 12
# The curve of the certificate shows these multiples of the job's budget, the budget itself first.
MULTIPLES = (1.0, 0.0, 0.01, 0.03, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)
# The budgets of the curve where the job's budget is 0.
BUDGETS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def _read_encoder(context: StepContext) -> TableEncoder:
    """Read the input ``encoder``; vectors of sentences, if there are any, are cached."""
    encoder = TableEncoder.load(context.inputs["encoder"])
    if any(column.text is not None for column in encoder.fitted_):
        encoder.cache = vectors_folder()
    return encoder


def evaluate(context: StepContext) -> StepResult:
    """Write ``metrics.json`` and ``predictions.parquet``, which has no sensitive value.

    For two labels also ``histograms.json`` and ``reliability.json``. With a certificate also
    ``audit.json`` and ``pairs.parquet``, and for a network ``certificate.json``. ``controls.json``
    has the metrics of the controls on the same rows, and the differences from them. A model that
    asks for features gets ``acquisition.json``; its metrics are those of its predictions after the
    questions. A model with a selector of features gets ``selection.json``.
    """
    settings = context.parameters["evaluate"]
    seed = derive_seed(context.parameters["seed"], "drivers")
    model = load_model(context.inputs["model"])
    encoder = _read_encoder(context)
    with input_errors():
        check_counterfactuals(encoder, settings["counterfactuals"])
    stages = Stages(context.progress, _count_stages(context, model))
    test = _Test(context, encoder, stages)
    people = explained_rows(len(test.rows.y), seed)

    acquired = None
    if asks(model):
        acquired = acquire(model, test.data.X, callback=stages.next())
        test.decided(model, test.data, acquired).write(test.file(METHOD), 0)
    explained = test.decide(people)
    comparisons = test.compare()
    outcomes = test.outcomes(METHOD)
    audited, certified, certificates = test.certify(model, outcomes, draws=settings["draws"])
    moves = test.token_moves(model, outcomes, draws=settings["draws"])
    certificates |= moves.metrics | test.adapted_consistency(model, outcomes)

    metrics = _probability_spread(outcomes) | certificates
    metrics |= _metrics_of_attacks_and_reasons(test, model)
    outputs: Outputs = {}
    if moves.content:
        outputs |= context.write_json("tokens", moves.content)
    outputs |= _certificate_outputs(test, audited, certified)
    if acquired is not None:
        asked_metrics, acquisition = _acquisition(test, model, acquired)
        metrics |= asked_metrics
        outputs |= context.write_json("acquisition", acquisition)
    else:
        report = _driver_report(test, model, explained, people, outcomes, seed)
        outputs |= context.write_json("drivers", report)
    if has_trait(model, "selects"):
        selection = selection_content(model, test.data.X, settings["min_cell"])
        outputs |= context.write_json("selection", selection)

    compared: dict[Any, Any] = dict(comparisons)
    evaluation = compared.pop(None)
    method = controls.MeasuredControl(
        "method",
        outcomes,
        certificates,
        None,
        moves.by_sentence,
        controls.compared_with_itself(evaluation),
    )
    measured: Iterable[controls.MeasuredControl] = _measured_controls(test, method, compared)
    if audited is not None:
        measured = list(measured)
        metrics["certificate.drf_relative"] = _relative_increase(test, audited, measured)
    outputs |= _controls_output(test, method, measured)

    evaluation = _completed(evaluation, metrics, context.parameters)
    outputs |= context.write_json("metrics", evaluation.to_json() | overall_rates(outcomes))
    outputs |= _score_outputs(test, outcomes)
    outputs |= _write_predictions(test, outcomes)
    stages.finish()
    return StepResult(outputs, {"test_rows": len(test.rows.y)})


def _probability_spread(outcomes: Outcomes) -> dict[str, MetricValue]:
    """For two labels ``probability_spread``: how far the scores of the middle 90 % of people are
    apart.
    """
    if outcomes.classes:
        return {}
    high, low = np.quantile(outcomes.score, [0.95, 0.05])
    return {"probability_spread": MetricValue(float(high - low))}


def _completed(
    evaluation: Evaluation, metrics: Mapping[str, MetricValue], parameters: Mapping[str, Any]
) -> Evaluation:
    """Add further metrics to an evaluation, and the job's outcome to its settings."""
    settings = dict(evaluation.settings)
    if "outcome" in parameters:
        settings["outcome"] = parameters["outcome"]
    if parameters["evaluate"].get("adapted"):
        settings["adapted"] = parameters["evaluate"]["adapted"]
    return replace(evaluation, metrics={**evaluation.metrics, **metrics}, settings=settings)


def _metrics_of_attacks_and_reasons(test: _Test, model: Any) -> dict[str, MetricValue]:
    """``membership_auc``, ``reasons_kept`` and ``metric_leak``, where the job has them."""
    context = test.context
    metrics: dict[str, MetricValue] = {}
    if context.parameters.get("metric_leak"):
        legitimate = context.parameters.get("legitimate", ())
        metric = load_metric(context.inputs["metric"])
        metrics |= metric_leaks(metric, model, test.data, legitimate)
    if "membership" in context.inputs:
        attacks = json.loads(context.inputs["membership"].read_text())["attacks"]
        metrics["membership_auc"] = MetricValue(**stronger_attack(attacks)["auc"])
    if "reasons" in context.parameters:
        metrics["reasons_kept"] = _reasons_kept(test, model, context.parameters["reasons"])
    return metrics


def _certificate_outputs(
    test: _Test, audited: TransportAudit | None, certified: Certified | None
) -> Outputs:
    """Write ``audit.json``, ``pairs.parquet`` and ``certificate.json``, where there are such."""
    context = test.context
    outputs: Outputs = {}
    if audited is not None:
        min_cell = context.parameters["evaluate"]["min_cell"]
        outputs |= context.write_json("audit", audit_content(audited, test.rows, min_cell))
        pairs = context.workdir / "pairs.parquet"
        pq.write_table(pa.table(audit_pairs(audited, test.rows)), pairs)
        outputs["pairs"] = (pairs, "pairs")
    if certified is not None:
        outputs |= context.write_json("certificate", certified.content())
    return outputs


def _acquisition(
    test: _Test, model: Any, acquired: Acquisition
) -> tuple[dict[str, MetricValue], dict[str, Any]]:
    """Metrics of the questions that a model asked, and the content of ``acquisition.json``."""
    parameters = test.context.parameters
    questions = questions_of(model, acquired)
    asked_mean = person_mean(questions.counts, parameters)
    metrics = {"features_asked": asked_mean}
    settings = bootstrap_settings(parameters)
    del settings["intersections"]
    metrics |= adversaries(model, acquired, test.data, settings)

    # what the model would decide if it knew every feature; no intervals
    informed_decisions = test.decided(FullInformation(model), test.data)
    without_draws = bootstrap_settings(parameters) | {"draws": 0}
    informed = measure(test.joined(informed_decisions), **without_draws)
    content = acquisition_content(
        model,
        questions,
        test.rows,
        asked=asked_mean,
        full_information={name: metric.value for name, metric in informed.metrics.items()},
        settings=parameters["evaluate"],
    )
    return metrics, content


def _driver_report(
    test: _Test, model: Any, explained: Float32, people: Int, outcomes: Outcomes, seed: int
) -> dict[str, Any]:
    """Which features drive the model's decisions about `people`, whose encoded rows are
    `explained`.
    """
    data = test.rows
    sensitive = {name: column[people] for name, column in outcomes.sensitive.items()}
    min_cell = test.context.parameters["evaluate"]["min_cell"]
    return drivers(
        model,
        explained,
        data.y[people],
        data.groups,
        sensitive,
        seed=seed,
        min_cell=min_cell,
    )


def _score_outputs(test: _Test, outcomes: Outcomes) -> Outputs:
    """Write ``reliability.json`` and ``histograms.json`` of the scores of two labels."""
    if outcomes.classes:
        return {}
    context = test.context
    settings = context.parameters["evaluate"]
    min_cell = settings["min_cell"]
    reliable = reliability(outcomes, min_cell=min_cell, level=settings["level"])
    outputs = context.write_json("reliability", reliable)
    histograms = score_histograms(outcomes, min_cell=min_cell)
    return outputs | context.write_json("histograms", histograms)


def _write_predictions(test: _Test, outcomes: Outcomes) -> Outputs:
    """Write ``predictions.parquet``: row, label, probability and prediction of every person."""
    probability = outcomes.score
    if outcomes.classes:
        # of more than two labels that of the predicted one
        probability = outcomes.score[np.arange(outcomes.n), outcomes.y_pred]
    predictions = {
        "row": test.rows.rows,
        "label": test.rows.y.astype(np.int8),
        "probability": probability,
        "prediction": outcomes.y_pred.astype(np.int8),
    }
    path = test.context.workdir / "predictions.parquet"
    pq.write_table(pa.table(predictions), path)
    return {"predictions": (path, "predictions")}


def has_trait(model: Any, trait: str) -> bool:
    """Whether the registry says that the model's method has a trait, such as ``selects``."""
    name = type(_undecided(model)).__name__
    return any(getattr(spec, trait) and spec.class_name == name for spec in METHODS.values())


def _undecided(model: Any) -> Any:
    """Return the trained model within a control and a decision rule."""
    if isinstance(model, controls.Blind):
        return _undecided(model.model)
    if isinstance(model, DecidedModel):
        return _undecided(model.base)
    return model


def _count_stages(context: StepContext, model: Any) -> int:
    """Number of stages that report their own progress, one per call of ``stages.next``."""
    certificates = 0
    if context.parameters["certificate"] is not None:
        certificates = 1 + has_trait(model, "provable") + has_trait(model, "differentiable")
    trained = sum(name in context.inputs for name in (PLAIN, BLIND, *SIMPLE_MITIGATIONS))
    return 2 + asks(model) + certificates + trained * bool(certificates)


@dataclass(frozen=True)
class _Test:
    """The test rows of a job, and the measurements of models on them."""

    context: StepContext
    encoder: TableEncoder
    stages: Stages

    @cached_property
    def rows(self) -> Dataset:
        """The rows without their matrix."""
        return read_targets(self.context.inputs["test"])

    @cached_property
    def data(self) -> Dataset:
        """The rows with their matrix, which is large: it is read when it is needed."""
        return dataset_of(self.context, "test")

    def file(self, name: str) -> Path:
        """Folder of what a model decided about all rows."""
        return self.context.workdir / "decisions" / name

    def model(self, name: str) -> Any:
        """Load the model, or one of its controls."""
        inputs = self.context.inputs
        if name == MAJORITY:
            return controls.Majority(tuple(json.loads(inputs[name].read_text())["shares"]))
        if name == METHOD:
            return load_model(inputs["model"])
        model = load_model(inputs[name])
        if name == BLIND:
            return controls.Blind(model, self.rows.sensitive_positions())
        if name == LEAVE_OUT:
            left_out = self.rows.positions_of(self.simple_mitigations[name]["columns"])
            return controls.Blind(model, self.rows.sensitive_positions() + left_out)
        return model

    @cached_property
    def simple_mitigations(self) -> dict[str, dict[str, Any]]:
        """Choices of the controls with a simple mitigation; none for an unmitigated method."""
        if "simple_mitigations" not in self.context.inputs:
            return {}
        choices: dict[str, dict[str, Any]] = json.loads(
            self.context.inputs["simple_mitigations"].read_text()
        )
        return choices

    def trained_controls(self) -> list[str]:
        """Names of the controls that the job has."""
        names = (*CONTROLS, *SIMPLE_MITIGATIONS)
        return [name for name in names if name in self.context.inputs]

    def decide(self, people: Int) -> Float32:
        """Write what the models decide about all rows; return the encoded rows of `people`."""
        places = StoredTable(self.context.inputs["test"] / "X").places()
        # a new object: workers read the rows themselves
        unit = partial(replace(self)._decide, people)
        blocks = in_units(unit, places, self.context.execution)
        return np.concatenate(list(self.stages.counted(blocks, len(places))))

    def _decide(self, people: Int, place: Block) -> Float32:
        X = np.stack([column.to_numpy() for column in place.read().columns], axis=1)
        groups = {name: column[place.rows] for name, column in self.rows.sensitive.items()}
        part = replace(self.rows, X=X, sensitive=groups)
        for name in (METHOD, *self.trained_controls()):
            model = self.model(name)
            if not asks(model):  # one that asks has done so about all rows
                self.decided(model, part).write(self.file(name), place.number)
        first, last = np.searchsorted(people, [place.rows.start, place.rows.stop])
        return X[people[first:last] - place.rows.start]

    def decided(self, model: Any, rows: Dataset, acquired: Acquisition | None = None) -> Decisions:
        """Decisions about rows, and whether all counterfactual copies of a row get the same
        decision.
        """
        settings = self.context.parameters["evaluate"]
        adapted = {}
        for name in settings.get("adapted", ()):
            adapted[name] = adapted_copies(load_metric(self.context.inputs["metric"]))
        return decide_rows(
            model,
            self.encoder,
            rows.X,
            settings["counterfactuals"],
            acquired,
            sensitive=rows.sensitive,
            adapted=adapted,
        )

    def compare(self) -> Iterator[tuple[str | None, Any]]:
        """Begin to compare the model with each control, by name, and as None to measure it."""
        # the shortest work comes last
        names = [*self.trained_controls(), None]
        unit = partial(replace(self)._compare, bootstrap_settings(self.context.parameters))
        comparisons = in_units(unit, names, self.context.execution)
        return self.stages.counted(zip(names, comparisons, strict=True), len(names))

    def _compare(self, settings: Mapping[str, Any], control: str | None) -> Any:
        outcomes = self.outcomes(METHOD)
        if control is None:
            return measure(outcomes, **settings)
        return controls.compared_with(outcomes, self.outcomes(control), settings)

    def outcomes(self, name: str) -> Outcomes:
        """What a model decided about all rows."""
        return self.joined(Decisions.read(self.file(name)))

    def joined(self, decided: Decisions) -> Outcomes:
        """Decisions with the labels and groups of their rows."""
        return Outcomes(
            y_true=self.rows.y,
            y_pred=decided.predicted,
            score=decided.score,
            sensitive=self.rows.sensitive,
            consistent=decided.consistent,
            classes=tuple(self.context.parameters.get("classes", ())),
            people=self.rows.people,
            favourable=self.context.parameters.get("outcome", {}).get("code", 1),
            counts_people=self.rows.counts_people,
        )

    def adapted_consistency(self, model: Any, outcomes: Outcomes) -> dict[str, MetricValue]:
        """Equal decisions on the adapted copies of a learned metric, if the job has one."""
        parameters = self.context.parameters
        if not parameters.get("metric_leak"):
            return {}
        level = parameters["evaluate"]["level"]
        for name in parameters["evaluate"].get("adapted", ()):
            # these copies have been predicted already
            return consistency_of(outcomes.consistent[name], level)
        metric = load_metric(self.context.inputs["metric"])
        return adapted_consistency(metric, model, self.data, level)

    def measured_control(self, name: str, compared: controls.Against) -> controls.MeasuredControl:
        """A trained control's outcomes, with its certificates and its moves of tokens."""
        model = self.model(name)
        outcomes = self.outcomes(name)
        _, _, certified = self.certify(model, outcomes, draws=0, outputs=False)
        moves = self.token_moves(model, outcomes, draws=0)
        certified |= moves.metrics | self.adapted_consistency(model, outcomes)
        return controls.MeasuredControl(
            name, outcomes, certified, None, moves.by_sentence, compared
        )

    def token_moves(self, model: Any, outcomes: Outcomes, *, draws: int) -> TokenMoves:
        """How the answers move when terms of sentences are exchanged."""
        context = self.context
        if not context.parameters["evaluate"].get("terms"):
            return TokenMoves()
        data = self.rows
        sentences = partial(sentences_of, context, data)
        show = context.parameters["evaluate"]["show_sentences"]

        def encoded(rows: Int) -> Float32:
            return self.data.X[rows]

        return token_moves(
            model, self.encoder, encoded, sentences, outcomes, context.parameters, draws, show=show
        )

    def certify(
        self, model: Any, outcomes: Outcomes, *, draws: int, outputs: bool = True
    ) -> tuple[TransportAudit | None, Certified | None, dict[str, MetricValue]]:
        """Audit within the job's budget, and with `outputs` the certificate of a network or of
        trees.

        The metrics of both are returned, too, with the share of decisions that can be flipped.
        """
        parameters = self.context.parameters
        budget = parameters["certificate"]
        level = parameters["evaluate"]["level"]
        if budget is None:
            return None, None, {}
        data = self.data
        metric = load_metric(self.context.inputs["metric"])
        audited = transport_audit(
            model,
            data.X,
            model.classes_[data.y],
            metric,
            budget,
            draws=draws,
            level=level,
            seed=derive_seed(parameters["seed"], "audit"),
            jobs=available_cores(),
            callback=self.stages.next(),
        )
        points = metric.project(data.X)
        seed = derive_seed(parameters["seed"], "flips")
        flipped = flips(points, outcomes.y_pred, budget, draws=draws, level=level, seed=seed)
        metrics = {
            "certificate.drf": MetricValue(audited.gap, audited.low, audited.high),
            "certificate.flips": MetricValue(flipped.share, flipped.low, flipped.high),
        }
        parts = parameters["evaluate"]["proof_parts"]
        if not outputs or parts == "none" or not has_trait(model, "provable"):
            return audited, None, metrics
        from evenhand.tasks.evaluating.certified import certify_outputs

        seed = derive_seed(parameters["seed"], "certificate")
        people = sample_rows(len(data.X), self._max_certified(), generator(seed, "people"))
        budgets = list(BUDGETS)
        if budget > 0:
            # the job's budget first
            budgets = [multiple * budget for multiple in MULTIPLES]
        certified = certify_outputs(
            model,
            data.X[people],
            data.y[people],
            metric,
            budgets,
            parts=parts,
            settings={"draws": draws, "level": level, "seed": seed},
            stages=self.stages,
        )
        return audited, certified, metrics | certified.metrics()

    def _max_certified(self) -> int:
        """For how many people at most the model's output change is certified."""
        chosen: int | None = self.context.parameters["evaluate"].get("certified_people")
        if chosen is not None:
            return chosen
        if any(column.kind == "text" for column in self.encoder.fitted_):
            return MAX_CERTIFIED_SENTENCES
        return MAX_CERTIFIED


def _reasons_kept(test: _Test, model: Any, most: int) -> MetricValue:
    """Share of reasons that counterfactuals keep; the reference of networks is the mean
    test row.
    """
    parameters = test.context.parameters
    encoder = test.encoder
    X = test.data.X
    rng = generator(parameters["seed"], "reasons")
    reference = X.mean(axis=0, dtype=np.float64)
    if len(X) > MAX_REASONS:
        X = X[np.sort(rng.choice(len(X), MAX_REASONS, replace=False))]
    before = contributions(model, X, encoder, reference)
    places = list(encoder.groups_)
    shares = []
    for changes in parameters["evaluate"]["counterfactuals"].values():
        copies = encoded_copies(encoder, X, changes)
        moved = [contributions(model, copy, encoder, reference) for copy in copies]
        changed_places = [places.index(name) for name in changes]
        shares.append(reasons_kept(before, moved, changed_places, most))
    return person_mean(np.mean(shares, axis=0), parameters, most=1.0)


def _measured_controls(
    test: _Test, method: controls.MeasuredControl, compared: Mapping[str, controls.Against]
) -> Iterator[controls.MeasuredControl]:
    """Controls on the test rows; one that was not trained is the control before it, or the model
    itself.
    """
    majority = controls.MeasuredControl(MAJORITY, test.outcomes(MAJORITY), {})
    yield replace(majority, against=compared[MAJORITY])
    previous = method
    for name in (PLAIN, BLIND):
        if name in test.context.inputs:
            previous = test.measured_control(name, compared[name])
        else:
            previous = _equal_control(name, previous)
        yield previous
    for name, choice in test.simple_mitigations.items():
        if choice["is_trained"]:
            yield test.measured_control(name, compared[name])
        elif choice["same_as"] == METHOD:
            yield _equal_control(name, method)
        elif choice["same_as"] == BLIND:
            yield _equal_control(name, previous)


def _equal_control(name: str, model: controls.MeasuredControl) -> controls.MeasuredControl:
    """A control that is the same model as another one, or as the method's."""
    return replace(model, name=name, same_as=model.same_as or model.name)


def _controls_output(
    test: _Test, method: controls.MeasuredControl, measured: Iterable[controls.MeasuredControl]
) -> Outputs:
    """Write ``controls.json``, with the columns that a control does without, and why one is
    missing.
    """
    settings = bootstrap_settings(test.context.parameters)
    content = controls.controls_content(method, measured, settings)
    missing = {}
    for name, choice in test.simple_mitigations.items():
        if name not in content["controls"]:
            missing[name] = choice["reason"]
        elif name == LEAVE_OUT:
            for key in ("columns", "threshold", "aucs"):
                content["controls"][name][key] = choice[key]
    if missing:
        content["missing"] = missing
    if "plain_settings" in test.context.inputs:
        settings_file = test.context.inputs["plain_settings"]
        content["controls"][PLAIN]["settings"] = json.loads(settings_file.read_text())
    return test.context.write_json("controls", content)


def _relative_increase(
    test: _Test, transport: TransportAudit, measured: Iterable[controls.MeasuredControl]
) -> MetricValue:
    """The loss increase divided by the plain control's at a log loss that is no better than the
    model's.
    """
    plain = next(control for control in measured if control.name == PLAIN).outcomes
    drawn = drawn_together(plain.score, plain.y_true, transport.loss)
    losses = log_losses(np.stack([1.0 - drawn, drawn], axis=1))
    points = load_metric(test.context.inputs["metric"]).project(test.data.X)
    increase = audit_losses(
        losses, points, plain.y_true, transport.budget, draws=0, seed=0, jobs=available_cores()
    ).gap
    if increase <= 0.0:
        return MetricValue.insufficient("the plain control's loss does not rise either")
    return MetricValue(transport.gap / increase)


def selection_content(model: Any, X: Float32, min_cell: int) -> dict[str, Any]:
    """Selection probabilities of each feature over the test rows, as plain JSON types.

    They are means over people, never those of one row or of fewer than `min_cell` people, unless
    the probabilities are the same for all rows.
    """
    return {
        "attributes": list(model.attributes_),
        "data_dependent": bool(model.data_dependent),
        "rows": len(X),
        "groups": selection_report(
            model.selection_probabilities(X),
            list(model.groups_),
            model.attributes_,
            data_dependent=bool(model.data_dependent),
            min_cell=min_cell,
        ),
    }


def audit_pairs(transport: TransportAudit, data: Dataset) -> dict[str, NDArray[Any]]:
    """Pairs of row numbers with their distance and losses, without features and sensitive
    values.
    """
    pairs = transport.most_unfair(MAX_PAIRS)
    return {
        "row": data.rows[pairs],
        "treated_as": data.rows[transport.target[pairs]],
        "distance": transport.distance[pairs],
        "loss": transport.own_loss[pairs],
        "loss_treated_as": transport.target_loss[pairs],
        "revealed_loss": transport.target_loss[pairs] - transport.own_loss[pairs],
    }


def audit_content(transport: TransportAudit, data: Dataset, min_cell: int) -> dict[str, Any]:
    """Sums over people, and the pairs that the page shows; counts below `min_cell` people are
    hidden.
    """
    columns = {}
    for name, values in audit_pairs(transport, data).items():
        columns[name] = values[:SHOWN_PAIRS].tolist()
    pairs = [dict(zip(columns, pair, strict=True)) for pair in zip(*columns.values(), strict=True)]
    return {
        "budget": transport.budget,
        "loss": transport.loss,
        "adversarial_loss": transport.adversarial_loss,
        "gap": {"value": transport.gap, "low": transport.low, "high": transport.high},
        "multiplier": transport.multiplier,
        "spent": transport.spent,
        "people": len(transport.target),
        "moved": int((transport.distance > 0).sum()),
        "distances": _histogram(transport.distance, min_cell),
        "flows": {
            name: _flow(values.astype(str), transport.target, min_cell)
            for name, values in data.sensitive.items()
        },
        "pairs": pairs,
    }


def _histogram(distance: Float, min_cell: int) -> dict[str, Any] | None:
    """Histogram of the positive distances; None if they are of fewer than `min_cell` people."""
    moved = distance[distance > 0]
    if len(moved) < min_cell:
        return None
    counts, edges = np.histogram(moved, bins=DISTANCE_BINS, range=(0.0, float(moved.max())))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _flow(group: NDArray[Any], target: Int, min_cell: int) -> dict[str, Any]:
    """Numbers of people of each group who are treated as a person of each group; None if hidden."""
    names, code = np.unique(group, return_inverse=True)
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (code, code[target]), 1)
    return {
        "groups": names.tolist(),
        "counts": [visible_counts(row.tolist(), min_cell) for row in counts],
    }


def visible_counts(counts: Sequence[int], min_cell: int) -> list[int | None]:
    """Hide the counts of fewer than `min_cell` people in the counts of one group.

    The sizes of groups are public. They would reveal a single hidden count, and two hidden counts
    if both are 1. So if a count is hidden, the smallest other count is hidden too, or all zeros if
    there is none. Then no hidden count follows from the others, even for a reader who knows this
    rule.
    """
    small = [0 < n < min_cell for n in counts]
    if not any(small):
        return list(counts)
    large = [n for n in counts if n and n >= min_cell]
    smallest = min(large, default=0)
    visible: list[int | None] = []
    for n, hidden in zip(counts, small, strict=True):
        if hidden or n == smallest:
            visible.append(None)
        else:
            visible.append(n)
    return visible
