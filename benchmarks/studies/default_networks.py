"""Defaults of the networks, DADI and FAIAS: ``python -m benchmarks.studies.default_networks [METHOD ...]``.

Every method is fitted with nothing but its default parameters and a seed, on three generated tables
and the four known ones. On a quarter of the rows it is compared with the base rate, and with a
logistic regression and scikit-learn's histogram boosting, both with their defaults, with all
columns (``plain``) and without the sensitive ones (``blind``). Needs the raw files in
EVENHAND_DATA.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.common import RESULTS, log, provenance, write_result
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

if TYPE_CHECKING:
    import pandas as pd

RESULT = "default_networks"
NAMES = ("nn", "sensei", "sensr", "clp", "dadi", "faias")
SEED = 0
# label and sensitive columns of the known tables; the greater of two labels is positive
KNOWN = {
    "adult": ("income", ("sex", "race")),
    "german": ("credit", ("age",)),
    "compas": ("two_year_recid", ("sex", "race")),
    "bank": ("y", ("age",)),
}
AGE_CUTS = {"german": (25,), "bank": (25, 60)}


@dataclass(frozen=True)
class Sample:
    """Encoded rows, labels 0 and 1, sensitive values, and columns of X by table column."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    sensitive: dict[str, NDArray[Any]]
    groups: dict[str, list[int]]

    def rows(self, chosen: NDArray[np.int64]) -> Sample:
        """Some of the rows."""
        kept = {name: values[chosen] for name, values in self.sensitive.items()}
        return Sample(self.X[chosen], self.y[chosen], kept, self.groups)

    @property
    def blind_columns(self) -> list[int]:
        """Columns of all that is not sensitive."""
        return [
            j for name, listed in self.groups.items() if name not in self.sensitive for j in listed
        ]


def encoded(frame: pd.DataFrame, label: str, sensitive: dict[str, NDArray[Any]]) -> Sample:
    """Encode a table as a contract without further words would: numbers standardised, the rest
    one-hot.
    """
    inputs = frame.drop(columns=label)
    for name, values in sensitive.items():
        inputs[name] = values
    specs = [
        ColumnSpec(name, "standard" if inputs[name].dtype.kind in "if" else "onehot")
        for name in inputs.columns
    ]
    inputs = inputs.assign(
        **{s.name: inputs[s.name].astype(str) for s in specs if s.kind == "onehot"}
    )
    encoder = TableEncoder(specs, "ignore").fit(inputs)
    y = frame[label].to_numpy()
    return Sample(
        encoder.transform(inputs),
        (y == np.unique(y)[-1]).astype(np.int64),
        sensitive,
        dict(encoder.groups_),
    )


def known_table(name: str) -> Sample:
    """A known table, with age in groups where it is sensitive."""
    folder = Path(os.environ["EVENHAND_DATA"])
    frame = RECIPES[name].read({raw.name: folder / raw.name for raw in RECIPES[name].files})
    label, columns = KNOWN[name]
    sensitive = {}
    for column in columns:
        values = frame[column].to_numpy()
        if name in AGE_CUTS:
            values = np.digitize(values.astype(float), AGE_CUTS[name])
        sensitive[column] = values.astype(str)
    return encoded(frame, label, sensitive)


def generated_table(
    n: int, numbers: int, codes: int, rate: float, bias: float, seed: int
) -> Sample:
    """People of two groups: numbers with heavy tails and interactions, codes of three to nine
    values.

    A third of the numbers differ between the groups by half a standard deviation; the group itself
    moves the log-odds by `bias`, and positive labels have the share `rate`.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.4).astype(int)
    z = rng.standard_normal((n, numbers))
    z[:, : numbers // 3] += 0.5 * group[:, None]
    table: dict[str, Any] = {"group": np.where(group == 1, "b", "a")}
    for j in range(numbers):
        table[f"number{j}"] = np.exp(z[:, j]) * 1000 if j % 3 == 1 else z[:, j].round(2)
    score = (
        z @ (rng.standard_normal(numbers) / np.sqrt(numbers))
        + 0.8 * z[:, 0] * z[:, -1]
        + bias * group
    )
    for j in range(codes):
        values = int(rng.integers(3, 10))
        code = rng.integers(0, values, n)
        table[f"code{j}"] = np.array([f"v{k}" for k in range(values)])[code]
        score += rng.standard_normal(values)[code] / np.sqrt(codes)
    score = 1.5 * score + rng.logistic(size=n)
    table["label"] = (score > np.quantile(score, 1 - rate)).astype(int)
    frame = pd.DataFrame(table)
    return encoded(frame, "label", {"group": frame["group"].to_numpy()})


GENERATED = {
    "small": lambda: generated_table(400, 6, 5, 0.45, 0.5, 1),
    "frequent": lambda: generated_table(20_000, 12, 12, 0.89, 1.0, 2),
    "rare": lambda: generated_table(12_000, 25, 15, 0.04, -1.0, 3),
}
TABLES = [*GENERATED, *KNOWN]


def sample(name: str) -> tuple[Sample, Sample]:
    """Training and test rows of a table."""
    whole = GENERATED[name]() if name in GENERATED else known_table(name)
    parts = train_test_split(
        np.arange(len(whole.y)), test_size=0.25, stratify=whole.y, random_state=SEED
    )
    train, test = (whole.rows(np.sort(part)) for part in parts)
    return train, test


def measured(
    probability: NDArray[np.float64], y: NDArray[np.int64], rate: float
) -> dict[str, float]:
    """Log loss, AUC, and balanced accuracy where those above the training rows' base rate are
    positive.
    """
    positive = probability > rate
    balanced = (positive[y == 1].mean() + (~positive[y == 0]).mean()) / 2
    return {
        "log_loss": float(log_loss(y, probability, labels=[0, 1])),
        "auc": float(roc_auc_score(y, probability)),
        "balanced_accuracy": float(balanced),
        "spread": float(probability.std()),
    }


def controls(train: Sample, test: Sample) -> dict[str, dict[str, float]]:
    """The base rate, and plain learners with and without the sensitive columns."""
    rate = float(train.y.mean())
    found = {"base_rate": measured(np.full(len(test.y), rate), test.y, rate)}
    every = list(range(train.X.shape[1]))
    for name, columns in (("plain", every), ("blind", train.blind_columns)):
        for kind, learner in (
            ("logistic", LogisticRegression(max_iter=1000)),
            ("gbdt", HistGradientBoostingClassifier(random_state=SEED)),
        ):
            learner.fit(train.X[:, columns], train.y)
            p = learner.predict_proba(test.X[:, columns])[:, 1]
            found[f"{name}_{kind}"] = measured(p, test.y, rate)
    return found


def fit(name: str, train: Sample, **parameters: Any) -> Any:
    """A fitted model of a method, with the arguments of ``fit`` that the pipeline gives."""
    spec = METHODS[name]
    given: dict[str, Any] = {}
    if spec.needs_metric:
        hidden = {attribute: train.groups[attribute] for attribute in train.sensitive}
        learned = [
            LearnedDirection(attribute, tuple(columns)) for attribute, columns in hidden.items()
        ]
        indicators = [j for columns in hidden.values() for j in columns]
        parameters["metric"] = SensitiveSubspace(indicators=indicators, learned=learned).fit(
            train.X, sensitive_features=train.sensitive
        )
    if spec.needs_groups:
        given["sensitive_features"] = train.sensitive
    if spec.needs_feature_groups:
        given["feature_groups"] = train.groups
    if spec.needs_counterfactuals:
        given["counterfactuals"] = flips(train)
    return method_class(name)(random_state=SEED, **parameters).fit(train.X, train.y, **given)


def flips(train: Sample) -> list[NDArray[np.float32]]:
    """Everybody with each value of the first sensitive column."""
    columns = train.groups[next(iter(train.sensitive))]
    copies = []
    for value in np.unique(train.X[:, columns], axis=0):
        copy = train.X.copy()
        copy[:, columns] = value
        copies.append(copy)
    return copies


def measure(name: str, train: Sample, test: Sample, **parameters: Any) -> dict[str, Any]:
    """Fit a method and measure it on test rows, corrected for the shift of its training."""
    started, spent = time.monotonic(), time.process_time()
    model = fit(name, train, **parameters)
    seconds, cpu = time.monotonic() - started, time.process_time() - spent
    p = model.predict_proba(test.X)[:, 1].clip(1e-12, 1 - 1e-12)
    p = 1 / (1 + (1 - p) / p * np.exp(model.prior_shift_))
    found: dict[str, Any] = {**measured(p, test.y, float(train.y.mean()))}
    found |= {"seconds": seconds, "cpu_seconds": cpu}
    steps = getattr(model, "history_", {})
    steps = steps.get("step", steps.get("epoch", []))
    found["steps"] = steps[-1] if steps else None
    for key in ("best_step_", "best_epoch_", "perturbation_budget_"):
        if hasattr(model, key):
            found[key.rstrip("_")] = getattr(model, key)
    if name == "dadi":
        found["asked"] = float(model.acquire(test.X).asked.mean())
        found["report"] = {name: model.feature_report_[name] for name in ("all", "acquired")}
    return found


def main(methods: list[str]) -> None:
    """Measure the methods, and keep what was measured of others."""
    path = RESULTS / f"{RESULT}.json"
    before = json.loads(path.read_text()) if path.exists() else {"tables": {}}
    tables = before["tables"]
    for table in TABLES:
        train, test = sample(table)
        entry = tables.setdefault(table, {"methods": {}})
        entry |= {
            "rows": len(train.y),
            "columns": train.X.shape[1],
            "groups": len(train.groups),
            "positive_share": float(train.y.mean()),
        }
        if "controls" not in entry:
            entry["controls"] = controls(train, test)
        for name in methods:
            entry["methods"][name] = measure(name, train, test)
            log(table, name, entry["methods"][name])
            command = "python -m benchmarks.studies.default_networks"
            write_result(RESULT, {"provenance": provenance(command), "tables": tables})


if __name__ == "__main__":
    main(sys.argv[1:] or list(NAMES))
