"""The learned metric on real tables: encoded rows as a table, and results of older rules."""

import json

import numpy as np
import pandas as pd

from benchmarks.studies.planted_worlds import (
    RULES,
    is_current,
    older_rules,
    results_of,
    training_of,
)
from benchmarks.studies.real_tables import decoded, part_of, summary
from evenhand.fairlib.datasets.planted import Attribute, PlantedWorld


def test_encoded_rows_are_decoded_to_the_same_table():
    table = pd.DataFrame(
        {"sex": ["f", "m", "f", "m"], "age": [20.0, 30.0, 45.0, 60.0], "job": ["a", "b", "c", "a"]}
    )
    world = PlantedWorld("people", "", (Attribute("sex", ("f", "m"), (0.5, 0.5)),), ())
    label = np.array([0, 1, 0, 1])
    training = training_of(world, part_of(world, table, label, np.array([2, 0, 1, 3])))
    rows = training.encoder.transform(table)
    again = decoded(training, rows)
    assert again["sex"].tolist() == table["sex"].tolist()
    assert again["job"].tolist() == table["job"].tolist()
    np.testing.assert_allclose(again["age"], table["age"], rtol=1e-6)
    np.testing.assert_allclose(training.encoder.transform(again), rows, atol=1e-6)


def test_results_of_newest_rules_count(tmp_path):
    lines = []
    for method, rules, value in (
        ("plain", None, 1),
        ("budro-learned", RULES, 2),
        ("budro-learned", RULES - 1, 3),
        ("project-learned", RULES - 1, 4),
    ):
        record = {"world": "linear", "seed": 0, "rows": 10, "method": method, "value": value}
        if rules is not None:
            record["rules"] = rules
        lines.append(json.dumps(record))
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(lines))
    results = list(results_of(path))
    assert sorted(record["value"] for record in results) == [1, 2, 4]
    assert [record["value"] for record in results if is_current(record)] == [1, 2]
    assert older_rules(pd.DataFrame(results)) == {"project-learned": 1}


def test_gains_on_tables_are_paired_by_split():
    rows = []
    values = {"plain": (0.70, 0.60), "blind": (0.71, 0.57), "project-learned": (0.72, 0.64)}
    for method, by_split in values.items():
        for split, value in enumerate(by_split):
            row = dict.fromkeys(("auc", "consistency", "selection_gap", "leak"), 0.5)
            row |= {"table": "german", "split": split, "method": method, "rules": RULES}
            rows.append(row | {"balanced_accuracy": value})
    project = summary(rows)["german"]["project-learned"]
    assert project["best_baseline"] == "plain"
    assert project["gain"] == 0.03
    assert project["gain_error"] == 0.01
    assert project["older_rules"] == 0
