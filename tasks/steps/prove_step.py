"""Prove: bounds on how far a trained model's outputs can change, for people of the training rows.

`evenhand tune` chooses by them, so the test rows stay for one measurement.
"""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.certificates.proof import prove as prove_certificates
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.execution import derive_seed, generator, sample_rows
from evenhand.fairlib.methods.registry import load_model
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult


def prove(context: StepContext) -> StepResult:
    """Write ``proof.json``: both ends of each certificate, and why others are not proved.

    The inputs are the ``model`` with its rule of decisions, the ``train`` rows and the fair
    ``metric``. Parameters are the ``budget``, the effort ``parts``, the number of ``people`` that
    are drawn from the rows, and the ``seed``.
    """
    parameters = context.parameters
    seed = derive_seed(parameters["seed"], "certificate")
    data = read_dataset(context.inputs["train"])
    people = sample_rows(len(data.y), parameters["people"], generator(seed, "people"))
    proof = prove_certificates(
        load_model(context.inputs["model"]),
        data.X[people],
        load_metric(context.inputs["metric"]),
        parameters["budget"],
        y=data.y[people],
        parts=parameters["parts"],
        seed=seed,
        callback=lambda done, total: context.progress(done, total, {}),
    )
    intervals = {}
    for name, interval in proof.intervals.items():
        intervals[name] = {"found": None, "proved": interval.proved}
        if np.isfinite(interval.found):
            intervals[name]["found"] = interval.found
    content = {"people": proof.people, "intervals": intervals, "reasons": proof.reasons}
    return StepResult(context.write_json("proof", content))
