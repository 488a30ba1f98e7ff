"""DADI (Bakker et al. 2020): ``python -m benchmarks.dadi [PART ...]``.

Parts: ``loans`` (appendix D), ``curve`` (figures 2 and 3 on Adult), ``agents`` (the shipped jobs: what the
trees predict and a strong adversary finds, and a search for ``adult-dadi``), ``sets`` (its controls: fixed
sets of features), ``speed`` (iterations of joint training, beside a plain rendering of the same loop).
Seeds, folds and agents are kept one by one: an interrupted part goes on with the next, and ``agents=JOB``
measures one job. Needs the raw files of Adult, German and Bank in EVENHAND_DATA.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, log, provenance, write_result
from evenhand.fairlib.datasets.generated import make_loans
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.evaluation.acquisition import adversary_auc, answers_matrix
from evenhand.fairlib.execution import available_cores, derive_seed, generator
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.problem import prepare
from evenhand.fairlib.methods.dadi.training import JointTraining, pretrain
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.groups import read_groups
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import prepare as prepare_rows
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.sources import data_folder
from evenhand.tasks.store import Store

RESULT = "dadi"
GAMMAS = [round(0.05 * step, 2) for step in range(1, 19)]
SEEDS = 3
FOLDS = 6
LOANS: dict[str, Any] = {
    "gamma": 0.5,
    "hidden": (32, 32),
    "memory_size": 16,
    "n_iterations": 20_000,
    # the paper's prediction, by the network alone
    "trees_weight": 0,
}
# of the paper's 20,000: the policies at .1, .5 and .9 hardly changed after these
ADULT: dict[str, Any] = {"n_iterations": 8000, "trees_weight": 0}

# splits of the shipped jobs, and other margins of adult-dadi
AGENTS = {"adult-dadi": 1, "german-dadi": 1, "bank-dadi": 1}
MARGINS = (0.0, 0.002, 0.004, 0.008, 0.012)
SETS = [
    ["age", "education-num"],
    ["education-num", "capital-gain", "capital-loss"],
    ["age", "education-num", "capital-gain"],
    ["age", "education-num", "capital-gain", "capital-loss"],
]

Floats = NDArray[np.float64]
Matrix = NDArray[np.float32]


class Table:
    """A table encoded: matrix, groups of columns, label and group of everybody."""

    def __init__(self, frame: pd.DataFrame, label: NDArray[np.int64], group: NDArray[np.int64]) -> None:
        kinds = ["standard" if pd.api.types.is_numeric_dtype(frame[name]) else "onehot" for name in frame]
        specs = [ColumnSpec(str(name), kind) for name, kind in zip(frame, kinds, strict=True)]  # type: ignore[arg-type]
        encoder = TableEncoder(specs).fit(frame)
        self.X, self.groups = encoder.transform(frame), encoder.groups_
        self.label, self.group = label, group


def adult() -> Table:
    """The 45,222 complete rows; sex is the sensitive attribute, and not a column of the matrix."""
    recipe = RECIPES["census"]
    frame = recipe.read({raw.name: data_folder() / raw.name for raw in recipe.files})
    label, group = (frame["income"] == ">50K").to_numpy(), (frame["sex"] == "Male").to_numpy()
    return Table(frame.drop(columns=["income", "sex"]), label.astype(np.int64), group.astype(np.int64))


def loans(seed: int) -> Table:
    """100,000 applicants; X4 and X8 are not observed."""
    frame = make_loans(100_000, seed=seed)
    group = (frame["group"] == "b").to_numpy().astype(np.int64)
    return Table(frame.drop(columns=["group", "repaid"]), frame["repaid"].to_numpy(), group)


def disparity(prediction: NDArray[np.bool_], group: NDArray[np.int64]) -> float:
    """Absolute difference of the groups' rates of positive predictions."""
    return abs(float(prediction[group == 1].mean() - prediction[group == 0].mean()))


def measured(probability: Floats, label: NDArray[np.int64], group: NDArray[np.int64]) -> dict[str, float]:
    """AUC and disparity of predictions."""
    return {
        "auc": float(roc_auc_score(label, probability)),
        "accuracy": float(((probability > 0.5) == label).mean()),
        "disparity": disparity(probability > 0.5, group),
    }


def asked(model: DADIClassifier, table: Table, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Features that a model asks for, and its performance with them."""
    found = model.acquire(table.X[rows])
    shares = dict(zip(model.groups_, found.known.mean(axis=0).tolist(), strict=True))
    return {
        **measured(found.probability, table.label[rows], table.group[rows]),
        "asked": float(found.asked.mean()),
        "selected": shares,
        "adversary_auc": model.feature_report_["acquired"]["adversary_auc"],
    }


def loans_part(kept: dict[str, Any]) -> None:
    """Appendix D: which features are asked of which people, on three samples of the table."""
    for seed in range(len(kept.setdefault("seeds", [])), SEEDS):
        table = loans(seed)
        test, train = split(table, seed)[0]
        model = DADIClassifier(**LOANS, random_state=seed)
        started = time.perf_counter()
        fit(model, table, train)
        seconds = time.perf_counter() - started
        category = table.X[test][:, table.groups["X9"]].argmax(axis=1)
        known = model.acquire(table.X[test]).known[:, list(model.groups_).index("X10")]
        entry = asked(model, table, test) | {
            "x10_by_x9": [float(known[category == value].mean()) for value in range(3)],
            "alone": model.feature_report_["groups"],
            "seconds": seconds,
        }
        kept["seeds"].append(entry)
        save("loans", kept)
        log(f"loans {seed}", entry["selected"], entry["x10_by_x9"])


def split(table: Table, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(test, other rows) of six folds; of the others a further 16% are set aside by the estimator."""
    folds = KFold(FOLDS, shuffle=True, random_state=seed).split(table.X)
    return [(test, train) for train, test in folds]


def fit(model: DADIClassifier, table: Table, train: NDArray[np.int64]) -> DADIClassifier:
    """Train on some rows."""
    return model.fit(
        table.X[train],
        table.label[train],
        sensitive_features={"group": table.group[train]},
        feature_groups=table.groups,
    )


def curve_part(kept: dict[str, Any]) -> None:
    """Figures 2 and 3: eighteen trade-offs on each fold of Adult, beside a model with all features."""
    table = adult()
    kept |= {"gammas": GAMMAS, "columns": table.X.shape[1], "settings": ADULT}
    folds = split(table, 0)
    for fold in range(len(kept.setdefault("folds", [])), FOLDS):
        test, train = folds[fold]
        started = time.perf_counter()
        with ProcessPoolExecutor(available_cores()) as processes:
            bases = [DADIClassifier(**ADULT, gamma=gamma, random_state=fold) for gamma in GAMMAS]
            models = list(processes.map(fit, bases, repeat(table), repeat(train)))
        seconds = time.perf_counter() - started
        pretrained = DADIClassifier(n_iterations=0, trees_weight=0, random_state=fold)
        everything = fit(pretrained, table, train)
        known = np.tile(everything.allowed_, (len(test), 1))
        probability = everything.predict_proba_known(table.X[test], known)[:, 1]
        entry = {
            "seconds": seconds,
            "full_information": measured(probability, table.label[test], table.group[test]),
            "alone": models[0].feature_report_["groups"],
            "all": everything.feature_report_["all"],
            "models": [asked(model, table, test) for model in models],
        }
        kept["folds"].append(entry)
        save("curve", kept)
        log(f"fold {fold}: {seconds:.0f} s", entry["full_information"])


def split_of(job: str, seed: int) -> tuple[ResolvedJob, Dataset, Dataset]:
    """A shipped job with its training and test rows, by its own steps."""
    loaded, folder = load_job(job, [f"seed={seed}"])
    resolved = resolve(loaded, folder)
    store = Store()
    steps = Steps(store, DirectEngine(store))
    prepare_rows(resolved, steps)
    train, test = (read_dataset(store.fetch(steps.output("preprocess", name))) for name in ("train", "test"))
    return resolved, train, test


def revealed(
    X: Matrix, known: NDArray[np.bool_], columns: list[list[int]], groups: Any
) -> list[float | None]:
    """AUC of the strongest adversary with its 95% interval."""
    answers = answers_matrix(X, known, columns)
    found = adversary_auc(answers, groups.astype(str), draws=200, level=0.95, min_cell=10, seed=0)
    return [found.value, found.low, found.high]


def agents_part(kept: dict[str, Any], only: str = "") -> None:
    """The shipped jobs on several splits; that of Adult with other margins, too."""
    done = [(row["job"], row["seed"], row["margin"]) for row in kept.setdefault("agents", [])]
    for job, seeds in AGENTS.items():
        for seed in range(seeds if only in ("", job) else 0):
            shipped = float(load_job(job, [])[0].method.get("margin", 0.0))
            margins = sorted({shipped, *(MARGINS if job == "adult-dadi" else ())})
            if all((job, seed, margin) in done for margin in margins):
                continue
            with threadpool_limits(1, "blas"):
                for point in agent(job, seed, [m for m in margins if (job, seed, m) not in done]):
                    kept["agents"].append(point | {"shipped": point["margin"] == shipped})
                    save("agents", kept)
                    log(kept["agents"][-1])


def agent(job: str, seed: int, margins: Sequence[float]) -> Iterator[dict[str, Any]]:
    """A shipped job's agent with several margins, on its test rows and on training rows.

    AUCs are of its own prediction, of the network that it was trained with, and of trees that see the answers
    of the same training rows and nothing else. `chosen_by` has what a choice may see: the AUC on rows that
    the method held out, and the adversary on as many training rows as there are test rows. The trained agent
    is kept in the store's folder: a margin is applied after the training.
    """
    resolved, train, test = split_of(job, seed)
    groups = {name: values.astype(str) for name, values in train.sensitive.items()}
    folder = Path(os.environ.get("EVENHAND_STORE", "evenhand-store")) / "agents" / f"{job}-{seed}"
    if not folder.is_dir():
        state = derive_seed(seed, "train")
        given = {**resolved.arguments, "margin": 0.0, "trees_weight": 0.0}
        columns = dict(sorted(train.groups.items(), key=lambda group: group[1]))
        fresh = DADIClassifier(**given, random_state=state)
        fresh.fit(train.X, train.y, sensitive_features=groups, feature_groups=columns).save(folder)
    model = DADIClassifier.load(folder).set_params(trees_weight=None)
    sensitive = read_groups(groups, model.attributes, len(train.y))
    problem, held, _ = prepare(model, train.X, train.y, sensitive, model.groups_)
    mine = np.delete(np.arange(len(train.y)), held.rows)
    some = generator(seed, "chosen by").permutation(len(train.y))[: len(test.y)]
    network, places = model._network, list(model.groups_.values())
    hide, stop = network.layout.answers, network.parts["policy.bias3"]
    before = stop[-1]
    for margin in margins:
        stop[-1] = before + margin * model.value_scale
        model._fit_trees(train.X[mine], problem.label, held, model._acquired(held.X))
        trees = GBDTClassifier(eta=0.1, n_jobs=1, random_state=model.random_state)
        answers = hide(train.X[mine], model._acquired(train.X[mine]))
        trees.fit(answers, problem.label.code, sample_weight=problem.label.weight)
        asked, seen = model.acquire(test.X), model._acquired(train.X[some])
        scores = {
            "own": asked.probability,
            "network": model._mixed(test.X, asked.known, 0.0)[:, 1],
            "trees": trees.predict_proba(hide(test.X, asked.known))[:, 1],
        }
        yield {
            "job": job,
            "seed": seed,
            "margin": margin,
            "trees_weight": model._weight,
            "asked": float(asked.asked.mean()),
            "selected": dict(zip(model.groups_, asked.known.mean(axis=0).tolist(), strict=True)),
            "auc": {name: float(roc_auc_score(test.y, score)) for name, score in scores.items()},
            "adversary": {
                name: revealed(test.X, asked.known, places, test.sensitive[name])
                for name in model.attributes_
            },
            "chosen_by": {
                "auc": float(roc_auc_score(held.label, model.acquire(held.X).probability)),
                **{
                    name: revealed(train.X[some], seen, places, train.sensitive[name][some])[0]
                    for name in model.attributes_
                },
            },
        }


def sets_part(kept: dict[str, Any]) -> None:
    """Trees on the same features of everybody, and all of them: what the table allows without an agent."""
    _, train, test = split_of("adult-dadi", 0)
    groups = dict(sorted(train.groups.items(), key=lambda group: group[1]))
    for names in (*SETS, list(groups)):
        if names in [row["features"] for row in kept.setdefault("sets", [])]:
            continue
        columns = [column for name in names for column in groups[name]]
        trees = GBDTClassifier(eta=0.1, n_jobs=1, random_state=0).fit(train.X[:, columns], train.y)
        score = trees.predict_proba(test.X[:, columns])[:, 1]
        known = np.ones((len(test.y), 1), bool)
        adversary = revealed(test.X[:, columns], known, [list(range(len(columns)))], test.sensitive["sex"])
        auc = float(roc_auc_score(test.y, score))
        kept["sets"].append({"features": names, "auc": auc, "adversary": adversary})
        save("sets", kept)
        log(kept["sets"][-1])


def speed_part(kept: dict[str, Any]) -> None:
    """Iterations of joint training, and of a plain implementation, interleaved."""
    from benchmarks.dadi_plain import PlainDADI

    table = adult()
    train = split(table, 0)[0][1]
    model = DADIClassifier(n_iterations=20_000, random_state=0)
    groups = read_groups({"group": table.group[train]}, None, len(train))
    problem = prepare(model, table.X[train], table.label[train], groups, table.groups)[0]
    networks = pretrain(problem, model)
    plain = PlainDADI(problem, model)

    def seconds(function: Callable[[int], Any], iterations: int) -> float:
        """Seconds of an iteration."""
        started = time.perf_counter()
        function(iterations)
        return (time.perf_counter() - started) / iterations

    samples: dict[str, list[float]] = {"own": [], "plain": []}
    with threadpool_limits(1, "blas"):
        plain.joint(1)
        for _ in range(5):
            samples["own"].append(seconds(JointTraining(problem, model, networks).advance, 200))
            samples["plain"].append(seconds(plain.joint, 10))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    steps = model.agents * model.n_step
    kept |= {
        "cores": available_cores(),
        "milliseconds_per_iteration": {name: 1e3 * value for name, value in medians.items()},
        "samples": {name: [1e3 * value for value in values] for name, values in samples.items()},
        "minutes_of_a_run": {name: 20_000 * value / 60 for name, value in medians.items()},
        "steps_per_second": {name: steps / value for name, value in medians.items()},
        "plain_to_own": medians["plain"] / medians["own"],
    }
    save("speed", kept)
    log(kept["milliseconds_per_iteration"])


PARTS: dict[str, Callable[..., None]] = {
    "loans": loans_part,
    "curve": curve_part,
    "agents": agents_part,
    "sets": sets_part,
    "speed": speed_part,
}


def stored() -> dict[str, Any]:
    """Read the measurements of earlier calls."""
    path = RESULTS / f"{RESULT}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(part: str, content: Mapping[str, Any]) -> None:
    """Write a part beside the others, each with its own provenance."""
    document = stored()
    document[part] = {**provenance(f"python -m benchmarks.dadi {part}"), "result": content}
    write_result(RESULT, document)


def main(names: list[str]) -> None:
    """Measure the parts named, or all."""
    for part in names or list(PARTS):
        name, _, only = part.partition("=")
        PARTS[name](stored().get(name, {}).get("result", {}), *([only] if only else []))


if __name__ == "__main__":
    main(sys.argv[1:])
