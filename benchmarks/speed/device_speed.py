"""Training on a CUDA device beside the processor: ``python -m benchmarks.speed.device_speed``
(``results/device.json``).

Each row is a method, the units of its hidden layers and its mini-batch: seconds of a mini-batch on
one core and on the device, medians of three trainings that take turns, without the first steps.

With ``--encoder FOLDER --tweets CSV``, a sentence encoder and the tweets' file, also the seconds of
a pass over four fifths of the tweets that trains the last two layers, and, on all cores, of one
over 1,280 of them; and what a network (``nn``) on the vectors of such an encoder gains over one on
those of the encoder as it is, on the other fifth, over splits. ``--parts`` chooses from ``rows``,
``encoder`` and ``gain``.

Needs a CUDA device. Nothing but ``fairlib`` is imported, so that it runs where only PyTorch,
scikit-learn and sentence-transformers are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import torch
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks.summaries import text_of
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks.sensei import (
    CLPClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)
from evenhand.fairlib.preprocessing.tuned_encoder import tune_encoder

METHODS: dict[str, Any] = {
    "nn": NeuralNetworkClassifier,
    "clp": CLPClassifier,
    "sensei": SenSeIClassifier,
    "sensr": SenSRClassifier,
}
ROWS, COLUMNS = 40_000, 100
SIZES = (((100,), 256), ((100,), 4096), ((500, 500), 256), ((500, 500), 4096))
STEPS, FIRST, TIMES = 30, 10, 3
# Layers that are trained, and passes over the sentences.
SPLITS, TUNED = 5, ((0, 0), (2, 1), (2, 3))


def main() -> None:
    """Write what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--tweets", type=Path)
    parser.add_argument(
        "--target", type=Path, default=Path(__file__).parents[1] / "results" / "device.json"
    )
    parser.add_argument("--parts", nargs="*", default=["rows", "encoder", "gain"])
    given = parser.parse_args()
    content = json.loads(given.target.read_text()) if given.target.is_file() else {}
    about = {
        "command": "python -m benchmarks.speed.device_speed --encoder FOLDER --tweets CSV",
        "machine": {"device": torch.cuda.get_device_name(), "cores": os.cpu_count()},
        "packages": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
        "python": platform.python_version(),
    }
    parts: dict[str, Any] = {"rows": networks}
    if given.encoder:
        parts |= {"encoder": partial(encoder, given.encoder, given.tweets)}
        parts |= {"gain": partial(gain, given.encoder, given.tweets)}
    for name in parts.keys() & {*given.parts}:
        content[name] = {**about, "result": parts[name]()}
    given.target.write_text(text_of(content))


def encoder(folder: Path, tweets: Path) -> list[dict[str, Any]]:
    """Passes that train the last two layers of an encoder."""
    raw = pd.read_csv(tweets)
    labels = (raw["class"] < 2).to_numpy().astype(int)
    chosen = np.random.default_rng(0).permutation(len(raw))[: len(raw) * 4 // 5]
    found = []
    for device, rows in (("cuda", chosen), ("cpu", chosen[:1280]), ("cuda", chosen[:1280])):
        texts = raw["tweet"].iloc[rows].tolist()
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as target:
            loss = tune_encoder(
                str(folder), texts, labels[rows], Path(target), layers=2, device=device
            )
        seconds = time.perf_counter() - started
        found.append({"device": device, "sentences": len(rows), "seconds": seconds, "loss": loss})
    return found


def gain(folder: Path, tweets: Path) -> list[dict[str, Any]]:
    """Test metrics of a network on vectors of an encoder as it is, and with layers trained, by
    split.

    It decides by the share of the label in the training rows.
    """
    from sentence_transformers import SentenceTransformer

    raw = pd.read_csv(tweets)
    labels, texts = (raw["class"] < 2).to_numpy().astype(int), raw["tweet"].tolist()
    found = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(raw))
        train, test = np.split(order, [len(raw) * 4 // 5])
        for layers, epochs in TUNED:
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as target:
                if layers:
                    known = [texts[row] for row in train]
                    tune_encoder(
                        str(folder), known, labels[train], Path(target),
                        layers=layers, epochs=epochs, seed=seed,
                    )  # fmt: skip
                model = SentenceTransformer(target if layers else str(folder), device="cuda")
                X = model.encode(texts, batch_size=256).astype(np.float32)
            network = NeuralNetworkClassifier(random_state=seed).fit(X[train], labels[train])
            score = network.predict_proba(X[test])[:, 1]
            decided = score > labels[train].mean()
            found.append(
                {"seed": seed, "layers": layers, "epochs": epochs,
                 "auc": float(roc_auc_score(labels[test], score)),
                 "balanced_accuracy": float(balanced_accuracy_score(labels[test], decided)),
                 "seconds": time.perf_counter() - started}
            )  # fmt: skip
            print(found[-1], flush=True)
    return found


def networks() -> list[dict[str, Any]]:
    """Time each method on both devices."""
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = (X[:, :5].sum(axis=1) + random.normal(size=ROWS) > 0).astype(int)
    groups = (X[:, 0] > 0).astype(int)
    copy = X.copy()
    copy[:, 0] *= -1
    rows = []
    for name, method in METHODS.items():
        for hidden, batch in SIZES:
            found: dict[str, list[float]] = {"cpu": [], "cuda": []}
            answers: dict[str, Any] = {}
            for _ in range(TIMES):
                for device, seconds in found.items():
                    model = method(
                        hidden=hidden, batch_size=batch, device=device, random_state=0,
                        n_steps=STEPS, n_iter_no_change=None,
                    )  # fmt: skip
                    seconds.append(of_a_step(model, X, y, groups, copy))
                    answers[device] = model.predict_proba(X[:2000])[:, 1]
            times = {device: statistics.median(seconds) for device, seconds in found.items()}
            apart = float(np.abs(answers["cpu"] - answers["cuda"]).max())
            rows.append(
                {"method": name, "hidden": hidden, "batch": batch, **times,
                 "times": times["cpu"] / times["cuda"], "answers_apart": apart}
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def of_a_step(model: Any, X: Any, y: Any, groups: Any, copy: Any) -> float:
    """Train a model; the seconds of a mini-batch after the first ones."""
    reached: list[float] = []

    def report(*_: Any) -> None:
        reached.append(time.perf_counter())

    import evenhand.fairlib.methods.networks.network_training as training

    training.REPORT_EVERY = FIRST
    model.fit(X, y, sensitive_features=groups, counterfactuals=[copy], callback=report)
    return (reached[-1] - reached[0]) / (STEPS - FIRST)


if __name__ == "__main__":
    main()
