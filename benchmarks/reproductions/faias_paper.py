"""FAIAS and comparators of groups: ``python -m benchmarks.reproductions.faias_paper [PART ...] [--environments
FOLDER]``.

Parts: ``tables`` (three tables, five splits, comparators through the real pipeline), ``blind``
(their learners without the sensitive columns, on the same splits), ``aif360`` (two methods of
AIF360 on the same splits), ``planted`` (selection where the right one is known), ``gradient``
(variance of its estimators), ``speed`` (100 epochs on Bank), ``stand_ins`` and ``changes`` (what it
buys over the blind network: :mod:`benchmarks.reproductions.faias_gain`). Runs of tables are kept one by one: an
interrupted part goes on with the next. Needs the raw files in EVENHAND_DATA and the extra
``comparators``; ``aif360`` is measured only with FOLDER, below which its environment is made.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.common import (
    code_state,
    log,
    provenance,
    read_whole,
    rounded,
    run_unpublished,
    write_result,
)
from benchmarks.page_generators.faias_page import ATTRIBUTES, METRICS, values_name
from benchmarks.peers.exchange import write_rows
from benchmarks.peers.tuning_comparison import (
    ROOT,
    THREAD_LIMITS,
    Table,
    environment,
    rows_of,
)
from benchmarks.reproductions.faias_gain import changes_part, stand_ins_part
from benchmarks.summaries import by_column, only
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.execution import one_thread
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.fairlib.methods.faias.players import Features, score_function_gradient
from evenhand.fairlib.methods.faias.trainer import sensitivity
from evenhand.fairlib.methods.networks.network_training import build_network
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import prepare
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Artifact, Store

RESULT = "faias"
RESUMED = ("tables", "blind", "aif360", "stand_ins", "changes")
SPLITS = 5
JOBS = {"german": "german-faias", "compas": "compas-faias", "bank": "bank-faias"}
# By name of a row its changes of the job, with the name of the attribute in place of ATTRIBUTE.
METHODS: dict[str, list[str]] = {
    **{
        name: [f"method={name}"]
        for name in (
            "logistic",
            "reweigh-logistic",
            "adversarial-debiasing",
            "exponentiated-gradient",
            "reweigh",
        )
    },
    "logistic, thresholds by group": [
        "method=logistic",
        "decision={threshold: max_accuracy, folds: 5, "
        "equal: {criterion: equal_opportunity, tolerance: 0.0, attribute: ATTRIBUTE}}",
    ],
}
# The learner of each control without the sensitive columns.
BLIND = {"logistic, blind": "logistic", "gbdt, blind": "gbdt", "nn, blind": "nn"}
AIF360 = ("disparate-impact-remover", "calibrated-equalized-odds")
# what labels tell without scores
OF_LABELS = ("accuracy", "balanced_accuracy", "theil_index")
DIFFERENCES = (
    "demographic_parity_difference",
    "equal_opportunity_difference",
    "average_odds_difference",
    "balanced_accuracy_difference",
)
PLANTED: dict[str, Any] = {
    "hidden": (64, 64, 64),
    "n_epochs": 20,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "initial_probability": 0.5,
    "validation_share": 0.0,
}

Matrix = NDArray[np.float32]
Codes = NDArray[np.int64]


def tables_part(kept: dict[str, Any]) -> None:
    """Every method on every split of every table."""
    store = Store(os.environ.get("EVENHAND_STORE"))
    for (table, job), method in itertools.product(JOBS.items(), METHODS):
        runs = kept.setdefault(table, {}).setdefault(method, [])
        for seed in range(len(runs), SPLITS):
            changes = [change.replace("ATTRIBUTE", ATTRIBUTES[table]) for change in METHODS[method]]
            changes += [f"seed={seed}", "evaluate.draws=0"]
            _, run = run_unpublished(store, job, changes)
            found = run.read("evaluate", "metrics")["metrics"]
            runs.append({name: value["value"] for name, value in found.items()})
            save("tables", kept)
        log(table, method, {name: mean(runs, name) for name in ("accuracy", "balanced_accuracy")})


def blind_part(kept: dict[str, Any]) -> None:
    """Every learner's blind control on every split of every table."""
    store = Store(os.environ.get("EVENHAND_STORE"))
    for (table, job), (name, method) in itertools.product(JOBS.items(), BLIND.items()):
        runs = kept.setdefault(table, {}).setdefault(name, [])
        for seed in range(len(runs), SPLITS):
            _, run = run_unpublished(
                store, job, [f"method={method}", f"seed={seed}", "evaluate.draws=0"]
            )
            runs.append(run.read("evaluate", "controls")["controls"]["blind"]["metrics"])
            save("blind", kept)
        log(
            table,
            name,
            {metric: mean(runs, metric) for metric in ("accuracy", "balanced_accuracy")},
        )


def aif360_part(kept: dict[str, Any], python: Path) -> None:
    """Two methods of AIF360 on every split of every table, in their environment's Python."""
    store = Store(os.environ.get("EVENHAND_STORE"))
    for (table, job), method in itertools.product(JOBS.items(), AIF360):
        runs = kept.setdefault(table, {}).setdefault(f"{method} (AIF360)", [])
        for seed in range(len(runs), SPLITS):
            loaded, folder = load_job(job, ["method=logistic", f"seed={seed}"])
            resolved, steps = resolve(loaded, folder), Steps(store, DirectEngine(store))
            prepare(resolved, steps)
            encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
            parts = [
                read_dataset(store.fetch(steps.output("preprocess", part)))
                for part in ("train", "test")
            ]
            attribute, test = attribute_of(resolved), parts[1]
            with tempfile.TemporaryDirectory() as place:
                rows, out = Path(place, "rows.npz"), Path(place, "labels.npy")
                write_rows(rows, *(rows_of(data, Table(attribute), encoder) for data in parts))
                command = [
                    str(python),
                    "-m",
                    "benchmarks.peers.aif360_logistic",
                    method,
                    str(rows),
                    str(out),
                    str(seed),
                ]
                one_thread = dict.fromkeys(THREAD_LIMITS, "1")
                subprocess.run(command, cwd=ROOT, env=os.environ | one_thread, check=True)
                decided = np.load(out, allow_pickle=False)
            outcomes = Outcomes(
                test.y, decided, decided * 1.0, {attribute: test.sensitive[attribute]}
            )
            found = evaluate(outcomes, draws=0)
            names = [*OF_LABELS, *(f"{name}.{attribute}" for name in DIFFERENCES)]
            runs.append({name: found.metrics[name].value for name in names})
            save("aif360", kept)
        log(table, method, {name: mean(runs, name) for name in ("accuracy", "balanced_accuracy")})


def attribute_of(resolved: ResolvedJob) -> str:
    """The sensitive attribute of a job: its first one, else the contract's."""
    return (resolved.job.sensitive or [column.name for column in resolved.contract.sensitive])[0]


def mean(runs: Sequence[dict[str, Any]], name: str) -> float:
    """Mean over the splits."""
    return round(statistics.fmean(run[name] for run in runs), 4)


def planted_table(seed: int, n: int = 2000) -> tuple[Matrix, Codes]:
    """Feature 1 is sensitive, 2 and 3 are copies of it with a tenth flipped, 4 to 6 are
    independent.
    """
    draws = np.random.default_rng(seed)
    sensitive = (draws.random(n) < 0.5).astype(float)
    copies = [np.where(draws.random(n) < 0.1, 1 - sensitive, sensitive) for _ in range(2)]
    others = [draws.random(n) for _ in range(3)]
    score = 1.5 * sensitive + sum(others) + draws.normal(0, 0.5, n)
    return np.stack([sensitive, *copies, *others], axis=1).astype(np.float32), (
        score > 2.25
    ).astype(np.int64)


def planted_part(kept: dict[str, Any]) -> None:
    """Selection probabilities of the copies and of the independent features, ten seeds per
    selector.

    The rows of the two other estimators on the page were measured before these were removed.
    """
    kept["parameters"] = {name: str(value) for name, value in PLANTED.items()}
    variants: dict[str, dict[str, Any]] = {
        "score_function": {},
        "data_dependent": {"data_dependent": True},
    }
    for name, given in variants.items():
        found = []
        for seed in range(10):
            X, y = planted_table(seed)
            model = FAIASClassifier(**PLANTED, **given, random_state=seed)
            model.fit(X, y, sensitive_features={"x0": X[:, 0]})
            found.append(model.selection_probabilities(X).mean(axis=0)[1:].tolist())
        kept[name] = {
            "probabilities": found,
            "ordered": sum(max(row[:2]) < min(row[2:]) for row in found),
        }
        save("planted", kept)
        log("planted", name, kept[name]["ordered"])


def one_flip_gradient(
    losses: Tensor,
    selection: Tensor,
    probabilities: Tensor,
    free: Tensor,
    loss_of: Callable[[Tensor], Tensor],
    generator: torch.Generator,
) -> Tensor:
    r"""Leave-one-out estimate: one free group of every row, drawn uniformly, is switched; shape (n,
    G).

    .. math:: \frac{\partial E[L]}{\partial \theta_j} = p_j (1 - p_j) \, E[L(s_j{=}1) - L(s_j{=}0)]

    The switched group gets this difference times the number of free groups, the others zero:
    unbiased. The cost is another pass of the predictor, without a gradient.
    """
    choices = torch.nonzero(free)[:, 0]
    rows = torch.arange(len(losses))
    switched = choices[torch.randint(len(choices), (len(losses),), generator=generator)]
    other = selection.clone()
    other[rows, switched] = 1 - other[rows, switched]
    with torch.no_grad():
        rise = (losses - loss_of(other)) * (2 * selection[rows, switched] - 1)
    gradient = torch.zeros_like(selection)
    gradient[rows, switched] = len(choices) * rise
    return gradient * probabilities * (1 - probabilities)


def straight_through_gradient(mask_gradient: Tensor, probabilities: Tensor) -> Tensor:
    r"""Straight-through estimate, shape (n, G): as if the selection were its probability.

    .. math:: p_j (1 - p_j) \, \partial L / \partial s_j

    (Bengio et al. 2013.) Biased, because it takes the loss as linear between 0 and 1.

    `mask_gradient`, shape (n, G), is the derivative of every row's loss by its selection.
    """
    return mask_gradient * probabilities * (1 - probabilities)


def gradient_part(kept: dict[str, Any]) -> None:
    """Bias and variance of the estimators beside the exact gradient, by enumeration of 2^10
    selections.
    """
    groups, rows, draws = 10, 64, 4000
    seeds = torch.Generator().manual_seed(0)
    features = Features.of({f"x{j}": [j] for j in range(groups + 1)}, ["x0"])
    predictor = build_network(groups + 1, (32, 32), 2, seeds, torch.nn.SELU)
    x = torch.rand(rows, groups + 1, generator=seeds)
    p = torch.full((1, groups + 1), 0.7) * features.free

    def loss_of(selection: torch.Tensor) -> torch.Tensor:
        return sensitivity(predictor, features.masked(x, selection), x, features.sensitive)[1]

    exact = torch.zeros(groups + 1, dtype=torch.float64)
    with torch.no_grad():
        for chosen in itertools.product((0.0, 1.0), repeat=groups):
            s = torch.tensor([0.0, *chosen])
            chance = torch.where(s == 1, p[0], 1 - p[0])[1:].double().prod()
            exact += chance * loss_of(s[None]).double().mean() * (s - p[0]).double()
    found: dict[str, list[torch.Tensor]] = {
        "score_function": [],
        "one_flip": [],
        "straight_through": [],
    }
    found["score_function, no baseline"] = []
    for _ in range(draws):
        selection = (torch.rand(rows, groups + 1, generator=seeds) < p).float().requires_grad_()
        losses = loss_of(selection)
        (slopes,) = torch.autograd.grad(losses.sum(), selection)
        losses, drawn = losses.detach(), selection.detach()
        plain = losses[:, None] * (drawn - p)
        flipped = one_flip_gradient(losses, drawn, p, features.free, loss_of, seeds)
        for name, gradient in (
            ("score_function, no baseline", plain),
            ("score_function", score_function_gradient(losses, drawn, p)),
            ("one_flip", flipped),
            ("straight_through", straight_through_gradient(slopes, p)),
        ):
            found[name].append((gradient * features.free).mean(0).double())
    scale = float(exact.norm())
    for name, estimates in found.items():
        stacked = torch.stack(estimates)
        kept[name] = {
            "relative_bias": float((stacked.mean(0) - exact).norm()) / scale,
            "relative_standard_deviation": float(stacked.var(0).sum().sqrt()) / scale,
            "sampling_error_of_bias": float((stacked.var(0).sum() / draws).sqrt()) / scale,
        }
        log("gradient", name, kept[name])
    save("gradient", kept)


def speed_part(kept: dict[str, Any]) -> None:
    """100 epochs on Bank, and one epoch with rows fetched one by one, three times each."""
    store = Store(os.environ.get("EVENHAND_STORE"))
    resolved, run = run_unpublished(store, "bank-faias", ["method=logistic", "evaluate.draws=0"])
    train: Artifact = run.output("preprocess", "train")
    data = read_dataset(store.fetch(train))
    names = dict(sorted(data.groups.items(), key=lambda group: group[1]))
    arguments = {
        k: v for k, v in load_job("bank-faias")[0].method.items() if k not in ("name", "patience")
    }
    arguments |= {"n_epochs": 100, "patience": None}
    seconds = []
    for repeat in range(3):
        started = time.perf_counter()
        model = FAIASClassifier(**arguments, random_state=repeat)
        model.fit(
            data.X,
            data.y,
            sensitive_features={attribute_of(resolved): data.y},
            feature_groups=names,
        )
        seconds.append(time.perf_counter() - started)
        log("speed", seconds)
    x, labels, size = torch.from_numpy(data.X), torch.from_numpy(data.y), model.batch_size
    dataset = torch.utils.data.TensorDataset(x, labels)
    ways: dict[str, Callable[[], None]] = {
        "index": lambda: [
            None for rows in torch.randperm(len(x)).split(size) if (x[rows], labels[rows])
        ],  # type: ignore[dict-item,return-value]
        "loader": lambda: [None for _ in torch.utils.data.DataLoader(dataset, size, shuffle=True)],  # type: ignore[dict-item,return-value]
    }
    fetched: dict[str, list[float]] = {name: [] for name in ways}
    with one_thread():
        for _, (name, way) in itertools.product(range(3), ways.items()):
            started = time.perf_counter()
            way()
            fetched[name].append(time.perf_counter() - started)
    kept |= {
        "rows": len(data.y),
        "features": data.X.shape[1],
        "epochs": len(model.history_["epoch"]),
        "seconds": seconds,
        "median_seconds": statistics.median(seconds),
        "fetch_an_epoch_seconds": {
            name: statistics.median(found) for name, found in fetched.items()
        },
    }
    save("speed", kept)


# Parts with runs of methods on tables, and parts with runs of families of settings.
OF_TABLES = ("tables", "blind", "aif360")
OF_FAMILIES = {
    "changes": (
        *("accuracy", "balanced_accuracy", "demographic_parity_difference"),
        *("equal_opportunity_difference", "average_odds_difference"),
    ),
    "stand_ins": ("accuracy", "accuracy_on_fair_labels", "demographic_parity_difference"),
}


def save(part: str, kept: dict[str, Any]) -> None:
    """Write a part beside the others."""
    content = read_whole(RESULT, {})
    command = f"python -m benchmarks.reproductions.faias_paper {part}"
    if part == "aif360":
        command += " --environments FOLDER"
    content[part] = provenance(command) | {"result": kept}
    write_result(RESULT, content, summarise)


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every split and seed by column, with the metrics that the page shows."""
    summary = {}
    for name, part in content.items():
        result = part["result"]
        if name in OF_TABLES:
            result = {
                table: {method: by_column(shown(runs, table)) for method, runs in methods.items()}
                for table, methods in result.items()
            }
        elif name in OF_FAMILIES:
            result = {case: by_column(metrics_of(name, runs)) for case, runs in result.items()}
        summary[name] = {**part, "result": rounded(result, 6)}
    return summary


def metrics_of(part: str, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The metrics of the families that the pages show, by seed."""
    return [{family: only(row, OF_FAMILIES[part]) for family, row in run.items()} for run in runs]


def shown(runs: Sequence[Mapping[str, Any]], table: str) -> list[dict[str, Any]]:
    """The metrics of a method's splits that the page shows."""
    names = [values_name(metric, table) for metric, _, _ in METRICS]
    return [only(run, names) for run in runs]


PARTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "planted": planted_part,
    "gradient": gradient_part,
    "speed": speed_part,
    "tables": tables_part,
    "blind": blind_part,
    "stand_ins": lambda kept: stand_ins_part(kept, save),
    "changes": lambda kept: changes_part(kept, save),
}


def main() -> None:
    """Run the parts that are named, all of them by default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}, aif360")
    parser.add_argument("--environments", type=Path)
    given = parser.parse_args()
    parts = dict(PARTS)
    if given.environments is not None:
        python = environment(given.environments.resolve(), "aif360")
        parts["aif360"] = partial(aif360_part, python=python)
    wanted = given.parts or list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        parser.error(f"no part {unknown[0]!r}: {', '.join(parts)}; aif360 needs --environments")
    code_state()
    for name in wanted:
        content = read_whole(RESULT, {})
        # finished runs of the tables are kept; the other parts are measured again
        kept = content.get(name, {}).get("result", {}) if name in RESUMED else {}
        parts[name](kept)


if __name__ == "__main__":
    main()
