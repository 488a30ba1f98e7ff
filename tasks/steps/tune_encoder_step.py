"""Train the last layers of an encoder of sentences on the training rows' labels."""

from __future__ import annotations

import numpy as np

from evenhand.data_contracts.arrow import group_labels, label_codes
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.preprocessing.tuned_encoder import tune_encoder as fit
from evenhand.tasks.errors import input_errors
from evenhand.tasks.execution.dataset import StoredTable
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.steps.preprocess_step import split_rows


def tune_encoder(context: StepContext) -> StepResult:
    """Write the folder ``sentence_encoder/``, trained on the rows that preprocess trains on."""
    parameters = context.parameters
    contract = Contract.from_dict(parameters["contract"])
    table = StoredTable(context.inputs["checked"])
    y = label_codes(table[contract.label.name], contract.label)
    sensitive = {
        column.name: group_labels(table[column.name], column) for column in contract.sensitive
    }
    train = np.flatnonzero(~split_rows(parameters, table, contract, y, sensitive))
    texts = [
        table[column.name].take(train).to_pylist() for column in contract.features if column.is_text
    ]
    pairs = [
        pair for column in texts for pair in zip(column, y[train].tolist(), strict=True) if pair[0]
    ]
    text = parameters["text"]
    with input_errors("text.tune_layers: "):
        loss = fit(
            text["encoder"],
            [sentence for sentence, _ in pairs],
            [label for _, label in pairs],
            context.workdir / "sentence_encoder",
            layers=text["tune_layers"],
            epochs=text["tune_epochs"],
            device=text["tune_device"],
            seed=parameters["seed"],
            callback=lambda done, total: context.progress(done, total, {}),
        )
    return StepResult(
        {"sentence_encoder": (context.workdir / "sentence_encoder", "sentence_encoder")},
        {"loss": loss},
    )
