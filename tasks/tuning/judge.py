"""Judge: how good a candidate is under each rule of decisions, on folds of the training
rows alone.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Bool, Float, Float32, Int, Str
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.evaluation.evaluate import Evaluation, evaluate
from evenhand.fairlib.evaluation.group_selection import MOST_NAMED, left_out_text
from evenhand.fairlib.evaluation.outcomes import Outcomes, groups_by
from evenhand.fairlib.execution import derive_seed, generator, sample_rows
from evenhand.fairlib.methods.decided import DecidedModel, GroupRule, ThresholdRule
from evenhand.fairlib.methods.registry import method_class
from evenhand.fairlib.methods.row_groups import fold_of_rows
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.tuning.unseen_rows import HalfChoice, unseen_quantiles
from evenhand.tasks.classifier_training import HeldOut, Learner, control_learner
from evenhand.tasks.decision_rules import (
    calibrated_on,
    calibration_for_share,
    chosen_rule,
    held_out_groups,
)
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.control_names import BLIND, CONTROLS, MAJORITY
from evenhand.tasks.evaluating.decisions import Decisions, acquire, bootstrap_settings
from evenhand.tasks.evaluating.measured_controls import Majority
from evenhand.tasks.evaluating.token_moves import Moves, moved_to
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.sentence_rows import Mentions, no_mention, read_encoder, sentences_of, terms_of
from evenhand.tasks.steps.train_step import adapted_copies, learner_of
from evenhand.tasks.tuning.folds import cells_of, check_folds, fold_numbers
from evenhand.tasks.tuning.trial_search import SCORES

# A judgement on a part of the rows has one in so many of the training steps of a method. It
# predicts the whole fold where the rows are divided by no more than that.
FEWER_STEPS = 3
# Divisions of the rows into halves, on each of which thresholds by group are chosen again.
DIVISIONS = 10
# Sentences of all folds whose copies are predicted: every trial predicts one of each per term.
MAX_JUDGED = 600
# People for whom comparable points with another output are searched in each judgement.
SCREENED_PEOPLE = 50


def judge(context: StepContext) -> StepResult:
    """Write ``judged.json``: for each rule of decisions the metrics on rows that no model was
    trained on.

    Every fold's rows are predicted by a model of the other folds. They are then decided by the
    calibration and the decision rule that are chosen on the predictions of the other folds. The
    decisions of all folds together give the metrics and their intervals. With a ``part`` above 1
    only one fold is predicted, without intervals, by a model of the other rows divided by it, and
    with at most a third of the method's steps; each half of it is decided by what is chosen on the
    other half. Where the part is small, so is that of the fold. A rule that the rows do not allow
    has an ``error`` instead.

    The inputs are the ``train`` rows, the fair ``metric`` for methods that use one, the metric
    ``adapting`` that makes adapted copies, the metric ``screening`` that certificates are about,
    the ``encoder`` for other counterfactual copies, and the ``checked`` table for those of
    sentences. Parameters are those of the steps `train` and `decide`, with a list of ``rules``
    (``decision`` and ``attribute``) for the decision, and ``kind`` (a control's name, or another),
    ``leave_out`` (sensitive columns that the model does not see), ``folds``, ``part``, ``measure``
    with the settings of the evaluation, and with limits on certificates their ``certificate``
    (``budget``).
    """
    parameters = context.parameters
    data = read_dataset(context.inputs["train"])
    check_folds(data, parameters["folds"])
    fold = fold_numbers(data, parameters["folds"], parameters["fold_seed"])
    divisor = parameters["part"]
    is_part = divisor > 1
    rung = derive_seed(parameters["fold_seed"], "rung")
    folds = 1 if is_part else parameters["folds"]
    predicted = []
    rows = []
    searched = None
    # many small fits take several times as long on more threads than there are cores
    with threadpool_limits(1, user_api="blas"):
        models = None
        if not is_part:
            models = _trained_folds(context, data, fold)
        for number in range(folds):
            trained = np.flatnonzero(fold != number)
            held = np.flatnonzero(fold == number)
            if is_part:
                trained = _part_of(data, trained, divisor, rung)
                held = _part_of(data, held, divisor // FEWER_STEPS, rung)
            if models is None:
                model = trained_model(context, data.take(trained))
            else:
                model = models[number]
            if number == 0 and "certificate" in parameters:
                searched = search_of_certificates(context, model, data.take(held))
            predicted.append(predictions_of(context, model, data.take(held)))
            rows.append(held)
            context.progress(number + 1, parameters["folds"], {})
        data = data.take(np.concatenate(rows))
        part = fold_of_rows(cells_of(data), 2, rung, data.people) if is_part else np.sort(fold)
        results = cross_decided(parameters, data, Predictions.concatenate(predicted), part)
    content: dict[str, Any] = {"rules": measured(parameters, data, results), "rows": len(data.y)}
    if searched is not None:
        add_found_ends(content["rules"], searched, results)
    if parameters.get("decisions") and not is_part:
        content["decisions"] = packed_decisions(results, np.concatenate(rows))
    return StepResult(context.write_json("judged", content))


def packed_decisions(results: Sequence[Judged | str], rows: Int) -> list[str | None]:
    """Write the decisions of each rule about the training rows, in their order, as base64 of one
    bit a row; None of a rule without any.
    """
    texts: list[str | None] = []
    for decisions in results:
        if isinstance(decisions, str):
            texts.append(None)
            continue
        ordered = np.empty(len(rows), dtype=bool)
        ordered[rows] = decisions.predicted == 1
        texts.append(base64.b64encode(np.packbits(ordered).tobytes()).decode())
    return texts


def unpacked_decisions(text: str, rows: int) -> Bool:
    """Read what :func:`packed_decisions` wrote about so many rows."""
    bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return np.unpackbits(bits, count=rows).astype(bool)


def _part_of(data: Dataset, rows: Int, divisor: int, seed: int) -> Int:
    """One part of rows that are divided into so many alike; all rows for a divisor of 1."""
    if divisor <= 1:
        return rows
    return rows[fold_of_rows(cells_of(data)[rows], divisor, seed) == 0]


@dataclass(frozen=True, eq=False)
class CertificateSearch:
    """What comparable points were found for some held-out people of one fold's model."""

    model: Any
    rings: Any  # `RingsWithin`; None if the model has no certificate
    labels: Int


def search_of_certificates(context: StepContext, model: Any, held: Dataset) -> CertificateSearch:
    """Search comparable points with another output, for a few held-out people; little is proved."""
    # imported lazily: it compiles kernels, and few searches have such limits
    from evenhand.fairlib.certificates.networks import NotProvedError
    from evenhand.fairlib.certificates.proof import rings_within

    parameters = context.parameters
    if not (hasattr(model, "booster_") or hasattr(model, "network_")):
        return CertificateSearch(model, None, held.y)
    rng = generator(parameters["fold_seed"], "screening")
    people = sample_rows(len(held.y), SCREENED_PEOPLE, rng)
    hidden = _hidden_columns(parameters, held)
    metric = load_metric(context.inputs["screening"])
    budget = parameters["certificate"]["budget"]
    rows = held.with_zeros_in(hidden).X[people]
    try:
        rings = rings_within(model, rows, metric, budget, parts=0)
    except NotProvedError:
        rings = None
    return CertificateSearch(model, rings, held.y[people])


def add_found_ends(
    content: Sequence[dict[str, Any]], searched: CertificateSearch, results: Sequence[Judged | str]
) -> None:
    """Add ``certificate.*.found`` to the metrics of each rule; those that are not known are left
    out.

    The points are those of the first fold's model, with the calibration and the rule that decide
    its rows.
    """
    if searched.rings is None:
        return
    from evenhand.fairlib.certificates.proof import proof_of

    for row, decisions in zip(content, results, strict=True):
        if isinstance(decisions, str):
            continue
        model = searched.model
        if decisions.chosen:
            calibration, rule = decisions.chosen[0]
            model = DecidedModel(model, calibration, rule)
        proof = proof_of(model, searched.rings, y=searched.labels)
        for name, interval in proof.intervals.items():
            value = float(interval.found)
            if np.isfinite(value):
                row["metrics"][f"{name}.found"] = {"value": value, "low": None, "high": None}


# what a model predicts


def _stacked(arrays: Sequence[Any]) -> Any:
    """Arrays of all views as one; None if there are none."""
    if not arrays:
        return None
    return np.stack(arrays)


@dataclass(frozen=True, eq=False)
class Answers:
    """What models without a rule say about v views of n rows."""

    # probability of label 1, shape (v, n); of more than two labels of each, shape (v, n, L)
    score: Float
    # shape (v, n), where a rule needs them: labels by the method's own decisions, and the numbers
    # by which `GroupRule` chooses among thresholds
    own: Int | None
    uniform: Float | None

    @classmethod
    def of(cls, parameters: Mapping[str, Any], model: Any, views: Iterable[Float32]) -> Answers:
        """Answers of a model about views, each of shape (n, d)."""
        scores = list[Float]()
        labels = list[Int]()
        uniforms = list[Float]()
        rules = parameters["rules"]
        needs_labels = any(_is_own(parameters, rule) for rule in rules)
        needs_uniforms = any(rule["decision"]["equal"] for rule in rules)
        by_group = GroupRule("", None, "", derive_seed(parameters["seed"], "decision"))
        for X in views:
            probabilities = model.predict_proba(X)
            if "classes" not in parameters:
                probabilities = probabilities[:, 1]
            scores.append(probabilities)
            if needs_labels:
                labels.append(model.predict(X).astype(np.int64))
            if needs_uniforms:
                uniforms.append(by_group.uniforms(X))
        return cls(np.stack(scores), _stacked(labels), _stacked(uniforms))

    @classmethod
    def concatenate(cls, parts: Sequence[Answers]) -> Answers:
        """Answers about the rows of all parts, in their order."""

        def joined(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            if arrays[0] is None:
                return None
            return np.concatenate(arrays, axis=1)

        return cls(joined("score"), joined("own"), joined("uniform"))


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Answers about m of n rows with each term in place of their own; the views are the terms'
    copies.
    """

    rows: Int  # shape (m,): positions among the n rows
    own: Int  # shape (m,): version of each row's own term
    versions: Int  # shape (n,): that of all rows, -1 for a sentence without a term
    answers: Answers

    @classmethod
    def concatenate(cls, parts: Sequence[Exchanges]) -> Exchanges:
        """Those of the rows of all parts, in their order."""
        before = np.cumsum([0, *(len(part.versions) for part in parts)])
        rows = [part.rows + start for part, start in zip(parts, before, strict=False)]
        return cls(
            np.concatenate(rows),
            np.concatenate([part.own for part in parts]),
            np.concatenate([part.versions for part in parts]),
            Answers.concatenate([part.answers for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Predictions:
    """What models without a rule say about n people, and about v views of each: the row, then its
    copies.
    """

    answers: Answers
    copies: Mapping[str, int]  # number of views of each set of copies, in their order
    shift: float  # log-odds that class weights added
    asked: Int | None = None  # shape (n,): number of features asked
    exchanges: Mapping[str, Exchanges] = field(default_factory=dict)  # by list of terms

    @classmethod
    def concatenate(cls, parts: Sequence[Predictions]) -> Predictions:
        """Predictions about the people of all parts, in their order."""
        answers = Answers.concatenate([part.answers for part in parts])
        shift = float(np.mean([part.shift for part in parts]))
        question_counts = None
        counts = [part.asked for part in parts if part.asked is not None]
        if counts:
            question_counts = np.concatenate(counts)
        exchanges = {}
        for name in parts[0].exchanges:
            exchanges[name] = Exchanges.concatenate([part.exchanges[name] for part in parts])
        return cls(answers, parts[0].copies, shift, question_counts, exchanges)


def predictions(
    context: StepContext, data: Dataset, held: Dataset, *, as_run: bool = False
) -> Predictions:
    """Train a model on the rows `data`, and predict the rows `held` and their copies.

    The training is shortened unless it is to be `as_run`, like that of a run.
    """
    return predictions_of(context, trained_model(context, data, as_run=as_run), held)


def trained_model(context: StepContext, data: Dataset, *, as_run: bool = False) -> Any:
    """Train a model on the rows; the training is shortened unless it is to be `as_run`."""
    parameters = context.parameters
    hidden = _hidden_columns(parameters, data)
    changed = {} if as_run else _shorter(parameters)
    return _trained(context, data.with_zeros_in(hidden), changed)


def predictions_of(context: StepContext, model: Any, held: Dataset) -> Predictions:
    """Predict the rows `held` and their copies by a trained model."""
    parameters = context.parameters
    hidden = _hidden_columns(parameters, held)
    held = held.with_zeros_in(hidden)
    measure = parameters["measure"]
    encoder: Any = None
    if measure["counterfactuals"] or measure["terms"]:
        encoder = read_encoder(context)
    views = [held.X]
    copies = {}
    for name, changes in measure["counterfactuals"].items():
        made = encoded_copies(encoder, held.X, changes)
        for copy in made:
            copy[:, hidden] = np.float32(0.0)
            views.append(copy)
        copies[name] = len(made)
    for name in measure.get("adapted", ()):
        made = adapted_copies(load_metric(context.inputs["adapting"]), held)
        for copy in made:
            copy[:, hidden] = np.float32(0.0)
            views.append(copy)
        copies[name] = len(made)
    acquired = acquire(model, held.X)
    answers = Answers.of(parameters, model, views)
    question_counts = None
    if acquired is not None:
        answers.score[0] = acquired.probability
        question_counts = (acquired.order >= 0).sum(axis=1)
    exchanges = _exchanges(context, model, held, encoder)
    shift = float(getattr(model, "prior_shift_", 0.0))
    return Predictions(answers, copies, shift, question_counts, exchanges)


def _hidden_columns(parameters: Mapping[str, Any], data: Dataset) -> list[int]:
    """Columns that the model does not see: the sensitive ones of the blind control, and those that
    a candidate leaves out.
    """
    hidden = []
    if parameters["kind"] == BLIND:
        hidden += data.sensitive_positions()
    for name in parameters["leave_out"]:
        hidden += data.groups.get(name, ())
    return hidden


def _exchanges(
    context: StepContext, model: Any, held: Dataset, encoder: Any
) -> dict[str, Exchanges]:
    """Answers about sentences with each other term of a list in place of their own."""
    parameters = context.parameters
    most = MAX_JUDGED // parameters["folds"]
    exchanges = {}
    for name, terms in terms_of(parameters["measure"]).items():
        sentences = sentences_of(context, held, terms.column)
        mentions = Mentions.find(sentences, terms, most, parameters["seed"])
        if not mentions.rows.size:
            raise no_mention(terms, "rows of a fold")
        copies = mentions.copies(encoder, held.X[mentions.rows])
        moved = Answers.of(parameters, model, copies)
        versions = terms.versions_of(sentences)
        exchanges[name] = Exchanges(mentions.rows, mentions.own, versions, moved)
    return exchanges


def _trained(context: StepContext, data: Dataset, changed: Mapping[str, Any]) -> Any:
    """A model of the rows, with some of the method's arguments `changed`."""
    if context.parameters["kind"] == MAJORITY:
        return Majority(tuple(np.bincount(data.y, minlength=2) / len(data.y)))
    return _learner(context, data, changed).fit(data)


def _trained_folds(context: StepContext, data: Dataset, fold: Int) -> list[Any] | None:
    """Models of the rows of all other folds, one for each fold; None where each model is to be
    trained for itself.

    They share the number of steps, which is chosen on the rows of all folds. It is one number, so
    what these rows show of the models is hardly too good; a choice within each fold would take six
    times as long.
    """
    if context.parameters["kind"] == MAJORITY:
        return None
    data = data.with_zeros_in(_hidden_columns(context.parameters, data))
    return _learner(context, data, {}).fit_folds(data, fold)


def _learner(context: StepContext, data: Dataset, changed: Mapping[str, Any]) -> Learner:
    """The learner of a candidate or a control, with some of the method's arguments `changed`."""
    parameters = context.parameters
    if parameters["kind"] in CONTROLS:
        return control_learner(parameters, len(data.y))
    return learner_of(context, data, changed)


def _shorter(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that shorten a training: fewer steps on a part of the rows, and one training of
    trees.
    """
    cls = method_class(parameters["method"])
    changed = dict[str, Any]()
    if "refit" in inspect.signature(cls.__init__).parameters:
        changed["refit"] = False
    steps = parameters["arguments"].get("n_steps", getattr(cls, "n_steps", None))
    if parameters["part"] > 1 and steps is not None:
        changed["n_steps"] = max(1, -(-steps // FEWER_STEPS))
    return changed


# what follows under a rule


@dataclass(frozen=True, eq=False)
class Judged(Decisions):
    """Decisions, and how answers moved with the terms of sentences."""

    moves: Mapping[str, Moves] = field(default_factory=dict)
    half_choices: Sequence[HalfChoice] = ()  # of thresholds by group
    # calibration and rule of each part of the rows; none where the model itself decides
    chosen: Sequence[tuple[Any, Any]] = ()


def cross_decided(
    parameters: Mapping[str, Any], data: Dataset, found: Predictions, part: Int
) -> list[Judged | str]:
    """Decisions under each rule, or why there are none; `part`, shape (n,), numbers the parts of
    the rows.

    Each part is decided by the calibration and the rule that are chosen on the other parts.
    """
    chosen_on = [np.flatnonzero(part != number) for number in range(int(part.max()) + 1)]
    held = [
        HeldOut(rows, data.y[rows], found.answers.score[0, rows], found.shift) for rows in chosen_on
    ]
    results = decided(parameters, data, data, found, part, held)
    measure = parameters["measure"]
    if parameters["part"] > 1 or not measure["predicted"] or not measure["draws"]:
        # no chances on unseen rows are stated
        return results
    return with_half_choices(parameters, data, found, results)


def with_half_choices(
    parameters: Mapping[str, Any],
    data: Dataset,
    found: Predictions,
    results: Sequence[Judged | str],
) -> list[Judged | str]:
    """Add the choices on halves of the rows to decisions by thresholds by group.

    They are made once for all tolerances of a criterion, at the middle one.
    """
    places: dict[str, list[int]] = {}
    for place, rule in enumerate(parameters["rules"]):
        equal = rule["decision"]["equal"]
        if equal and not isinstance(results[place], str):
            kind = {**rule["decision"], "equal": {**equal, "tolerance": None}}
            key = f"{kind} after {rule.get('calibration')}"
            places.setdefault(key, []).append(place)
    if not places:
        return list(results)
    everybody = np.arange(len(data.y))
    held = HeldOut(everybody, data.y, found.answers.score[0], found.shift)
    changed = list(results)
    for of_kind in places.values():
        middle = parameters["rules"][of_kind[len(of_kind) // 2]]
        settings = {**parameters, **middle}
        if settings["calibration"] == "auto":
            # thresholds depend little on it, and the choice of a calibration takes seconds
            settings["calibration"] = "sigmoid"
        calibration, _ = calibrated_on(settings, held)
        choices = half_choices(parameters, data, found, middle, calibration)
        for place in of_kind:
            decisions = results[place]
            assert not isinstance(decisions, str), "rules without decisions are left out above"
            changed[place] = replace(decisions, half_choices=choices)
    return changed


def half_choices(
    parameters: Mapping[str, Any],
    data: Dataset,
    found: Predictions,
    rule: Mapping[str, Any],
    calibration: Any,
) -> list[HalfChoice]:
    """Return the decisions about all rows by the rule chosen on random halves of them; none if most
    halves have too few rows.
    """
    answers = found.answers
    assert answers.uniform is not None, "it was drawn for such rules"
    cells = cells_of(data)
    settings = {**parameters, **rule}
    probability = calibration(answers.score[0])
    everybody = HeldOut(np.arange(len(data.y)), data.y, answers.score[0], found.shift)
    try:
        groups = _groups_of_halves(settings, data, everybody)
    except InputError:
        return []
    choices = []
    for number in range(DIVISIONS):
        seed = derive_seed(parameters["fold_seed"], f"half {number}")
        half = fold_of_rows(cells, 2, seed, data.people)
        for side in range(2):
            is_half = half == side
            rows = np.flatnonzero(is_half)
            held = HeldOut(rows, data.y[rows], answers.score[0, rows], found.shift)
            by = _rule_of_half(settings, data, held, calibration, groups)
            if by is None:
                continue
            y_pred = by.decide(probability, groups, answers.uniform[0])
            choices.append(HalfChoice(is_half, np.asarray(y_pred, dtype=np.int64)))
    if len(choices) < DIVISIONS:
        return []
    return choices


def _groups_of_halves(settings: Mapping[str, Any], data: Dataset, everybody: HeldOut) -> Str:
    """Groups of all rows whose thresholds are chosen on halves, shape (n,).

    Those of one attribute that share thresholds on all rows do so on each half; crossed ones are
    joined anew on each.
    """
    attribute = settings["attribute"]
    if attribute.get("crossed"):
        return groups_by(data.sensitive, attribute["name"]).astype(str)
    return held_out_groups(settings, data.sensitive, everybody)


def _rule_of_half(
    settings: Mapping[str, Any],
    data: Dataset,
    held: HeldOut,
    calibration: Any,
    groups: Str,
) -> GroupRule | None:
    """Return the thresholds by group that are chosen on a half; None if it has too few rows, or
    lacks a group whose people are all in the other half.
    """
    is_crossed = bool(settings["attribute"].get("crossed"))
    try:
        chosen_groups = groups[held.rows]
        if is_crossed:
            chosen_groups = held_out_groups(settings, data.sensitive, held)
        by = chosen_rule(settings, held, calibration, chosen_groups)
    except (InputError, ValueError):
        return None
    assert isinstance(by, GroupRule), "it is a rule with thresholds by group"
    if not is_crossed and set(by.thresholds.thresholds) != set(groups.tolist()):
        return None
    return by


def decided(
    parameters: Mapping[str, Any],
    training: Dataset,
    data: Dataset,
    found: Predictions,
    part: Int,
    held: Sequence[HeldOut],
) -> list[Judged | str]:
    """Decisions about the rows `data` under each rule, or an error.

    What decides the rows of a part is chosen on its entry of `held`, whose rows are positions in
    `training`.
    """
    rules = parameters["rules"]
    # by kind
    calibrations: dict[str, list[Any]] = {}
    results: list[Judged | str] = []
    for rule in rules:
        chosen = []
        try:
            if not _is_undecided(parameters, rule):
                kind = _calibration_kind(parameters, rule)
                if kind not in calibrations:
                    settings = {**parameters, "calibration": _of_one_kind(kind, held)}
                    calibrations[kind] = [calibrated_on(settings, rows)[0] for rows in held]
                for rows, fitted in zip(held, calibrations[kind], strict=True):
                    calibration = calibration_for_share({**parameters, **rule}, rows, fitted)
                    by = _chosen(parameters, training, rule, rows, calibration)
                    chosen.append((calibration, by))
            results.append(_under(data, found, part, chosen))
        except (InputError, ValueError) as error:
            results.append(str(error))
    return results


def _of_one_kind(kind: str, held: Sequence[HeldOut]) -> str:
    """Kind of calibration of all parts: where it is to be chosen, it is chosen once on the rows of
    all parts, as this takes longer than the judgement of a quick model.
    """
    if kind != "auto" or len(held) < 2:
        return kind
    rows, first = np.unique(np.concatenate([part.rows for part in held]), return_index=True)
    label = np.concatenate([part.label for part in held])[first]
    probability = np.concatenate([part.probability for part in held])[first]
    everybody = HeldOut(rows, label, probability, held[0].shift)
    chosen: str = calibrated_on({"calibration": kind}, everybody)[0].kind
    return chosen


def _under(
    data: Dataset, found: Predictions, part: Int, chosen: Sequence[tuple[Any, Any]]
) -> Judged:
    """Decisions by the calibration and the rule that were chosen for each part of the rows,
    if any.
    """
    everybody = np.arange(len(data.y))
    score, labels = _decide(data, found, part, chosen, found.answers, everybody)
    consistent = {}
    start = 1
    for name, size in found.copies.items():
        same = labels[start : start + size]
        consistent[name] = (same == same[0]).all(axis=0)
        start += size
    moves = {}
    for name, exchanged in found.exchanges.items():
        copies, decided_copies = _decide(
            data, found, part, chosen, exchanged.answers, exchanged.rows
        )
        same = (decided_copies == labels[0, exchanged.rows]).all(axis=0)
        moved = np.stack([moved_to(copy, score[0, exchanged.rows]) for copy in copies], axis=1)
        moves[name] = Moves(exchanged.rows, exchanged.own, exchanged.versions, moved, same)
    return Judged(score[0], labels[0], consistent, found.asked, moves, chosen=chosen)


def _decide(
    data: Dataset,
    found: Predictions,
    part: Int,
    chosen: Sequence[tuple[Any, Any]],
    answers: Answers,
    rows: Int,
) -> tuple[Float, Int]:
    """Scores and labels under the rule, of v views of m `rows`; labels have the shape (v, m)."""
    score = answers.score.copy()
    labels = np.empty(score.shape, np.int64)
    if answers.own is not None:
        labels = answers.own.copy()
    groups = None
    for number, (calibration, by) in enumerate(chosen):
        here = np.flatnonzero(part[rows] == number)
        p = np.stack([calibration(view[here]) for view in answers.score])
        score[:, here] = p
        if isinstance(by, GroupRule):
            assert answers.uniform is not None
            if groups is None:
                groups = groups_by(data.sensitive, by.attribute)[rows]
            # each part's own rule says which small groups share thresholds
            ruled = by.ruled_groups(groups[here])
            labels[:, here] = [
                by.decide(view, ruled, uniform[here])
                for view, uniform in zip(p, answers.uniform, strict=True)
            ]
        elif by.threshold is not None:
            labels[:, here] = p >= by.threshold
        elif found.asked is not None:
            labels[:, here] = p > calibration([0.5])
    return score, labels


def _chosen(
    parameters: Mapping[str, Any],
    training: Dataset,
    rule: Mapping[str, Any],
    held: HeldOut,
    calibration: Any,
) -> ThresholdRule | GroupRule:
    """Decision rule chosen on held-out rows."""
    settings = {**parameters, **rule}
    groups = None
    if rule["decision"]["equal"]:
        groups = held_out_groups(settings, training.sensitive, held)
    chosen = chosen_rule(settings, held, calibration, groups)
    if isinstance(chosen, GroupRule):
        # groups that no training row has are refused, as in a run
        chosen = chosen.knowing(training.sensitive)
    return chosen


def _is_own(parameters: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether the labels are the model's own."""
    return parameters["kind"] == MAJORITY or rule["decision"]["threshold"] == "own"


def _is_undecided(parameters: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a run has no step `decide` under the rule: the probabilities are the model's too."""
    is_calibrated = _calibration_kind(parameters, rule) != "none"
    return parameters["kind"] == MAJORITY or (not is_calibrated and _is_own(parameters, rule))


def _calibration_kind(parameters: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    """Kind of calibration before a rule: its own, or the job's."""
    kind: str = rule.get("calibration", parameters["calibration"])
    return kind


def measured(
    parameters: Mapping[str, Any], data: Dataset, found: Sequence[Judged | str]
) -> list[dict[str, Any]]:
    """Metrics of each rule, or why it has none; intervals of metrics of probabilities are computed
    once.

    Metrics of ``predicted`` also get the ends ``below`` and ``above`` of what the test rows may
    show, see
    :func:`reach`.
    """
    measure = parameters["measure"]
    content: list[dict[str, Any]] = []
    # metrics of probabilities, by the calibration, whether a run would have no step `decide`, and
    # the kinds of calibration that the parts of the rows got
    score_metrics: dict[tuple[Any, ...], dict[str, Any]] = {}
    sensitive = {name: values.astype(str) for name, values in data.sensitive.items()}
    for rule, decisions in zip(parameters["rules"], found, strict=True):
        if isinstance(decisions, str):
            content.append({"error": decisions})
            continue
        # a rule that keeps a share may have another calibration than the one asked for
        kinds = tuple(calibration.kind for calibration, _ in decisions.chosen)
        is_undecided = _is_undecided(parameters, rule)
        probabilities = (_calibration_kind(parameters, rule), is_undecided, kinds)
        outcomes = Outcomes(
            data.y,
            decisions.predicted,
            decisions.score,
            sensitive,
            decisions.consistent,
            classes=tuple(parameters.get("classes", ())),
            people=data.people,
            favourable=parameters.get("favourable", 1),
            counts_people=data.counts_people,
        )
        score_intervals = measure["score_intervals"] and probabilities not in score_metrics
        evaluation = _evaluation(parameters, outcomes, score_intervals)
        metrics = _metrics(parameters, outcomes, decisions, evaluation)
        scores = {name: item for name, item in metrics.items() if name.partition(".")[0] in SCORES}
        metrics |= score_metrics.setdefault(probabilities, scores)
        folds = None
        if rule["decision"]["equal"]:
            folds = parameters["folds"]
        # thresholds have no part in metrics of the probabilities
        of_scores = [name for name in measure["predicted"] if name.partition(".")[0] in SCORES]
        of_decisions = [name for name in measure["predicted"] if name not in of_scores]
        _add_reach(metrics, of_scores, reach(measure["test_share"], None))
        _add_reach(metrics, of_decisions, reach(measure["test_share"], folds))
        if parameters["part"] == 1:
            _add_unseen(metrics, parameters, outcomes, evaluation, folds, decisions.half_choices)
        content.append({"metrics": metrics})
    return content


def _settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the evaluation; without intervals on a part of the rows."""
    settings = bootstrap_settings({**parameters, "evaluate": parameters["measure"]})
    if parameters["part"] > 1:
        settings["draws"] = 0
    return settings


def _evaluation(
    parameters: Mapping[str, Any], outcomes: Outcomes, score_intervals: bool
) -> Evaluation:
    return evaluate(outcomes, **_settings(parameters), score_intervals=score_intervals)


def _metrics(
    parameters: Mapping[str, Any], outcomes: Outcomes, decisions: Judged, evaluation: Evaluation
) -> dict[str, dict[str, Any]]:
    """All metrics of the decisions under a rule, each with the ends of its interval."""
    measure = parameters["measure"]
    settings = _settings(parameters)
    estimates = dict(evaluation.metrics)
    for name, terms in terms_of(measure).items():
        estimates |= decisions.moves[name].metrics(name, terms, outcomes, settings)[0]
    metrics: dict[str, dict[str, Any]] = {}
    for name, metric in estimates.items():
        metrics[name] = {"value": metric.value, "low": metric.low, "high": metric.high}
    for name in measure.get("compared", ()):
        left_out = evaluation.groups.get(name, {}).get("left_out")
        if left_out:
            unit = evaluation.settings.get("unit", "rows")
            metrics[name]["left_out"] = left_out_text(left_out, unit, most=MOST_NAMED)
    return metrics


def _add_reach(metrics: dict[str, dict[str, Any]], names: Sequence[str], times: float) -> None:
    """Add the ends of what the test rows may show to those metrics that have an interval."""
    for name in names:
        metric = metrics.get(name, {})
        value = metric.get("value")
        low = metric.get("low")
        high = metric.get("high")
        if value is None or low is None or high is None:
            continue
        below = value - times * (value - low)
        above = value + times * (high - value)
        metrics[name] = {**metric, "below": below, "above": above}


def _add_unseen(
    metrics: dict[str, dict[str, Any]],
    parameters: Mapping[str, Any],
    outcomes: Outcomes,
    evaluation: Evaluation,
    folds: int | None,
    choices: Sequence[HalfChoice],
) -> None:
    """Add quantiles on unseen rows to the metrics that follow from counts, and calibration gaps."""
    measure = parameters["measure"]
    if outcomes.classes or not measure["draws"]:
        return
    quantiles = unseen_quantiles(
        outcomes,
        evaluation.groups,
        measure["predicted"],
        unseen=measure["test_share"] / (1 - measure["test_share"]),
        inflation=1.0 + variance_of_choices(folds),
        choices=choices,
        intersections=measure["intersections"],
        min_cell=measure["min_cell"],
        rng=generator(parameters["fold_seed"], "unseen"),
    )
    for name, values in quantiles.items():
        metrics[name] = {**metrics[name], "unseen": values}


def variance_of_choices(folds: int | None) -> float:
    """Variance that the choice of thresholds by group adds, over that of the validation rows.

    They are chosen on all n rows for the final model and on those of k - 1 `folds` in the
    validation: :math:`1 + k / (k - 1)`. None for other rules.
    """
    if folds is None:
        return 0.0
    return 1.0 + folds / (folds - 1)


def reach(test_share: float, folds: int | None) -> float:
    r"""How much wider the interval of the test rows' metric is than that of the validation rows'
    metric.

    Variances are taken as inverse to numbers of rows. The difference of both metrics has the
    variance of the n validation rows and of the m test rows. Thresholds by group add that of their
    choices: :math:`\sqrt{1 + n / m + 1 + k / (k - 1)}`.
    """
    of_rows = 1 + (1 - test_share) / test_share
    return float(np.sqrt(of_rows + variance_of_choices(folds)))
