"""A table with every kind of column, and published classifiers on it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.certificates.trees import read_trees
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.decided import DecidedModel, ThresholdRule
from evenhand.fairlib.methods.registry import load_model, method_class
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.exporting.score import raw_cuts
from evenhand.tasks.registry.bundle import Bundle
from evenhand.tasks.steps.preprocess_step import column_specs

# as many as the issue promises; the time of the tests is that of encoding and scoring them
ROWS = 100_000
GRADES = ("low", "mid", "top")
FIRMS = ("Acme", "O'Hara", "Other <&>")
ISOTONIC = Calibration("isotonic", 0.2, (), (0.1, 0.35, 0.36, 0.8), (0.05, 0.3, 0.6, 0.9))
CALIBRATIONS = {
    "none": Calibration(),
    "shift": Calibration(shift=0.4),
    "sigmoid": Calibration("sigmoid", 0.0, (0.8, -0.3)),
    "falling": Calibration("sigmoid", 0.1, (-0.7, 0.2)),
    "beta": Calibration("beta", 0.0, (0.6, 0.9, 0.1)),
    "isotonic": ISOTONIC,
    "constant": Calibration("isotonic", 0.0, (), (0.5,), (0.4,)),
}


def contract_of(born: str = "standard", only: str | None = None, **options: Any) -> Contract:
    """The contract, or that of one model input alone."""
    feature: dict[str, Any] = {"role": "feature", "is_feature": True}
    columns = (
        Column("income", "number", **feature),
        Column("Home share", "number", minimum=0, maximum=2, encoding="unit", **feature),
        Column("age", "integer", missing=(999,), **feature),
        Column("since", "date", **feature),
        Column("born", "date", encoding=born, **feature),
        Column("grade", "string", allowed=GRADES, encoding="ordinal", missing=("n/a",), **feature),
        Column("level", "number", allowed=(1, 2.5), positive=2.5, encoding="binary", **feature),
        Column("owner", "boolean", encoding="binary", **feature),
        Column("code", "integer", encoding="onehot", **feature),
        Column("smoker", "boolean", encoding="onehot", **feature),
        Column("job", "string", missing=("?",), **feature),
        Column("firm", "string", allowed=FIRMS, other="Other <&>", **feature),
        Column("sex", "string", role="sensitive"),
        Column("paid", "boolean", True, role="label", positive=True),
    )  # fmt: skip
    kept = tuple(
        column for column in columns if only in (None, column.name) or not column.is_feature
    )
    return Contract(
        name="people", version="1", description="Made-up people.", columns=kept, **options
    )


def make_rows(rows: int, seed: int) -> pa.Table:
    """Rows with gaps where the contract allows them."""
    rng = np.random.default_rng(seed)

    def gaps(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(
            [v if keep else None for v, keep in zip(values, rng.random(rows) > 0.1, strict=True)],
            kind,
        )

    days = rng.integers(-4000, 19000, (2, rows)).astype("datetime64[D]")
    return pa.table(
        {
            "income": gaps(rng.normal(3000, 800, rows).tolist(), pa.float64()),
            "Home share": gaps(rng.random(rows).tolist(), pa.float64()),
            "age": pa.array(np.where(rng.random(rows) < 0.05, 999, rng.integers(18, 80, rows))),
            "since": gaps(days[0].tolist(), pa.date32()),
            "born": gaps(days[1].tolist(), pa.date32()),
            "grade": gaps(rng.choice(["low", "mid", "top", "n/a"], rows).tolist(), pa.string()),
            "level": pa.array(rng.choice([1.0, 2.5], rows)),
            "owner": pa.array(rng.random(rows) < 0.5),
            "code": pa.array(rng.choice([3, 70, 1234567], rows)),
            "smoker": gaps((rng.random(rows) < 0.3).tolist(), pa.bool_()),
            "job": gaps(
                rng.choice(["smith", "o'neil \\ sons", "?", "cook"], rows).tolist(), pa.string()
            ),
            "firm": gaps(rng.choice([*FIRMS[:2], "Moe's", "acme"], rows).tolist(), pa.string()),
        }
    )


class People(NamedTuple):
    """Contract, the fitted encoding, training rows with labels, and new rows, raw and encoded."""

    contract: Contract
    encoder: TableEncoder
    X: np.ndarray
    y: np.ndarray
    rows: pa.Table
    encoded: np.ndarray


@functools.cache
def people_of(born: str = "standard", only: str | None = None, **options: Any) -> People:
    """People under a contract in which `born` has an encoding, with further options of the
    contract.
    """
    contract = contract_of(born, only, **options)
    # the raw rows have values of the column firm that the contract reads as another
    training = coerce(make_rows(1500, 1), contract).to_pandas()
    rows = make_rows(ROWS, 2)
    encoder = TableEncoder(column_specs(contract), contract.unseen_categories).fit(training)  # type: ignore[arg-type]
    X = encoder.transform(training)
    rng = np.random.default_rng(3)
    y = (X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X)) > 0).astype(np.int64)
    return People(contract, encoder, X, y, rows, encoder.transform(rows.to_pandas()))


@pytest.fixture(scope="session")
def people() -> People:
    return people_of()


class Published(NamedTuple):
    """A bundle, and what its model gives for the new rows: probabilities and decisions."""

    bundle: Bundle
    probability: np.ndarray
    positive: np.ndarray


@functools.cache
def published(
    method: str,
    calibration: str = "none",
    threshold: float | None = None,
    *,
    labels: tuple[Any, Any] = ("no", "yes"),
    born: str = "standard",
    unseen: str = "error",
    only: str | None = None,
    **parameters: Any,
) -> Published:
    """A trained model as publishing leaves it, in a folder of its own."""
    people = people_of(born, only, unseen_categories=unseen)
    model: Any = method_class(method)(random_state=0, **parameters)
    model.fit(people.X, people.y, sensitive_features={"sex": (people.X[:, 0] > 0).astype(int)})
    if calibration != "none" or threshold is not None:
        model = DecidedModel(model, CALIBRATIONS[calibration], ThresholdRule(threshold))
    folder = FOLDERS[0] / str(published.cache_info().misses)
    model.save(folder / "model")
    people.encoder.save(folder / "encoder.json")
    inputs = {"label_values": list(labels)}
    bundle = Bundle(
        folder, "people", None, "people", "", inputs, {"method": method}, people.contract
    )
    probability, positive = (
        model.predict_proba(people.encoded)[:, 1],
        model.predict(people.encoded) == 1,
    )
    assert 0.02 < positive.mean() < 0.98
    return Published(bundle, probability, positive)


FOLDERS: list[Path] = []


def at_the_cuts(model: Published) -> tuple[Published, pa.Table, np.ndarray]:
    """Rows whose income is where a split turns, and just below; their probabilities by the model
    itself.
    """
    people, fitted = people_of(), load_model(model.bundle.folder / "model")
    trees, _, features = read_trees(fitted.booster_)
    place = people.encoder.feature_names_.index("income")
    above = trees.above[(trees.feature >= 0) & (features[trees.feature] == place)].astype(
        np.float32
    )
    cuts = raw_cuts(people.encoder.fitted_[place], above)
    income = np.concatenate([cuts, np.nextafter(cuts, -np.inf)])
    rows = people.rows.slice(0, len(income))
    rows = rows.set_column(rows.column_names.index("income"), "income", pa.array(income))
    X = people.encoder.transform(rows.to_pandas())
    # the encoding of a cut is the threshold itself
    np.testing.assert_array_equal(X[: len(cuts), place], above)
    assert len(cuts) > 50
    return model, rows, fitted.predict_proba(X)[:, 1]


@pytest.fixture(scope="session")
def publish(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Published]:
    FOLDERS.append(tmp_path_factory.mktemp("bundles"))
    return published
