"""Training of one classifier on encoded rows, and its probabilities for rows that it was not
trained on.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.mapped import is_paged, rows_at
from evenhand.fairlib.methods.method_base import Method
from evenhand.fairlib.methods.registry import METHODS, MethodSpec, method_class
from evenhand.fairlib.methods.row_groups import fold_of_rows, joint_cells
from evenhand.fairlib.splits import hold_out
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import Report

# Share of the training rows that a method without validation rows of its own is not trained on,
# once, to calibrate its probabilities.
HELD_OUT = 0.15


@runtime_checkable
class FitsFolds(Protocol):
    """A method that trains a model for each fold with the same number of steps."""

    def may_fit_folds(self, y: Int) -> bool:
        """Whether `fit_folds` trains as `fit` does, on rows of these labels."""

    def fit_folds(
        self, X: Float32, y: Int, fold: Int, *, sensitive_features: Any, sample_weight: Any
    ) -> list[Any]:
        """Models of the rows of all other folds, one for each fold."""


@dataclass(frozen=True)
class HeldOut:
    """Rows that a model was not trained on; all arrays have the shape (m,)."""

    rows: Int  # positions in the training rows
    label: Int
    probability: Float  # of label 1
    shift: float  # log-odds that class weights added in training

    def write(self, path: Path) -> None:
        """Write the label and probability by the row's position, and the shift."""
        table = pa.table({"row": self.rows, "label": self.label, "probability": self.probability})
        pq.write_table(table.replace_schema_metadata({"shift": repr(self.shift)}), path)

    @classmethod
    def read(cls, path: Path) -> HeldOut:
        """Read the file of :meth:`write`."""
        table = pq.read_table(path)
        row, label, probability = (
            table[name].to_numpy() for name in ("row", "label", "probability")
        )
        return cls(row, label, probability, float(table.schema.metadata[b"shift"]))


@dataclass(frozen=True)
class Learner:
    """A method with its arguments, and what its ``fit`` takes in addition to X and y.

    `groups` are the sensitive groups of every row, `copies` the counterfactual copies of all rows,
    and `weights` the weights of all rows. `attributes` are set on the method before its ``fit``.
    """

    spec: MethodSpec
    build: Callable[[], Method]
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    copies: Sequence[Float32] | None = None
    weights: Float | None = None
    # attributes that are set before ``fit``
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def fit(
        self,
        data: Dataset,
        rows: Int | None = None,
        *,
        progress: Report | None = None,
        checkpoint: Path | None = None,
    ) -> Method:
        """Train on all rows, or on those at the positions `rows`.

        Raises `InputError` if the method refuses its arguments or the rows, and `NotCarriedOut` if
        the training diverged, or failed with bins in files.
        """
        chosen: Any = slice(None)
        X = data.X
        if rows is not None:
            chosen = rows
            X = rows_at(data.X, rows)
        options: dict[str, Any] = {}
        if self.spec.resumable:
            options["checkpoint"] = checkpoint
        if self.copies is not None:
            options["counterfactuals"] = [copy[chosen] for copy in self.copies]
        if self.weights is not None:
            options["sample_weight"] = self.weights[chosen]
        if self.spec.needs_feature_groups:
            # The dataset lists the groups by name; the method needs them in the order of the
            # matrix.
            feature_groups = sorted(data.groups.items(), key=lambda group: group[1])
            options["feature_groups"] = dict(feature_groups)
        groups = {name: values[chosen] for name, values in self.groups.items()}
        model = self._unfitted(data, chosen)
        with self._training_errors(data):
            model.fit(X, data.y[chosen], sensitive_features=groups, callback=progress, **options)
        return model

    def fit_folds(self, data: Dataset, fold: Int) -> list[Any] | None:
        """Train a model on the rows of all other folds for each fold, shape (n,), with the same
        number of steps; None for a method that chooses this number otherwise.

        Raises as :meth:`fit`.
        """
        model = self._unfitted(data, slice(None))
        if not isinstance(model, FitsFolds) or not model.may_fit_folds(data.y):
            return None
        models: list[Any]
        with self._training_errors(data):
            models = model.fit_folds(
                data.X,
                data.y,
                fold,
                sensitive_features=self.groups,
                sample_weight=self.weights,
            )
        return models

    @contextlib.contextmanager
    def _training_errors(self, data: Dataset) -> Iterator[None]:
        """Raise errors of a training as errors of the job."""
        try:
            yield
        except FloatingPointError as error:
            raise NotCarriedOut(f"training with {self.spec.name} failed: {error}") from None
        except (ValueError, TypeError) as error:
            if type(error).__name__ == "XGBoostError" and is_paged(data.X):
                # the method has checked its arguments; the files may have failed
                reason = f"failed with the bins of trees in files ({error}): run again."
                raise NotCarriedOut(f"training with {self.spec.name} {reason}") from None
            raise InputError(f"method {self.spec.name}: {error}") from None

    def _unfitted(self, data: Dataset, chosen: Any) -> Any:
        """The method with the attributes that are set before ``fit``."""
        model: Any = self.build()
        model.people = None
        if data.people is not None:
            model.people = data.people[chosen]
        for name, value in self.attributes.items():
            setattr(model, name, value)
        return model

    def held_out(
        self,
        model: Method,
        data: Dataset,
        seed: int,
        folds: int | None = None,
        progress: Report | None = None,
    ) -> HeldOut:
        """Probabilities of `model` for rows that it was not trained on.

        They are the validation rows of the method's early stopping. A method that has none is
        trained once more, without a share of the rows. With `folds`, they are all rows, each
        predicted by a model that was trained on the other folds, and `progress` is called after
        each.
        """
        if folds is not None:
            return self._out_of_fold(data, seed, folds, progress)
        shift = float(model.prior_shift_)
        validation = model.validation_
        if validation is not None:
            labels = data.y[validation.rows]
            probability = validation.probability[:, 1].copy()
            return HeldOut(validation.rows, labels, probability, shift)
        try:
            trained, held = hold_out(
                data.y, HELD_OUT, derive_seed(seed, "calibration"), data.people
            )
        except ValueError:
            raise InputError(
                f"the {len(data.y)} training rows are too few to hold some out for the "
                "calibration: collect more, or set calibration: none and decision: own."
            ) from None
        second = self.fit(data, trained)
        return HeldOut(
            held,
            data.y[held],
            positive_probability(second, rows_at(data.X, held)),
            float(second.prior_shift_),
        )

    def _out_of_fold(
        self, data: Dataset, seed: int, folds: int, progress: Report | None
    ) -> HeldOut:
        cells = joint_cells(data.y, self.groups.values())
        fold = fold_of_rows(cells, folds, derive_seed(seed, "calibration"), data.people)
        if min(np.bincount(data.y, minlength=2)) < folds:
            raise InputError(
                f"the training rows have too few people of a label for {folds} folds: collect "
                "more, or set decision.folds lower."
            )
        probability = np.empty(len(data.y))
        shifts = []
        for number in range(folds):
            model = self.fit(data, np.flatnonzero(fold != number))
            held = np.flatnonzero(fold == number)
            probability[held] = positive_probability(model, rows_at(data.X, held))
            shifts.append(float(model.prior_shift_))
            if progress is not None:
                progress(number + 1, folds, {})
        return HeldOut(np.arange(len(data.y)), data.y.copy(), probability, float(np.mean(shifts)))

    def changed(self, **parameters: Any) -> Learner:
        """Return the same learner with other parameters of its method."""
        build = self.build

        def build_changed() -> Method:
            model: Method = build()
            model.set_params(**parameters)
            return model

        return replace(self, build=build_changed)


def control_learner(parameters: Mapping[str, Any], rows: int) -> Learner:
    """Learner without mitigation of a method, for so many rows.

    `parameters` are the ``method``, its ``arguments`` that both share, and the ``seed``.
    """
    spec = METHODS[parameters["method"]]

    def build() -> Any:
        seed = derive_seed(parameters["seed"], "train")
        return method_class(spec.name)(**parameters["arguments"], random_state=seed).plain(rows)

    return Learner(METHODS[spec.plain], build)


def positive_probability(model: Any, X: Float32) -> Float:
    """Probability of label 1, shape (n,); of a model that asks for features, after its
    questions.
    """
    if hasattr(model, "acquire"):
        return np.asarray(model.acquire(X).probability, dtype=np.float64)
    return np.asarray(model.predict_proba(X)[:, 1], dtype=np.float64)


# mitigation no stronger than a table allows


# Balanced accuracy that the default strength may cost on held-out training rows.
ALLOWED_LOSS = 0.02
# Strengths that are tried, as multiples of the default.
TRIED = (1.0, 0.1, 0.01)
# A training is given up only after so many steps. The latest loss is the mean of so many steps; it
# is compared with the same mean so many steps before.
LEAST_STEPS = 2000
LATEST = 500
BEFORE = 1000
# A loss of so many times what is allowed after so many steps will hardly become small enough: the
# training goes on as a trial only, at a learning rate of so many times the default. It is judged by
# half as many steps.
FAR = 4.0
FAR_STEPS = 1000
QUICKER = 3.0
QUICKER_JUDGED = 2.0
# Later falls of the loss, as multiples of the last one: as if each were two thirds of the one
# before.
FALLS_TO_COME = 2.0


@dataclass
class GivesUp:
    """Decides during a training that its strength will cost too much, to set as ``judge``.

    The loss of balanced accuracy falls while a network trains, less and less. The training ends
    where the loss would stay above what is allowed even if it fell by ``FALLS_TO_COME`` times what
    it fell in the last ``BEFORE`` steps.
    """

    plain: HeldOut
    labels: Int
    # how many times fewer steps than usual show what is to come
    pace: float = 1.0
    # step and loss of every evaluation
    losses: list[list[float]] = field(default_factory=list)
    gave_up: bool = False
    # whether the training is to go on as a quick trial
    is_far: bool = False

    def __call__(self, step: int, rows: Int, probability: Float) -> bool:
        """Judge by validation rows at some positions and their probabilities, shape (m, K)."""
        held = HeldOut(rows, self.labels[rows], probability[:, 1], 0.0)
        lost, error = balanced_accuracy_lost(held, self.plain)
        self.losses.append([float(step), lost])
        self.gave_up = self.decide(error)
        if self.pace == 1.0 and step >= FAR_STEPS:
            self.is_far = self._latest(float(step)) > FAR * max(ALLOWED_LOSS, error)
        return self.gave_up or self.is_far

    def decide(self, error: float) -> bool:
        """Whether the loss would stay too high, for the standard error of the last one."""
        step = self.losses[-1][0]
        if step < LEAST_STEPS / self.pace:
            return False
        latest = self._latest(step)
        fall = max(self._latest(step - BEFORE / self.pace) - latest, 0.0)
        return latest - FALLS_TO_COME * fall > max(ALLOWED_LOSS, error)

    def _latest(self, end: float) -> float:
        """Mean of the losses in the last steps before an end, at least of the last one."""
        steps, losses = np.array(self.losses).T
        until = losses[steps <= end]
        count = int(np.count_nonzero(steps[steps <= end] > end - LATEST / self.pace))
        return float(until[-max(count, 1) :].mean())


def fit_useful(
    learner: Learner,
    data: Dataset,
    plain: HeldOut,
    seed: int,
    *,
    progress: Report,
    checkpoint: Path | None,
) -> tuple[Method, HeldOut, dict[str, Any]]:
    """Train with the default strength, and again with less of it while that costs too much.

    A strength costs too much if the balanced accuracy on rows that were not trained on, at the best
    threshold of each model, is below that of the plain control by more than ``ALLOWED_LOSS`` and by
    more than the standard error of the difference. If all of ``TRIED`` cost too much, the strongest
    is kept that costs no more than the cheapest and its standard error.

    A network is given up as soon as its strength is seen to cost too much, and the network of the
    next strength begins with its weights. Where a strength costs far too much after ``FAR_STEPS``,
    the rest of its training is a trial at a higher learning rate: if the strength is used after
    all, the network is trained to its end at the usual rate.

    Returns the model, its held-out rows and facts: ``parameter``, ``default`` and ``used``
    strength, the balanced accuracy ``lost`` by it, whether that is ``allowed``, and of all that
    were ``tried`` the ``strength``, ``lost`` and ``standard_error``.
    """
    name = learner.spec.strength[0]
    default = inspect.signature(method_class(learner.spec.name).__init__).parameters[name].default
    tried: list[dict[str, float]] = []
    attempts: list[_Attempt] = []
    for number, share in enumerate(TRIED):

        def report(
            done: int, total: int, values: Mapping[str, float], before: int = number
        ) -> None:
            progress(before * total + done, (before + 1) * total, values)

        folder = None
        if checkpoint is not None:
            folder = checkpoint / f"strength-{number}"
        judge = None
        if share != TRIED[-1]:
            judge = GivesUp(plain, data.y)
        start = attempts[-1].model if attempts else None
        attempt = learner.changed(**{name: default * share})
        attempt = replace(attempt, attributes={"judge": judge, "starts_from": start})
        model = attempt.fit(data, progress=report, checkpoint=folder)
        is_trial = judge is not None and (judge.gave_up or judge.is_far)
        if judge is not None and judge.is_far and not judge.gave_up:
            model = _quick_trial(attempt, model, data, plain, report)
        held = attempt.held_out(model, data, seed)
        attempts.append(_Attempt(attempt, model, held, is_trial))
        lost, error = balanced_accuracy_lost(held, plain)
        tried.append({"strength": default * share, "lost": lost, "standard_error": error})
        if lost <= max(ALLOWED_LOSS, error):
            choice = number
            allowed = True
            break
    else:
        allowed = False
        cheapest = min(tried, key=lambda item: item["lost"])
        limit = cheapest["lost"] + cheapest["standard_error"]
        choice = next(k for k, item in enumerate(tried) if item["lost"] <= limit)
    used = {
        "parameter": name,
        "default": default,
        "used": tried[choice]["strength"],
        "allowed": allowed,
        "lost": tried[choice]["lost"],
        "tried": tried,
    }
    chosen = attempts[choice]
    if not chosen.is_trial:
        return chosen.model, chosen.held, used
    # to its end, from where it was given up or only tried
    rest = replace(chosen.learner, attributes={"starts_from": chosen.model})
    model = rest.fit(data, progress=report)
    return model, rest.held_out(model, data, seed), used


class _Attempt(NamedTuple):
    """A training of one strength."""

    learner: Learner
    model: Method
    held: HeldOut
    is_trial: bool


def _quick_trial(
    attempt: Learner, begun: Method, data: Dataset, plain: HeldOut, progress: Report
) -> Method:
    """Go on with a training at a higher rate, until it is seen what its strength costs."""
    rate = begun.get_params()["learning_rate"]
    quick = attempt.changed(learning_rate=QUICKER * rate)
    judge = GivesUp(plain, data.y, pace=QUICKER_JUDGED)
    quick = replace(quick, attributes={"judge": judge, "starts_from": begun})
    return quick.fit(data, progress=progress)


def balanced_accuracy_lost(held: HeldOut, plain: HeldOut) -> tuple[float, float]:
    """Balanced accuracy of `plain` less that of `held` on their common rows, and its standard
    error.

    Each decides by the threshold that is best for it there. Both are 0 without common rows of both
    labels.
    """
    _, in_held, in_plain = np.intersect1d(
        held.rows, plain.rows, assume_unique=True, return_indices=True
    )
    labels = held.label[in_held]
    counts = np.bincount(labels, minlength=2)
    if counts.min() == 0:
        return 0.0, 0.0
    plain_right = _right(plain.probability[in_plain], labels)
    held_right = _right(held.probability[in_held], labels)
    difference = plain_right - held_right
    parts = [difference[labels == label] for label in (0, 1)]
    lost = float(np.mean([part.mean() for part in parts]))
    return lost, math.sqrt(sum(float(part.var()) / part.size for part in parts)) / 2.0


def _right(probability: Float, labels: Int) -> Float:
    """Whether each row is decided rightly by the threshold of the largest balanced accuracy."""
    negative, positive, thresholds = roc_curve(labels, probability)
    decided = probability >= thresholds[np.argmax(positive - negative)]
    right: Float = (decided == labels).astype(np.float64)
    return right
