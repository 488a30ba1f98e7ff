"""Judge: how good a candidate is under each rule of decisions, on folds of the training rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.decided import DecidedModel, ThresholdRule
from evenhand.fairlib.methods.registry import method_class
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.tuning.folds import fold_of_rows, joint_cells
from evenhand.tasks.controls import control_learner, sensitive_columns, without_columns
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.decide import calibrated_on, check_groups, decided_rule
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.controls import BLIND, CONTROLS, MAJORITY, Majority
from evenhand.tasks.evaluating.decisions import Decisions, acquire
from evenhand.tasks.step import StepContext, StepResult
from evenhand.tasks.train import learner_of
from evenhand.tasks.tuning.candidates import SCORES

# The first rung has one in so many of a fold's training rows and of the training steps of a method.
FIRST_RUNG = 3


def judge(context: StepContext) -> StepResult:
    """Write ``judged.json``: for each rule of decisions the metrics on rows that no model was trained on.

    Every fold's rows are predicted by a model of the other folds, calibrated and with a decision rule chosen
    on held-out rows of these. The decisions of all folds together give the metrics and their intervals. On
    the first rung only one fold is predicted, without intervals, by a model of a third of the other rows and
    with at most a third of the method's steps. A rule that a fold does not allow has an ``error`` instead.

    The inputs are the ``train`` rows, the fair ``metric`` for methods that use one, and the ``encoder`` for
    counterfactual copies. Parameters are those of the steps `train` and `decide`, with a list of ``rules``
    (``decision`` and ``attribute``) for the decision, and ``kind`` (a control's name, or another),
    ``leave_out`` (sensitive columns that the model does not see), ``folds``, ``first``, and ``measure`` with
    the settings of the evaluation.
    """
    parameters = context.parameters
    data = read_dataset(context.inputs["train"])
    check_folds(data, parameters["folds"])
    fold = fold_of_rows(cells_of(data), parameters["folds"], derive_seed(parameters["fold_seed"], "tune"))
    first = parameters["first"]
    found, rows, shares = [], [], []
    for number in range(1 if first else parameters["folds"]):
        trained, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if first:
            part = fold_of_rows(
                cells_of(data)[trained], FIRST_RUNG, derive_seed(parameters["fold_seed"], "rung")
            )
            trained = trained[part == 0]
        # the many small fits of a calibration take several times as long on more threads than there are cores
        with threadpool_limits(1, user_api="blas"):
            decided, share = decisions(context, data.take(trained), data.take(held))
        found.append(decided)
        shares.append(share)
        rows.append(held)
        context.progress(number + 1, parameters["folds"], {})
    content = measured(
        parameters, data.take(np.concatenate(rows)), list(zip(*found, strict=True)), float(np.mean(shares))
    )
    return StepResult(context.write_json("judged", {"rules": content, "rows": sum(map(len, rows))}))


def cells_of(data: Dataset) -> NDArray[np.int64]:
    """Cell of label and sensitive groups of every row, by which folds are stratified."""
    return joint_cells(data.y, data.sensitive.values())


def check_folds(data: Dataset, folds: int) -> None:
    """Raise InputError unless every fold gets rows of both labels, and leaves some to be trained on."""
    least = int(np.bincount(data.y, minlength=2).min())
    if least < 2 * folds:
        raise InputError(
            f"the training rows have {least} people of the rarer label, and {folds} folds need at least "
            f"{2 * folds}: collect more rows, or set tune.folds lower."
        )


def decisions(context: StepContext, data: Dataset, held: Dataset) -> tuple[list[Decisions | str], float]:
    """Decisions about the rows `held` by a model of the rows `data`, or an error, for each rule.

    Also the share of the rows `data` by which the rules were chosen; 0 if none were.
    """
    parameters = context.parameters
    hidden = sensitive_columns(data) if parameters["kind"] == BLIND else []
    hidden += [column for name in parameters["leave_out"] for column in data.groups.get(name, ())]
    data, held = without_columns(data, hidden), without_columns(held, hidden)
    model, out = _trained(context, data)
    # what is the same for all rules is computed once
    acquired = acquire(model, held.X)
    score = model.predict_proba(held.X)[:, 1] if acquired is None else acquired.probability
    views = [(held.X, score)]
    copies = parameters["measure"]["counterfactuals"]
    if copies:
        encoder = TableEncoder.load(context.inputs["encoder"])
    sizes = {}
    for name, changes in copies.items():
        made = encoded_copies(encoder, held.X, changes)
        for copy in made:
            copy[:, hidden] = np.float32(0.0)
            views.append((copy, model.predict_proba(copy)[:, 1]))
        sizes[name] = len(made)
    asked = None if acquired is None else (acquired.order >= 0).sum(axis=1)
    calibrated = None if out is None else calibrated_on(parameters, out)

    def decided(rule: Mapping[str, Any]) -> Decisions:
        groups = None
        if out is None:
            labels = [model.predict(X) for X, _ in views]
            p = score
        else:
            chosen, groups = _chosen(parameters, data, held, rule, out, calibrated)
            whole = DecidedModel(model, *chosen)
            p = score if _is_undecided(parameters, rule) else whole.calibration(score)
            own = chosen[1] == ThresholdRule() and acquired is None
            labels = [
                model.predict(X) if own else whole.decide(whole.calibration(q), X, groups) for X, q in views
            ]
        consistent, start = {}, 1
        for name, size in sizes.items():
            same = np.stack(labels[start : start + size])
            consistent[name], start = (same == same[0]).all(axis=0), start + size
        return Decisions(p, np.asarray(labels[0]).astype(np.int64), consistent, asked)

    found: list[Decisions | str] = []
    for rule in parameters["rules"]:
        try:
            found.append(decided(rule))
        except (InputError, ValueError) as error:
            found.append(str(error))
    return found, 0.0 if out is None else len(out.rows) / len(data.y)


def _chosen(
    parameters: Mapping[str, Any],
    data: Dataset,
    held: Dataset,
    rule: Mapping[str, Any],
    out: Any,
    calibrated: Any,
) -> tuple[tuple[Any, Any], NDArray[np.str_] | None]:
    """Calibration and decision rule chosen on the rows `out`, and the groups of the rows `held`."""
    settings = {**parameters, **rule}
    if not rule["decision"]["equal"]:
        return decided_rule(settings, out, None, calibrated)[:2], None
    name = rule["attribute"]["name"]
    everybody = data.sensitive[name].astype(str)
    check_groups(settings, everybody, everybody[out.rows], out.label)
    return decided_rule(settings, out, everybody[out.rows], calibrated)[:2], held.sensitive[name].astype(str)


def _trained(context: StepContext, data: Dataset) -> tuple[Any, Any]:
    """A model of the rows, and the held-out rows by which decisions are chosen; None if none are needed."""
    parameters = context.parameters
    if parameters["kind"] == MAJORITY:
        return Majority(float(data.y.mean())), None
    if parameters["kind"] in CONTROLS:
        learner = control_learner(parameters, len(data.y))
    else:
        learner = learner_of(context, data, _fewer_steps(parameters) if parameters["first"] else {})
    model: Any = learner.fit(data)
    if all(_is_undecided(parameters, rule) for rule in parameters["rules"]):
        return model, None
    return model, learner.held_out(model, data, parameters["seed"])


def _is_undecided(parameters: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a run has no step `decide` under the rule: probabilities and labels are the model's."""
    return parameters["calibration"] == "none" and rule["decision"]["threshold"] == "own"


def _fewer_steps(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Argument that gives a boosted method a part of its steps; none for other methods."""
    steps = parameters["arguments"].get(
        "n_steps", getattr(method_class(parameters["method"]), "n_steps", None)
    )
    return {} if steps is None else {"n_steps": max(1, -(-steps // FIRST_RUNG))}


def measured(
    parameters: Mapping[str, Any],
    data: Dataset,
    found: Sequence[Sequence[Decisions | str]],
    share: float = 0.0,
) -> list[dict[str, Any]]:
    """Metrics of each rule, or why it has none; intervals of metrics of probabilities are computed once.

    `share` is that of the training rows by which rules are chosen. Metrics of ``predicted`` also get the ends
    ``below`` and ``above`` of what the test rows may show, see :func:`reach`.
    """
    measure = parameters["measure"]
    content: list[dict[str, Any]] = []
    known: dict[bool, dict[str, Any]] = {}
    sensitive = {name: values.astype(str) for name, values in data.sensitive.items()}
    for rule, parts in zip(parameters["rules"], found, strict=True):
        errors = [part for part in parts if isinstance(part, str)]
        if errors:
            content.append({"error": errors[0]})
            continue
        whole = Decisions.concatenate([part for part in parts if isinstance(part, Decisions)])
        undecided = _is_undecided(parameters, rule)
        outcomes = Outcomes(data.y, whole.predicted, whole.score, sensitive, whole.consistent)
        evaluation = evaluate(
            outcomes,
            draws=0 if parameters["first"] else measure["draws"],
            **{key: measure[key] for key in ("level", "min_cell", "intersections")},
            score_intervals=measure["score_intervals"] and undecided not in known,
            seed=derive_seed(parameters["seed"], "bootstrap"),
        )
        ends = ("value", "low", "high")
        metrics = {
            name: {end: getattr(metric, end) for end in ends} for name, metric in evaluation.metrics.items()
        }
        scores = {name: item for name, item in metrics.items() if name.partition(".")[0] in SCORES}
        metrics |= known.setdefault(undecided, scores)
        by_group = rule["decision"]["equal"] is not None
        times = reach(measure["test_share"], share if by_group else 0.0, parameters["folds"])
        for name in measure["predicted"]:
            value, low, high = (metrics.get(name, {}).get(end) for end in ends)
            if value is not None and low is not None and high is not None:
                beyond = {"below": value - times * (value - low), "above": value + times * (high - value)}
                metrics[name] = {**metrics[name], **beyond}
        content.append({"metrics": metrics})
    return content


def reach(test_share: float, rule_share: float, folds: int) -> float:
    r"""How much wider the interval of the test rows' metric is than that of the validation rows' metric.

    Variances are taken as inverse to numbers of rows. The difference of both metrics has the variance of the
    n validation rows, of the m test rows, and where thresholds by group are chosen on h rows, of this choice
    in the final model and, as a mean of k folds, in the validation:
    :math:`\sqrt{1 + n / m + (1 + 1 / k)\, n / h}`. A `rule_share` of 0 leaves out the last term.
    """
    chosen = (1 + 1 / folds) / rule_share if rule_share else 0.0
    return float(np.sqrt(1 + (1 - test_share) / test_share + chosen))
