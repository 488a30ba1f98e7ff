"""Methods in planted worlds, where the true labels and the counterparts of people are known.

    python -m benchmarks.studies.planted_worlds [--seeds 3] [--rows 2500] [--worlds linear ...]
        [--methods plain ...]

Each result is a line of results/planted_worlds.jsonl; a run continues where an earlier one ended.
The summary results/planted_worlds.json has means over seeds, their standard errors, and which world
reaches which figure; the tables of docs/research/fair-metric.md are made of it.

All decisions are at a selected share of one half of the test people. Measured are the accuracy and
the AUC of the true labels, the accuracy of the recorded ones, the share of decisions that do not
change when the person is regenerated under any other group, and the largest difference of selection
rates. Settings are chosen on training rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import RESULTS, provenance
from benchmarks.studies.planted_criteria import (
    best_baseline,
    judged,
    leaks_of,
    paired,
    standard_error,
    write_page,
)
from benchmarks.summaries import text_of
from evenhand.fairlib.arrays import Float, Float32, Index
from evenhand.fairlib.datasets.planted import WORLDS, PlantedPeople, PlantedWorld
from evenhand.fairlib.datasets.planted_unseen import UNSEEN_WORLDS
from evenhand.fairlib.distances.attribute_leak import attribute_leak
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.group_readers import combined_codes
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import (
    ProjectedGBDTClassifier,
    ReweighedGBDTClassifier,
    kamiran_calders_weights,
)
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

LINES = RESULTS / "planted_worlds.jsonl"
SUMMARY = RESULTS / "planted_worlds.json"
TEST_ROWS = 4000
SELECTED = 0.5
# The number of steps is chosen on a fifth of the training rows.
TREES: dict[str, Any] = {
    "n_steps": 300,
    "max_depth": 3,
    "eta": 0.08,
    "validation_fraction": 0.2,
    "random_state": 0,
    "n_jobs": 1,
}
BUDRO = TREES | {"n_steps": 150, "eta": 0.1}
# To be raised with every change of what the learned metric decides: results of the methods that use
# it are measured again where their line has another number. Until then the summary has the older
# results, and their number.
RULES = 5
# What names a result, of planted worlds and of real tables.
KEYS = ("world", "seed", "rows", "table", "split", "method")
# Not a method: what the metric leaves, and the CPU seconds it takes.
LEAKS = "metric"
MEASURES = ("true_auc", "true_accuracy", "recorded_accuracy", "consistency", "selection_gap")
ALL_WORLDS = WORLDS | UNSEEN_WORLDS
Scorer = Callable[[pd.DataFrame], Float]


class Training(NamedTuple):
    """Training people of a world, encoded."""

    world: PlantedWorld
    people: PlantedPeople
    encoder: TableEncoder
    X: Float32
    codes: Index
    # the metric that all methods share
    metrics: dict[str, LearnedMetric]

    @property
    def attributes(self) -> list[str]:
        """Names of the sensitive attributes."""
        return [attribute.name for attribute in self.world.attributes]

    @property
    def sensitive(self) -> list[int]:
        """Columns of X that hold a sensitive attribute."""
        positions = []
        for name in self.attributes:
            positions += self.encoder.groups_[name]
        return positions

    @property
    def features(self) -> dict[str, Any]:
        """Sensitive features by name."""
        return {name: self.people.table[name].to_numpy() for name in self.attributes}

    def columns_without(self, removed: list[int]) -> list[int]:
        """Columns of X but some."""
        return [j for j in range(self.X.shape[1]) if j not in removed]

    def scorer(self, model: Any, columns: list[int] | None = None) -> Scorer:
        """Scores of a model that reads some columns."""

        def score(table: pd.DataFrame) -> Float:
            X = self.encoder.transform(table)
            if columns is not None:
                X = X[:, columns]
            return np.asarray(model.predict_proba(X)[:, 1])

        return score


def codes_of(world: PlantedWorld, table: pd.DataFrame) -> Index:
    """Combined group of every person."""
    codes = []
    sizes = []
    for attribute in world.attributes:
        number = {name: code for code, name in enumerate(attribute.groups)}
        codes.append(table[attribute.name].map(number).to_numpy().astype(np.int64))
        sizes.append(len(attribute.groups))
    return combined_codes(codes, sizes)


def training_of(world: PlantedWorld, people: PlantedPeople) -> Training:
    """Encode training people."""
    specs = []
    for column in people.table:
        is_number = people.table[column].dtype.kind == "f"
        specs.append(ColumnSpec(str(column), "standard" if is_number else "onehot"))
    encoder = TableEncoder(specs, unseen="ignore").fit(people.table)
    X = encoder.transform(people.table)
    return Training(world, people, encoder, X, codes_of(world, people.table), {})


def plain(training: Training) -> Scorer:
    """Trees without mitigation."""
    return training.scorer(GBDTClassifier(**TREES).fit(training.X, training.people.label))


def without(training: Training, removed: list[int]) -> Scorer:
    """Trees without some columns."""
    columns = training.columns_without(removed)
    model = GBDTClassifier(**TREES).fit(training.X[:, columns], training.people.label)
    return training.scorer(model, columns)


def blind(training: Training) -> Scorer:
    """Trees without the sensitive columns."""
    return without(training, training.sensitive)


def telling_columns(training: Training) -> list[int]:
    """Sensitive columns and those that tell an attribute; only the former where every one does."""
    removed = list(training.sensitive)
    for name, positions in training.encoder.groups_.items():
        if name in training.attributes:
            continue
        for values in training.features.values():
            if attribute_leak(training.X[:, positions], values).above_chance:
                removed += positions
    if len(set(removed)) == training.X.shape[1]:
        removed = training.sensitive
    return removed


def leave_out(training: Training) -> Scorer:
    """Trees without the columns that tell an attribute."""
    return without(training, telling_columns(training))


def reweigh(training: Training) -> Scorer:
    """Trees on rows reweighed by group and label."""
    model = ReweighedGBDTClassifier(**TREES)
    model.fit(training.X, training.people.label, sensitive_features=training.features)
    return training.scorer(model)


def within_groups(training: Training, score: Scorer) -> Scorer:
    """Scores as ranks within the person's group: a threshold for each group."""
    scores = score(training.people.table)
    ranked = {}
    for code in np.unique(training.codes):
        ranked[code] = np.sort(scores[training.codes == code])

    def rank(table: pd.DataFrame) -> Float:
        values = score(table)
        codes = codes_of(training.world, table)
        ranks = np.zeros(len(values))
        for code, ordered in ranked.items():
            members = codes == code
            ranks[members] = np.searchsorted(ordered, values[members]) / len(ordered)
        # so that people beyond all training people are still ordered
        return ranks + 1e-6 * values

    return rank


def group_thresholds(training: Training) -> Scorer:
    """Trees without mitigation, with a threshold for each group."""
    return within_groups(training, plain(training))


def network_thresholds(training: Training) -> Scorer:
    """A network without mitigation, with a threshold for each group."""
    model = NeuralNetworkClassifier(random_state=0).fit(training.X, training.people.label)
    return within_groups(training, training.scorer(model))


def network_reweigh(training: Training) -> Scorer:
    """A network on rows reweighed by group and label."""
    labels = training.people.label
    weights = kamiran_calders_weights(training.codes, labels)
    model = NeuralNetworkClassifier(random_state=0)
    return training.scorer(model.fit(training.X, labels, sample_weight=weights))


def default_metric(training: Training) -> Metric:
    """The sensitive subspace with its defaults."""
    learned = []
    for name in training.attributes:
        learned.append(LearnedDirection(name, tuple(training.encoder.groups_[name])))
    metric = SensitiveSubspace(indicators=training.sensitive, learned=learned)
    return metric.fit(training.X, sensitive_features=training.features)


def learned_metric(training: Training) -> LearnedMetric:
    """The learned metric, with the world's legitimate columns; learned once."""
    if "learned" in training.metrics:
        return training.metrics["learned"]
    groups = training.encoder.groups_
    legitimate = []
    for name in training.world.legitimate:
        legitimate += groups[name]
    metric = LearnedMetric(
        sensitive={name: groups[name] for name in training.attributes},
        legitimate=legitimate,
        feature_groups=groups,
    )
    metric.fit(training.X, training.people.label, sensitive_features=training.features)
    training.metrics["learned"] = metric
    return metric


def oracle_metric(training: Training) -> Metric:
    """FACE on the true regenerated copies."""
    copies = []
    for table in training.people.every_group():
        copies.append(training.encoder.transform(table))
    return FACE(explained_variance=0.99).fit(training.X, counterfactuals=copies)


def projected(metric: Callable[[Training], Metric]) -> Callable[[Training], Scorer]:
    """The method `project` with a metric."""

    def train(training: Training) -> Scorer:
        model = ProjectedGBDTClassifier(metric(training), **TREES)
        return training.scorer(model.fit(training.X, training.people.label))

    return train


def boosted(metric: Callable[[Training], Metric]) -> Callable[[Training], Scorer]:
    """The method `budro` with a metric."""

    def train(training: Training) -> Scorer:
        model = BudroClassifier(metric(training), **BUDRO)
        return training.scorer(model.fit(training.X, training.people.label))

    return train


def regularised(metric: Callable[[Training], Metric]) -> Callable[[Training], Scorer]:
    """The method `sensei` with a metric."""

    def train(training: Training) -> Scorer:
        from evenhand.fairlib.methods.networks.sensei import SenSeIClassifier

        model = SenSeIClassifier(metric(training), random_state=0)
        return training.scorer(model.fit(training.X, training.people.label))

    return train


def oracle_trees(training: Training) -> Scorer:
    """Trees trained on everybody regenerated as one group; test people are regenerated, too."""
    table = training.people.every_group()[0]
    columns = training.columns_without(training.sensitive)
    X = training.encoder.transform(table)[:, columns]
    model = GBDTClassifier(**TREES).fit(X, training.people.label)
    return training.scorer(model, columns)


METHODS: dict[str, Callable[[Training], Scorer]] = {
    "plain": plain,
    "blind": blind,
    "leave_out": leave_out,
    "reweigh": reweigh,
    "group_thresholds": group_thresholds,
    "network_thresholds": network_thresholds,
    "network_reweigh": network_reweigh,
    "project": projected(default_metric),
    "project-learned": projected(learned_metric),
    "project-oracle": projected(oracle_metric),
    "budro": boosted(default_metric),
    "budro-learned": boosted(learned_metric),
    "budro-oracle": boosted(oracle_metric),
    "oracle-trees": oracle_trees,
    "sensei": regularised(default_metric),
    "sensei-learned": regularised(learned_metric),
    "sensei-oracle": regularised(oracle_metric),
}
# Networks take a minute each, so they must be named.
NETWORKS = ("sensei", "network")
DEFAULT_METHODS = tuple(name for name in METHODS if not name.startswith(NETWORKS))


def measure(
    world: PlantedWorld, people: PlantedPeople, score: Scorer, *, regenerated: bool
) -> dict[str, float]:
    """Measures of a scorer on test people; `regenerated` first makes them one group."""
    from sklearn.metrics import roc_auc_score

    tables = people.every_group()
    table = people.table
    if regenerated:
        tables = tables[:1]
        table = tables[0]
    scores = score(table)
    threshold = np.quantile(scores, 1 - SELECTED)
    selected = scores > threshold
    same = np.ones(len(selected), dtype=bool)
    for copy in tables:
        same &= (score(copy) > threshold) == selected
    codes = codes_of(world, people.table)
    rates = [selected[codes == code].mean() for code in np.unique(codes)]
    values = (
        roc_auc_score(people.true_label, scores),
        (selected == people.true_label).mean(),
        (selected == people.label).mean(),
        same.mean(),
        max(rates) - min(rates),
    )
    return {name: round(float(value), 5) for name, value in zip(MEASURES, values, strict=True)}


def metric_leaks(training: Training, test: PlantedPeople) -> dict[str, float]:
    """Largest AUC of an attribute from test rows, and from what two metrics leave of them.

    `leak` is that of the learned metric's adapted rows, `oracle_leak` of FACE on the true copies.
    """
    metric = learned_metric(training)
    X = training.encoder.transform(test.table)
    free = training.columns_without(training.sensitive)
    oracle = oracle_metric(training).project(X)
    parts = {
        "leak_before": X[:, free],
        "leak": metric.what_is_left(X, adapted=True),
        "oracle_leak": oracle,
    }
    leaks = {}
    for name, rows in parts.items():
        values = []
        for attribute in training.attributes:
            values.append(attribute_leak(rows, test.table[attribute]).auc)
        leaks[name] = round(max(values), 5)
    return leaks


def uses_learned_metric(method: str) -> bool:
    """Whether a method's results depend on the rules of the learned metric."""
    return method == LEAKS or method.endswith("-learned")


def results_of(path: Path) -> Iterator[dict[str, Any]]:
    """Results of earlier runs, each by the newest rules under which it was measured."""
    if not path.exists():
        return
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        key = tuple(record.get(name) for name in KEYS)
        if key not in newest or record.get("rules", 0) >= newest[key].get("rules", 0):
            newest[key] = record
    yield from newest.values()


def is_current(record: Mapping[str, Any]) -> bool:
    """Whether a result does not depend on rules of the learned metric that have changed."""
    return not uses_learned_metric(record["method"]) or record.get("rules", 0) == RULES


def run(
    world: PlantedWorld, seed: int, rows: int, names: list[str], file: Path | None = None
) -> None:
    """Measure methods in a world with one seed, and add the results to a file of lines."""
    rng = np.random.default_rng([seed, rows])
    training = training_of(world, world.draw(rows, rng))
    test = world.draw(TEST_ROWS, rng)
    metric_seconds = 0.0
    if any(uses_learned_metric(name) for name in names):
        start = time.process_time()
        learned_metric(training)
        metric_seconds = time.process_time() - start
    for name in names:
        start = time.process_time()
        if name == LEAKS:
            result = metric_leaks(training, test)
            seconds = metric_seconds
        else:
            score = METHODS[name](training)
            seconds = time.process_time() - start
            result = measure(world, test, score, regenerated=name == "oracle-trees")
        record = {"world": world.name, "seed": seed, "rows": rows, "method": name, **result}
        record["cpu_s"] = round(seconds, 1)
        if uses_learned_metric(name):
            record["rules"] = RULES
        with (file or LINES).open("a") as lines:
            lines.write(json.dumps(record) + "\n")
        print(record, flush=True)


def older_rules(frame: pd.DataFrame) -> dict[str, int]:
    """By method, how many results were measured by older rules of the learned metric."""
    counts: dict[str, int] = {}
    for record in frame.to_dict("records"):
        if not is_current({str(key): value for key, value in record.items()}):
            name = str(record["method"])
            counts[name] = counts.get(name, 0) + 1
    return counts


def summary(
    results: list[dict[str, Any]], rows: int, worlds: Mapping[str, PlantedWorld] = ALL_WORLDS
) -> dict[str, Any]:
    """Means over seeds by world and method, and paired differences from the best control."""
    frame = pd.DataFrame(results)
    frame = frame[frame["rows"] == rows]
    entries = {}
    for name in worlds:
        of_world = frame[frame["world"] == name]
        best = None
        if len(of_world):
            best = best_baseline(of_world)
        if best is not None:
            entries[name] = {"unseen": name not in WORLDS, **_world_entry(of_world, best)}
    return entries


def _world_entry(of_world: pd.DataFrame, best: str) -> dict[str, Any]:
    """Means of a world's results, and the verdicts on them."""
    means = of_world.groupby("method")[list(MEASURES)].mean()
    methods = {}
    for name in METHODS:
        if name not in means.index:
            continue
        own: Any = means.loc[name]
        of_measures: dict[str, float | None] = {key: round(float(own[key]), 4) for key in MEASURES}
        difference = paired(of_world, name, best, "true_auc")
        of_measures["gain"] = round(float(difference.mean()), 4)
        error = standard_error(difference)
        of_measures["gain_error"] = None if error is None else round(error, 4)
        methods[name] = of_measures
    by_method = of_world.groupby("method")["seed"].nunique()
    entry = {
        "seeds": int(by_method[best]),
        "best_control": best,
        "methods": methods,
        "seeds_by_method": {str(name): int(count) for name, count in by_method.items()},
        "figures": judged(of_world),
        "older_rules": older_rules(of_world),
    }
    leaks = leaks_of(of_world)
    if leaks is not None:
        entry["leaks"] = leaks
    return entry


def write_summary(rows: int) -> None:
    """Write the committed summary."""
    command = "python -m benchmarks.studies.planted_worlds"
    earlier = {}
    if SUMMARY.exists():
        earlier = json.loads(SUMMARY.read_text()).get("worlds", {})
    worlds = earlier | {str(rows): summary(list(results_of(LINES)), rows)}
    content = {"provenance": provenance(command), "worlds": worlds}
    SUMMARY.write_text(text_of(content))
    write_page(content)


def main() -> None:
    """Run what no earlier run has measured, and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="0 only writes the summary")
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--worlds", nargs="*", choices=list(ALL_WORLDS), default=list(ALL_WORLDS))
    parser.add_argument(
        "--methods", nargs="*", choices=[*METHODS, LEAKS], default=[*DEFAULT_METHODS, LEAKS]
    )
    options = parser.parse_args()
    done = set()
    for record in filter(is_current, results_of(LINES)):
        done.add((record["world"], record["seed"], record["rows"], record["method"]))
    for seed in range(options.seeds):
        for world in options.worlds:
            names = []
            for name in options.methods:
                if (world, seed, options.rows, name) not in done:
                    names.append(name)
            if names:
                run(ALL_WORLDS[world], seed, options.rows, names)
    write_summary(options.rows)


if __name__ == "__main__":
    main()
