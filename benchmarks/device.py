"""Networks on a CUDA device beside the processor: ``python -m benchmarks.device [FILE]``.

Each row of ``results/device.json`` is a method, the units of its hidden layers and its mini-batch: seconds of
a mini-batch on one core and on the device, medians of three trainings that take turns, without the first
steps. Needs a CUDA device. Nothing but ``fairlib`` is imported, so that it runs where only PyTorch and
scikit-learn are installed.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks.sensei import CLPClassifier, SenSeIClassifier, SenSRClassifier

METHODS: dict[str, Any] = {
    "nn": NeuralNetworkClassifier,
    "clp": CLPClassifier,
    "sensei": SenSeIClassifier,
    "sensr": SenSRClassifier,
}
ROWS, COLUMNS = 40_000, 100
SIZES = (((100,), 256), ((100,), 4096), ((500, 500), 256), ((500, 500), 4096))
STEPS, FIRST, TIMES = 30, 10, 3


def main() -> None:
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
    content = {
        "command": "python -m benchmarks.device",
        "machine": {"device": torch.cuda.get_device_name(), "cores": os.cpu_count()},
        "packages": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
        "python": platform.python_version(),
        "rows": rows,
    }
    target = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "results" / "device.json"
    Path(target).write_text(json.dumps(content, indent=1) + "\n")


def of_a_step(model: Any, X: Any, y: Any, groups: Any, copy: Any) -> float:
    """Train a model; the seconds of a mini-batch after the first ones."""
    reached: list[float] = []

    def report(*_: Any) -> None:
        reached.append(time.perf_counter())

    import evenhand.fairlib.methods.networks.training as training

    training.REPORT_EVERY = FIRST
    model.fit(X, y, sensitive_features=groups, counterfactuals=[copy], callback=report)
    return (reached[-1] - reached[0]) / (STEPS - FIRST)


if __name__ == "__main__":
    main()
