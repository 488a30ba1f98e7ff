"""What FAIAS buys over leaving the column out: parts ``stand_ins`` and ``changes`` of
``benchmarks.reproductions.faias_paper``.

``stand_ins``: generated tables whose label is unfair to one group, with two stand-ins of the
sensitive column of growing correlation, and with many weak ones. ``changes``: COMPAS, German and
Bank, the method of the paper beside changes of it. All networks have the same layers, steps and
training people. Families of settings are chosen by ``benchmarks.protocol``: each on the inner
folds, as the candidate with the least difference between the groups among those whose accuracy is
at most a floor (``FLOORS``) below that of *blind* there, and used once on the test people of
another seed (generated tables: on 10,000 new people). The generated labels cannot be met without
the stand-ins, so their floor is lower, and accuracy is also measured on labels that are fair.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.common import log, rounded
from benchmarks.protocol import Metrics, Rows, Settings, choose, choosing_seed, selection_people
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.group_thresholds import fit_group_thresholds
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.methods.faias import trainer as trainer_module
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.fairlib.methods.faias.players import selections
from evenhand.fairlib.methods.faias.trainer import Trainer
from evenhand.fairlib.methods.registry import method_class
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import prepare
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

FLOORS = {"stand_ins": 0.07, "changes": 0.01}
FOLDS, SEEDS, TEST_PEOPLE, PEOPLE = 2, 5, 10_000, 2000
JUDGED = {"german": 3, "compas": 3, "bank": 1}
COPY = "copy of the sensitive column"
# by table: job, sensitive column, and settings of the training that all networks share
TABLES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "german": ("german-faias", "sex", {"n_epochs": 30}),
    "compas": (
        "compas-faias",
        "sex",
        {"hidden": (100, 100), "n_epochs": 10, "batch_size": 128, "learning_rate": 5e-4},
    ),
    "bank": (
        "bank-faias",
        "age_group",
        {"hidden": (100, 100), "n_epochs": 5, "learning_rate": 5e-4},
    ),
}
GENERATED: dict[str, Any] = {
    "hidden": (32, 32),
    "n_epochs": 60,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "selector_learning_rate": 0.02,
    "validation_share": 0.0,
}
# correlation of each stand-in, how many there are, and tables drawn
CASES = [(0.6, 2, 2), (0.95, 2, 1), (0.2, 10, 1), (0.2, 40, 1)]
BLIND: Settings = {"initial_probability": 1.0, "sensitivity_weight": 0.0}
PAPER: list[Settings] = [{"initial_probability": 0.9, "sensitivity_weight": w} for w in (1.0, 10.0)]
TOLERANCES: list[Settings] = [
    {**BLIND, "tolerance": tolerance} for tolerance in (0.0, 0.03, 0.06, 0.1)
]
PLANTED: list[Settings] = [
    {"initial_probability": 0.5, "sensitivity_weight": 0.1},
    {"initial_probability": 0.9, "sensitivity_weight": 10.0},
]
PENALTIES = (10.0, 30.0)
# with one candidate there is nothing to choose
FAMILIES: dict[str, list[Settings]] = {
    "faias": PAPER,
    "faias, selector off": [{**PAPER[0], "initial_probability": 1.0}],
    "faias, sensitivity loss off": [{**PAPER[0], "sensitivity_weight": 0.0}],
    "thresholds by group": TOLERANCES,
    "faias, selector by label": [{**PAPER[0], "change": "by label"}],
    "faias, selector from associations": [{**PAPER[0], "change": "associations"}],
    "faias, dependence penalty": [
        {"initial_probability": 0.9, "sensitivity_weight": 1.0, "dependence_weight": w}
        for w in PENALTIES
    ],
    "dependence penalty alone": [{**BLIND, "dependence_weight": w} for w in PENALTIES],
}


# under the constraint that they are judged on, and without the sensitive column, which would decide
COMPARATORS = ("exponentiated-gradient", "adversarial-debiasing")
# parts of the method, with nothing to choose
OFF = ("faias, selector off", "faias, sensitivity loss off")
# not tried on Bank, where a training takes longest
SLOW = ("faias, selector by label", "faias, selector from associations")


@dataclass(frozen=True)
class People:
    """Rows, labels, values of the sensitive column as text, and their numbers in the table."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    group: NDArray[Any]
    rows: Rows
    fair: NDArray[np.int64] | None = None  # labels without the unfairness, of a generated table

    def take(self, rows: Rows) -> People:
        """Some of them."""
        fair = None if self.fair is None else self.fair[rows]
        return People(self.X[rows], self.y[rows], self.group[rows], self.rows[rows], fair)


@dataclass(frozen=True)
class Task:
    """What all networks of a table share."""

    attribute: str
    groups: Mapping[str, list[int]]
    settings: Mapping[str, Any]
    limited: Any  # criterion of the thresholds by group: that of the measured difference
    seed: int
    fitted: dict[Any, Any] = field(default_factory=dict)  # thresholds by group share their network

    def measure(self, settings: Settings, train: People, test: People) -> Metrics:
        """Train with some settings, and measure on other people."""
        given = {**self.settings, **settings}
        change, tolerance = given.pop("change", None), given.pop("tolerance", None)
        penalty = given.pop("dependence_weight", 0.0)
        dropped = given.pop("dropped", 0)
        hidden = self.groups[self.attribute]
        X, Z = train.X, test.X
        if change == "plain":
            # a copy is the sensitive column, so that the column itself is shown
            groups = {**self.groups, COPY: list(range(X.shape[1], X.shape[1] + len(hidden)))}
            X, Z = (np.concatenate([rows, rows[:, hidden]], axis=1) for rows in (X, Z))
        else:
            groups = dict(self.groups)
        if dropped:
            others = np.setdiff1d(np.arange(X.shape[1]), hidden)
            shown = np.abs(associations(X[:, others], X[:, hidden]))
            X = X.copy()
            X[:, others[np.argsort(-shown)[:dropped]]] = 0.0
            Z = np.where(X.any(axis=0) | np.isin(np.arange(X.shape[1]), hidden), Z, 0.0).astype(
                np.float32
            )
        classes = {"by label": ByLabel, "associations": FromAssociations}
        name = COPY if change == "plain" else self.attribute
        key = (str(sorted(given.items())), change, dropped, penalty, hash(X.tobytes()))
        if key not in self.fitted:
            model = classes.get(change, FAIASClassifier)(**given, random_state=self.seed)
            with penalised(penalty) if penalty else contextlib.nullcontext():
                self.fitted[key] = model.fit(
                    X, train.y, sensitive_features=[name], feature_groups=groups
                )
        model = self.fitted[key]
        score = model.predict_proba(Z)[:, 1]
        decided = (score > 0.5).astype(np.int64)
        if tolerance is not None:
            held = model.validation_.rows
            rule = fit_group_thresholds(
                model.validation_.probability[:, 1],
                train.y[held],
                train.group[held],
                attribute=self.attribute,
                criterion=self.limited,
                tolerance=tolerance,
            )
            decided = rule.decide(
                score, test.group, np.random.default_rng(self.seed).random(len(score))
            )
        return self.scored(decided, score, test)

    def comparator(self, method: str, train: People, test: People) -> Metrics:
        """The same for a comparator with equalized odds."""
        model: Any = method_class(method)(constraint="equalized_odds", random_state=self.seed)
        X, Z = train.X.copy(), test.X.copy()
        X[:, self.groups[self.attribute]], Z[:, self.groups[self.attribute]] = 0.0, 0.0
        model.fit(X, train.y, sensitive_features={self.attribute: train.group})
        return self.scored(model.predict(Z), model.predict_proba(Z)[:, 1], test)

    def scored(self, decided: NDArray[Any], score: NDArray[Any], test: People) -> Metrics:
        """Metrics of decisions."""
        found = evaluate(
            Outcomes(test.y, decided, score, {self.attribute: test.group}), draws=0
        ).metrics
        names = (
            "demographic_parity_difference",
            "equal_opportunity_difference",
            "average_odds_difference",
        )
        values: Any = {name: found[f"{name}.{self.attribute}"].value for name in names}
        fair = (
            {}
            if test.fair is None
            else {"accuracy_on_fair_labels": float((decided == test.fair).mean())}
        )
        return (
            {name: found[name].value for name in ("accuracy", "balanced_accuracy")} | values | fair
        )


def associations(X: NDArray[np.float32], sensitive: NDArray[np.float32]) -> NDArray[np.float64]:
    """Largest absolute correlation of each column with the sensitive ones."""
    a, b = (
        rows - rows.mean(axis=0) for rows in (X.astype(np.float64), sensitive.astype(np.float64))
    )
    scale = np.outer(a.std(axis=0), b.std(axis=0))
    return np.abs((a.T @ b) / len(a) / np.where(scale > 0, scale, np.inf)).max(axis=1)


def dependence(probabilities: Tensor, labels: Tensor, columns: Tensor) -> Tensor:
    r"""Unbiased estimate of how far the outputs tell the sensitive columns among people of one
    label.

    .. math:: \sum_y P(y) \sum_c \| \mathrm{Cov}(f, x_c \mid y) \|^2

    Each square is a product of the covariances of the even and of the odd rows of a mini-batch: the
    square of one estimate is too large by its variance, and would draw all outputs towards one
    value.
    """
    total = probabilities.new_zeros(())
    for label in labels.unique():
        found = []
        for half in (slice(0, None, 2), slice(1, None, 2)):
            share = (labels[half] == label).to(columns.dtype)
            share = (share / share.sum().clamp_min(1.0))[:, None]
            f, x = probabilities[half], columns[half]
            found.append((share * (f - (share * f).sum(0))).T @ (x - (share * x).sum(0)))
        total = total + (labels == label).sum() / len(labels) * (found[0] * found[1]).sum()
    return total


@contextlib.contextmanager
def penalised(weight: float) -> Iterator[None]:
    """Trainings in here have the weighted dependence in the predictor's loss."""
    seen: dict[str, Tensor] = {}
    step, apply, sensitivity = Trainer._step, Trainer._apply, trainer_module.sensitivity

    def kept_step(
        trainer: Trainer, x: Tensor, labels: Tensor, weights: Any = None
    ) -> tuple[float, float]:
        seen["x"], seen["labels"] = x, labels
        return step(trainer, x, labels, weights)

    def kept_outputs(*given: Any) -> tuple[Tensor, Tensor]:
        seen["logits"], changes = sensitivity(*given)
        return seen["logits"], changes

    def kept_apply(trainer: Trainer, player: str, loss: Tensor) -> None:
        if player == "predictor":
            hidden = trainer.players.features.hidden
            columns = seen["x"][:, hidden] / trainer.x[:, hidden].std(0).clamp_min(1e-7)
            loss = loss + weight * dependence(seen["logits"].softmax(1), seen["labels"], columns)
        apply(trainer, player, loss)

    patched = mock.patch.multiple(Trainer, _step=kept_step, _apply=kept_apply)
    with patched, mock.patch.object(trainer_module, "sensitivity", kept_outputs):
        yield


class FromAssociations(FAIASClassifier):
    """Selection probabilities that start at one less the association with the sensitive column."""

    def fit(self, X: Any, y: Any, **given: Any) -> FromAssociations:
        """As the base."""
        self._rows = np.asarray(X)
        return super().fit(X, y, **given)

    def _build(self, generator: torch.Generator | None) -> Any:
        players = super()._build(generator)
        hidden = [column for name in self.attributes_ for column in self.groups_[name]]
        found = associations(self._rows, self._rows[:, hidden])
        starts = [
            self.initial_probability * (1.0 - found[columns].max())
            for columns in self.groups_.values()
        ]
        with torch.no_grad():
            theta: Any = players.selector.theta
            theta.copy_(torch.tensor(starts).clamp(0.02, 0.98).logit())
        return players


class ByLabel(FAIASClassifier):
    """A selector with probabilities for each label; a prediction mixes them by the labels'
    shares.
    """

    def fit(self, X: Any, y: Any, **given: Any) -> ByLabel:
        """As the base; the selections of a row are drawn with the probabilities of its label."""
        self._share = float(np.mean(y))
        step = Trainer._step

        def labelled(
            trainer: Trainer, x: Tensor, labels: Tensor, *given: Any
        ) -> tuple[float, float]:
            trainer.players.selector.current = labels
            return step(trainer, x, labels, *given)

        with mock.patch.object(Trainer, "_step", labelled):
            return super().fit(X, y, **given)

    def _build(self, generator: torch.Generator | None) -> Any:
        players: Any = super()._build(generator)
        selector, share = players.selector, self._share
        selector.theta = torch.nn.Parameter(selector.theta.detach().repeat(2, 1))

        def mean(levels: Any, x: Tensor) -> Any:
            total: Any = 0.0
            for theta, weight in zip(selector.theta.detach(), (1.0 - share, share), strict=True):
                distinct, counts = selections(levels, selector.probabilities(theta).numpy())
                for mask, count in zip(distinct, counts, strict=True):
                    shown = players.features.masked(x, torch.from_numpy(mask)[None].to(x.dtype))
                    found = players.predictor(shown).double().softmax(1).numpy()
                    total = total + weight * count / counts.sum() * found
            return total

        selector.logits, players._mean = lambda x: selector.theta[selector.current], mean
        return players


def stand_ins(seed: int, correlation: float, count: int, n: int) -> People:
    """Column 0 is sensitive, 1 to 4 are merits, the others stand-ins; the label is unfair to group
    0.
    """
    draws = np.random.default_rng([seed, n])
    sensitive = (draws.random(n) < 0.5).astype(float)
    merits = draws.random((n, 4))
    # a copy with a share of its values flipped has the correlation 1 - 2 share
    flipped = draws.random((n, count)) < (1.0 - correlation) / 2
    copies = np.where(flipped, 1.0 - sensitive[:, None], sensitive[:, None])
    score = merits.sum(axis=1) + draws.normal(0, 0.4, n)
    y, fair = ((score + shift > 2.35).astype(np.int64) for shift in (0.7 * sensitive, 0.35))
    X = np.concatenate([sensitive[:, None], merits, copies], axis=1).astype(np.float32)
    return People(X, y, sensitive.astype(int).astype(str).astype(object), np.arange(n), fair)


def least_gap(metric: str, floor: float) -> Any:
    """Rule: of the candidates after the first, *blind*, the least gap at nearly its accuracy."""

    def rule(means: Any) -> int:
        accuracy = np.array([mean["accuracy"] for mean in means])
        gap = np.array([mean[metric] for mean in means])
        near = np.flatnonzero(accuracy[1:] >= accuracy[0] - floor) + 1
        return int(near[gap[near].argmin()] if len(near) else accuracy[1:].argmax() + 1)

    return rule


def judged(
    choosing: Task,
    people: People,
    task: Task,
    train: People,
    test: People,
    families: Any,
    rule: Any,
) -> dict[str, Any]:
    """Plain, blind and the chosen candidate of every family, measured once."""
    known: dict[tuple[Any, ...], Metrics] = {}

    def inner(settings: Settings, kept: Rows, held: Rows) -> Metrics:
        key = (*sorted(settings.items()), held[0], len(held), held.sum())
        if key not in known:
            known[key] = choosing.measure(settings, people.take(kept), people.take(held))
        return known[key]

    found: dict[str, Any] = {}
    started = time.monotonic()
    for name, candidates in families.items():
        settings = candidates[0]
        if len(candidates) > 1:
            given = [BLIND, *candidates]
            settings, _ = choose(given, inner, rule, people.y, choosing.seed, FOLDS)
        found[name] = {**task.measure(settings, train, test), "settings": dict(settings)}
    found["blind"] = dict(task.measure(BLIND, train, test))
    found["plain"] = dict(task.measure({**BLIND, "change": "plain"}, train, test))
    log(
        {
            name: (round(row["accuracy"], 3), round(row["average_odds_difference"], 3))
            for name, row in found.items()
        }
    )
    log(f"{time.monotonic() - started:.0f} s")
    return rounded(found)


def stand_ins_part(kept: dict[str, Any], save: Any) -> None:
    """Every case on five tables: choices on the training people, measured on new people."""
    for correlation, count, draws in CASES:
        runs = kept.setdefault(f"{count} of correlation {correlation}", [])
        names = ["x0", *(f"merit{j}" for j in range(4)), *(f"copy{j}" for j in range(count))]
        groups = {name: [j] for j, name in enumerate(names)}
        families = {
            "faias": PLANTED,
            "most associated features left out": [
                {**BLIND, "dropped": j} for j in sorted({count // 2, count})
            ],
            "thresholds by group": [{**given, "validation_share": 0.25} for given in TOLERANCES],
        }
        for seed in range(len(runs), draws):
            task = Task("x0", groups, GENERATED, "demographic_parity", seed)
            train = stand_ins(seed, correlation, count, PEOPLE)
            test = stand_ins(seed, correlation, count, TEST_PEOPLE)
            log(correlation, count, seed)
            rule = least_gap("demographic_parity_difference", FLOORS["stand_ins"])
            runs.append(judged(task, train, task, train, test, families, rule))
            save("stand_ins", kept)


def changes_part(kept: dict[str, Any], save: Any) -> None:
    """The paper's method and its changes on the judged seeds of three tables."""
    store = Store(os.environ.get("EVENHAND_STORE"))
    for table, (job, attribute, changed) in TABLES.items():
        runs = kept.setdefault(table, [])
        for seed in range(len(runs), JUDGED[table]):
            task, train, test = data_of(store, job, attribute, changed, seed)
            other = choosing_seed(seed, SEEDS)
            choosing, people, _ = data_of(store, job, attribute, changed, other)
            people = people.take(selection_people(people.rows, test.rows))
            log(table, seed)
            rule = least_gap("average_odds_difference", FLOORS["changes"])
            families = {
                name: FAMILIES[name] for name in FAMILIES if table != "bank" or name not in SLOW
            }
            runs.append(judged(choosing, people, task, train, test, families, rule))
            save("changes", kept)
        for seed, run in enumerate(runs):
            task, train, test = data_of(store, job, attribute, changed, seed)
            for method in COMPARATORS:
                name = f"{method}, equalized odds"
                if name not in run:
                    run[name] = rounded(task.comparator(method, train, test))
            for name in OFF:
                if name not in run:
                    run[name] = rounded(task.measure(FAMILIES[name][0], train, test))
            log(table, seed, run)
            save("changes", kept)


def data_of(
    store: Store, job: str, attribute: str, changed: Mapping[str, Any], seed: int
) -> tuple[Task, People, People]:
    """A job's training and test people with a seed."""
    resolved = resolve(*load_job(job, [f"seed={seed}"]))
    steps = Steps(store, DirectEngine(store))
    prepare(resolved, steps)
    parts = [
        read_dataset(store.fetch(steps.output("preprocess", part))) for part in ("train", "test")
    ]
    shared = {**resolved.arguments, **changed}
    groups = {name: list(columns) for name, columns in parts[0].groups.items()}
    task = Task(attribute, groups, shared, "equalized_odds", seed)
    train, test = (People(data.X, data.y, data.sensitive[attribute], data.rows) for data in parts)
    return task, train, test
