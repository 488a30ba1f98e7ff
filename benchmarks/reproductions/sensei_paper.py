"""SenSeI: speed beside inFairness, and the steps of the search.

Run ``python -m benchmarks.reproductions.sensei_paper [steps|speed ...]`` with ``EVENHAND_DATA`` set (default: both).
``speed`` needs ``pip install inFairness==0.2.3``. Every part replaces its own entry of
``benchmarks/results/sensei.json``.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.evaluation.certificates import certify
from evenhand.fairlib.methods.networks import NeuralNetworkClassifier, SenSeIClassifier
from evenhand.fairlib.methods.networks.network_training import build_network
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store

STEPS = (0, 1, 2, 3, 5, 10, 20)
STEPS_TRAINING: dict[str, Any] = {
    "rho": 5.0,
    "perturbation_budget": 0.01,
    "n_steps": 4000,
    "batch_size": 64,
}
SPEED_SETTINGS: dict[str, Any] = {
    "rho": 5.0,
    "budget": 0.1,
    "steps": 100,
    "rate": 1e-3,
    "batch": 64,
    "hidden": (100, 100),
}
LEARNING_RATE = 1e-3
EPOCHS = 3


def steps() -> list[dict[str, Any]]:
    """The cost of the search in training, and the invariance of the trained network."""
    store = Store()
    train, test, metric, _ = adult_split(store)
    found = []
    for full in STEPS:
        log(f"{full} steps in full space")
        model = SenSeIClassifier(
            metric, full_steps=full, tolerance=-1.0, random_state=0, **STEPS_TRAINING
        )
        started = time.process_time()
        model.fit(train.X, train.y)
        spent = time.process_time() - started
        certificate = certify(
            model.network_, test.X, metric, [0.01], full_steps=20, restarts=2, draws=0, seed=1
        )
        predicted = model.predict(test.X)
        rates = [float((predicted[test.y == label] == label).mean()) for label in (0, 1)]
        found.append(
            {
                "full_steps": full,
                "ms_per_step": round(1e3 * spent / STEPS_TRAINING["n_steps"], 3),
                "certificate": float(certificate.values[0]),
                "balanced_accuracy": statistics.mean(rates),
            }
        )
        print(found[-1], flush=True)
    return found


def speed() -> dict[str, Any]:
    """An epoch of SenSeI beside inFairness: one core, same rows, network, metric and number of
    steps.
    """
    store = Store()
    train, test, metric, copies = adult_split(store)
    batches = len(train.y) // SPEED_SETTINGS["batch"]
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {
        "ours": [],
        "ours, early end": [],
        "plain": [],
        "inFairness": [],
    }
    networks: dict[str, nn.Module] = {}
    peer = Peer(train, metric, **SPEED_SETTINGS)
    for epoch in range(EPOCHS):
        log(f"epoch {epoch + 1} of {EPOCHS}")
        for name, tolerance in (("ours", -1.0), ("ours, early end", 1e-4)):
            model = _ours(metric, batches, tolerance)
            started = time.process_time()
            model.fit(train.X, train.y)
            times[name].append(time.process_time() - started)
        plain = NeuralNetworkClassifier(
            hidden=SPEED_SETTINGS["hidden"],
            n_steps=batches,
            batch_size=SPEED_SETTINGS["batch"],
            random_state=0,
        )
        started = time.process_time()
        plain.fit(train.X, train.y)
        times["plain"].append(time.process_time() - started)
        started = time.process_time()
        peer.epoch(batches)
        times["inFairness"].append(time.process_time() - started)
    networks["inFairness"] = peer.network
    for name, tolerance in (("ours", -1.0), ("ours, early end", 1e-4)):
        networks[name] = _ours(metric, EPOCHS * batches, tolerance).fit(train.X, train.y).network_
    medians = {name: statistics.median(got) for name, got in times.items()}
    return {
        "batches": batches,
        "settings": {**SPEED_SETTINGS, "features": train.X.shape[1], "epochs": EPOCHS},
        "seconds_per_epoch": {name: round(value, 2) for name, value in medians.items()},
        "times_faster": {
            name: round(medians["inFairness"] / value, 1)
            for name, value in medians.items()
            if "ours" in name
        },
        "after": {
            name: _judge(network, test, metric, copies) for name, network in networks.items()
        },
    }


def _ours(metric: Metric, steps: int, tolerance: float) -> SenSeIClassifier:
    subspace = 2 ** metric.basis_.shape[1]
    return SenSeIClassifier(
        metric,
        rho=SPEED_SETTINGS["rho"],
        perturbation_budget=SPEED_SETTINGS["budget"],
        subspace_steps=subspace,
        full_steps=SPEED_SETTINGS["steps"] - subspace,
        tolerance=tolerance,
        hidden=SPEED_SETTINGS["hidden"],
        n_steps=steps,
        batch_size=SPEED_SETTINGS["batch"],
        random_state=0,
    )


class Peer:
    """inFairness's SenSeI on given rows, with our network, metric and balanced mini-batches."""

    def __init__(
        self,
        train: Dataset,
        metric: Metric,
        *,
        rho: float,
        budget: float,
        steps: int,
        rate: float,
        batch: int,
        hidden: Sequence[int],
        learning_rate: float = LEARNING_RATE,
        seed: int = 0,
    ) -> None:
        from inFairness.distances import MahalanobisDistances, SquaredEuclideanDistance
        from inFairness.fairalgo import SenSeI

        self.features, self.half = torch.tensor(train.X), batch // 2
        self.by_label = [torch.from_numpy(np.flatnonzero(train.y == label)) for label in (0, 1)]
        self.generator = torch.Generator().manual_seed(seed)
        self.network = build_network(train.X.shape[1], hidden, 2, self.generator)
        inputs, outputs = MahalanobisDistances(), SquaredEuclideanDistance()
        inputs.fit(torch.tensor(metric.weigh(np.eye(train.X.shape[1])), dtype=torch.float32))
        outputs.fit(num_dims=2)
        self.algorithm = SenSeI(
            network=self.network,
            distance_x=inputs,
            distance_y=outputs,
            loss_fn=nn.functional.cross_entropy,
            rho=rho,
            eps=budget,
            auditor_nsteps=steps,
            auditor_lr=rate,
        )
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=learning_rate)

    def epoch(self, batches: int) -> None:
        """Train on so many mini-batches."""
        labels = torch.arange(2).repeat_interleave(self.half)
        self.algorithm.train()
        for _ in range(batches):
            rows = torch.cat(
                [
                    p[torch.randint(len(p), (self.half,), generator=self.generator)]
                    for p in self.by_label
                ]
            )
            self.optimiser.zero_grad()
            self.algorithm(self.features[rows], labels).loss.backward()
            self.optimiser.step()


def _judge(
    network: nn.Module,
    test: Dataset,
    metric: Metric,
    copies: Mapping[str, list[NDArray[np.float32]]],
) -> dict[str, float]:
    """Balanced accuracy, consistency and certificate on the test rows."""

    def predict(rows: NDArray[np.float32]) -> NDArray[np.int64]:
        with torch.no_grad():
            logits: Tensor = network(torch.tensor(rows))
        answer: NDArray[np.int64] = logits.argmax(dim=1).numpy()
        return answer

    predicted = predict(test.X)
    found = {
        "balanced_accuracy": statistics.mean(
            float((predicted[test.y == label] == label).mean()) for label in (0, 1)
        )
    }
    for name, changed in copies.items():
        answers = np.stack([predict(copy) for copy in changed])
        found[f"consistency.{name}"] = float((answers == answers[0]).all(axis=0).mean())
    found["certificate.dif"] = float(
        certify(network, test.X, metric, [SPEED_SETTINGS["budget"]], draws=0, seed=1).values[0]
    )
    return {name: round(value, 4) for name, value in found.items()}


def adult_split(
    store: Store, seed: int = 0
) -> tuple[Dataset, Dataset, Metric, dict[str, list[NDArray[np.float32]]]]:
    """A split of Adult as the job has it: training and test rows, metric and the test rows' copies.

    Parameters
    ----------
    store : Store
        Where its steps are kept.
    seed : int, default 0
        Of the split.
    """
    # a short evaluation: only what is before the training is read
    short = ["evaluate.draws=0", "evaluate.certified_people=20", "evaluate.proof_parts=none"]
    changes = ["method.n_steps=50", *short, f"seed={seed}"]
    resolved, run = run_unpublished(store, "adult-sensei", changes)
    train, test = (
        read_dataset(store.fetch(run.output("preprocess", part))) for part in ("train", "test")
    )
    encoder = TableEncoder.load(store.fetch(run.output("preprocess", "encoder")))
    copies = {
        name: encoded_copies(encoder, test.X, changes)
        for name, changes in resolved.job.evaluate.counterfactuals.items()
    }
    return train, test, load_metric(store.fetch(run.output("fair_metric", "metric"))), copies


PARTS = {"steps": steps, "speed": speed}


def main(names: list[str]) -> None:
    """Measure the named parts (default: all)."""
    path = RESULTS / "sensei.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in names or PARTS:
        content = provenance(f"python -m benchmarks.reproductions.sensei_paper {name}")
        kept[name] = content | {"result": PARTS[name]()}
        write_result("sensei", kept)


if __name__ == "__main__":
    main(sys.argv[1:])
