"""The learned metric on tables of real people and on generated ones, beside all baselines.

    EVENHAND_DATA=FOLDER python -m benchmarks.studies.real_tables [--splits 10] [--tables adult ...]
        [--methods plain ...]

The truth of these tables is not known, so that three values stand for it. Balanced accuracy is
that of the recorded labels. The leak is the AUC of an attribute from the columns that a model
reads, on test rows. Consistency is the share of test people whose decision does not change for any
counterpart; the counterparts are learned from the test rows, so that no method has seen them.

A split has half of a table's rows for training and half for testing, at most 4,000 of each.
All methods select the same share of people: that which trees without mitigation predict above the
base rate for training people who were not among their training rows. Nothing is chosen on test
rows. Each result is a line of results/real_tables.jsonl; a run continues where one ended.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import RESULTS, provenance
from benchmarks.studies.planted_worlds import (
    METHODS,
    RULES,
    TREES,
    Training,
    codes_of,
    learned_metric,
    results_of,
    telling_columns,
    training_of,
)
from benchmarks.studies.untuned_tables import TABLES
from benchmarks.summaries import text_of
from evenhand.fairlib.datasets.planted import Attribute, PlantedPeople, PlantedWorld
from evenhand.fairlib.distances.adaptation import levels_of
from evenhand.fairlib.distances.attribute_leak import attribute_leak
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.tasks.execution.store import Store

LINES = RESULTS / "real_tables.jsonl"
SUMMARY = RESULTS / "real_tables.json"
MOST_ROWS = 4000
TRAINING_SHARE = 0.5
# Limits between groups of a sensitive number, by table.
AGE_LIMITS = {"german": [25], "bank": [29, 59], "admissions": [29]}
BASELINES = ("plain", "blind", "leave_out", "reweigh", "group_thresholds")
NETWORK_BASELINES = ("network_thresholds", "network_reweigh")
MITIGATIONS = ("project-learned", "budro-learned", "sensei-learned")
MEASURES = ("balanced_accuracy", "auc", "consistency", "selection_gap", "leak")


class Split(NamedTuple):
    """Training and test people of a split, the judge's counterparts, and the selected share."""

    training: Training
    test: PlantedPeople
    judge: LearnedMetric
    share: float


def people_of(name: str, store: Store) -> tuple[PlantedWorld, pd.DataFrame, np.ndarray]:
    """A table as a world without a model of it: attributes, columns and labels."""
    source = TABLES[name]
    table = source.read(store)
    label = (table.pop(source.label).astype(str) == source.positive).to_numpy().astype(np.int64)
    attributes = []
    for column in source.sensitive:
        if table[column].dtype.kind in "if":
            intervals = np.searchsorted(AGE_LIMITS[name], table[column])
            table[column] = [f"group {number}" for number in intervals]
        groups = table[column].astype(str).value_counts(normalize=True)
        shares = tuple(float(share) for share in groups)
        attributes.append(Attribute(column, tuple(groups.index), shares))
    for name_of_column in table:
        values = table[name_of_column]
        kind = np.float64 if values.dtype.kind in "if" else str
        table[name_of_column] = values.astype(kind)
    return PlantedWorld(name, "", tuple(attributes), ()), table, label


def part_of(
    world: PlantedWorld, table: pd.DataFrame, label: np.ndarray, rows: np.ndarray
) -> PlantedPeople:
    """Some rows of a table; the recorded label stands for the true one."""
    part = table.iloc[rows].reset_index(drop=True)
    return PlantedPeople(world, {}, np.zeros(len(rows)), {}, part, label[rows], label[rows])


def split_of(world: PlantedWorld, table: pd.DataFrame, label: np.ndarray, seed: int) -> Split:
    """Training and test rows of a split."""
    order = np.random.default_rng(seed).permutation(len(table))
    cut = int(TRAINING_SHARE * len(table))
    filled = table.copy()
    for column in table.select_dtypes("float"):
        filled[column] = table[column].fillna(table[column].iloc[order[:cut]].median())
    training = training_of(world, part_of(world, filled, label, order[:cut][:MOST_ROWS]))
    test = part_of(world, filled, label, order[cut:][:MOST_ROWS])
    groups = training.encoder.groups_
    judge = LearnedMetric(
        sensitive={name: groups[name] for name in training.attributes}, feature_groups=groups
    )
    # without labels no column is removed
    features = {name: test.table[name].to_numpy() for name in training.attributes}
    judge.fit(training.encoder.transform(test.table), sensitive_features=features)
    return Split(training, test, judge, selected_share(training))


def selected_share(training: Training) -> float:
    """Share of training people whom trees fitted on other ones predict above the base rate."""
    from sklearn.model_selection import cross_val_predict

    label = training.people.label
    model = GBDTClassifier(**TREES)
    scores = cross_val_predict(model, training.X, label, cv=4, method="predict_proba")[:, 1]
    return float((scores > label.mean()).mean())


def leaks_of(split: Split, method: str) -> dict[str, float]:
    """AUC of each attribute from what a method's model reads of the test rows."""
    training = split.training
    X = training.encoder.transform(split.test.table)
    rows: Any = X
    if method in MITIGATIONS:
        rows = learned_metric(training).what_is_left(X, adapted=True)
    elif method == "leave_out":
        rows = X[:, training.columns_without(telling_columns(training))]
    else:
        rows = X[:, training.columns_without(training.sensitive)]
    leaks = {}
    for name in training.attributes:
        leaks[name] = round(attribute_leak(rows, split.test.table[name]).auc, 5)
    return leaks


def decoded(training: Training, X: np.ndarray) -> pd.DataFrame:
    """Encoded rows as a table again."""
    columns = {}
    for item in training.encoder.fitted_:
        part = X[:, training.encoder.groups_[item.name]].astype(np.float64)
        if item.kind == "onehot":
            # an empty name, which the encoder ignores, where no column is 1
            names = np.array([*item.categories, ""], dtype=object)
            columns[item.name] = names[levels_of(part, range(part.shape[1]))]
        else:
            columns[item.name] = part[:, 0] * item.scale + item.mean
    return pd.DataFrame(columns)


def measure(split: Split, method: str) -> dict[str, Any]:
    """Measures of a method on the test rows of a split."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    training, test = split.training, split.test
    score = METHODS[method](training)
    scores = score(test.table)
    threshold = np.quantile(scores, 1 - split.share)
    selected = scores > threshold
    features = {name: test.table[name].to_numpy() for name in training.attributes}
    X = training.encoder.transform(test.table)
    same = np.ones(len(selected), dtype=bool)
    for copy in split.judge.counterfactuals(X, sensitive_features=features):
        same &= (score(decoded(training, copy)) > threshold) == selected
    codes = codes_of(training.world, test.table)
    rates = [selected[codes == code].mean() for code in np.unique(codes)]
    leaks = leaks_of(split, method)
    values = (
        balanced_accuracy_score(test.label, selected),
        roc_auc_score(test.label, scores),
        same.mean(),
        max(rates) - min(rates),
        max(leaks.values()),
    )
    result: dict[str, Any] = {}
    for name, value in zip(MEASURES, values, strict=True):
        result[name] = round(float(value), 5)
    return result | {"leaks": leaks}


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over splits by table and method, and paired differences from the best baseline."""
    frame = pd.DataFrame(results)
    tables = {}
    for table, of_table in frame.groupby("table", sort=False):
        means = of_table.groupby("method")["balanced_accuracy"].mean()
        methods = {}
        for name, of_method in of_table.groupby("method", sort=False):
            entry: dict[str, Any] = {
                key: round(float(of_method[key].mean()), 4) for key in MEASURES
            }
            entry["splits"] = len(of_method)
            entry["older_rules"] = int((of_method["rules"] != RULES).sum())
            baselines = [*BASELINES, *NETWORK_BASELINES] if "sensei" in str(name) else BASELINES
            best = max((key for key in baselines if key in means), key=lambda key: means[key])
            reference = of_table[of_table["method"] == best].set_index("split")
            own = of_method.set_index("split")
            gains = (own["balanced_accuracy"] - reference["balanced_accuracy"]).dropna()
            entry["best_baseline"] = best
            entry["gain"] = round(float(gains.mean()), 4)
            if len(gains) > 1:
                entry["gain_error"] = round(float(gains.std(ddof=1) / np.sqrt(len(gains))), 4)
            methods[str(name)] = entry
        tables[str(table)] = methods
    return {name: tables[name] for name in TABLES if name in tables}


def write_summary() -> None:
    """Write the committed summary."""
    results = list(results_of(LINES))
    if results:
        command = "python -m benchmarks.studies.real_tables"
        content = {"provenance": provenance(command), "tables": summary(results)}
        SUMMARY.write_text(text_of(content))


def main() -> None:
    """Run what no earlier run has measured, and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10, help="0 only writes the summary")
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    names = [*BASELINES, *NETWORK_BASELINES, *MITIGATIONS]
    parser.add_argument("--methods", nargs="*", choices=names, default=names)
    options = parser.parse_args()
    done = set()
    for record in results_of(LINES):
        # the judge's counterparts, too, are learned by the rules
        if record.get("rules") == RULES:
            done.add((record["table"], record["split"], record["method"]))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.splits):
            for table in options.tables:
                missing = [name for name in options.methods if (table, number, name) not in done]
                if missing:
                    run(table, number, missing, Store(folder))
    write_summary()


def run(name: str, number: int, methods: list[str], store: Store) -> None:
    """Measure methods on one split of a table."""
    world, table, label = people_of(name, store)
    split = split_of(world, table, label, number)
    for method in methods:
        start = time.process_time()
        record = {"table": name, "split": number, "method": method, **measure(split, method)}
        record["cpu_s"] = round(time.process_time() - start, 1)
        record["rules"] = RULES
        with LINES.open("a") as lines:
            lines.write(json.dumps(record) + "\n")
        print(record, flush=True)


if __name__ == "__main__":
    main()
