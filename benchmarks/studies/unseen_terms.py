"""SenSeI and CLP on terms that training has not seen: ``python -m benchmarks.studies.unseen_terms``.

As in the experiment on toxic comments of the SenSeI paper: 25 of the 50 identity terms are known in
training, drawn anew for each split. The metric of SenSeI (FACE, 25 directions) and the pairs of CLP
have known terms alone, mini-batches have equal classes, and decisions are at one half. For each
weight ρ of both methods: balanced accuracy; of test sentences with a term, the share that keeps its
decision with all terms (consistency), and the mean standard deviation of the probability over the
terms (the paper's CTF score), once over the known and once over the unseen ones. Differences of the
methods are paired by sentence. Results: ``benchmarks/results/unseen_terms.json``; an interrupted
command goes on with the next model. ``--table templates`` takes the template sentences.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.networks import (
    CLPClassifier,
    NeuralNetworkClassifier,
    SenSeIClassifier,
)
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.sentences import MISSING_EXTRA
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import prepare
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sentence_rows import (
    Mentions,
    copies_to_learn,
    copies_to_pair,
    sentences_of,
    terms_of,
    vectors_folder,
)

RESULT = "unseen_terms"
# The paper has 5 in its tables, and curves over it.
RHOS = (0.3, 1.0, 5.0, 20.0)
KNOWN = 25
DIRECTIONS = 25
# Test sentences with a term; each is encoded with every term.
SENTENCES = 300
HALF = 0.5
SPLITS = 3
# What the results say of a table with all its splits.
WHOLE = {"tweets": "whole", "templates": "whole templates"}
TRAINING: dict[str, Any] = {
    "n_steps": 1000,
    "batch_size": 256,
    "learning_rate": 0.001,
    "class_balance": 1.0,
    "n_iter_no_change": None,
    "random_state": 0,
}
SENSEI: dict[str, Any] = {"perturbation_budget": 0.01, "full_steps": 2}


@dataclass(frozen=True, eq=False)
class Split:
    """What every method of a split shares.

    Attributes
    ----------
    train, test : Dataset
        Encoded sentences.
    pairs : list of ndarray
        Copies of the training rows with known terms, for CLP.
    learned : tuple
        Rows and their copies with known terms, for the metric.
    rows : ndarray of int, shape (m,)
        Positions of the measured test sentences.
    copies : dict of str to list of ndarray
        Their copies with each ``known`` and each ``unseen`` term.
    """

    train: Dataset
    test: Dataset
    pairs: list[Float32]
    learned: tuple[Float32, list[Float32]]
    rows: Any
    copies: dict[str, list[Float32]]


def known_terms(names: Sequence[str], seed: int) -> list[str]:
    """Draw the terms of a split that training knows, in the order of the list."""
    drawn = generator(seed, "known terms").choice(len(names), KNOWN, replace=False)
    return [names[position] for position in sorted(drawn.tolist())]


def split_of(store: Store, table: str, seed: int) -> Split:
    """Prepare a split of a table of sentences."""
    job = resolve(*load_job(f"{table}-sensei", [f"seed={seed}"]))
    steps = Steps(store, DirectEngine(store))
    prepare(job, steps)
    train, test = (
        read_dataset(store.fetch(steps.output("preprocess", name))) for name in ("train", "test")
    )
    encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
    encoder.cache = vectors_folder()
    (name, written), *_ = job.job.evaluate.model_dump()["terms"].items()
    everything = [term for group in written["terms"] for term in group]
    known = known_terms(everything, seed)
    unseen = [term for term in everything if term not in known]
    checked = {"checked": store.fetch(steps.output("contract", "checked"))}

    def context(terms: Sequence[str]) -> StepContext:
        swap = {"column": written["column"], "terms": [list(terms)]}
        parameters = {"terms": {name: swap}, "seed": seed, "counterfactuals": {}}
        return StepContext(parameters, checked, Path(store.local), lambda *progress: None)

    of_known = context(known)
    (every,) = terms_of(context(everything).parameters).values()
    mentions = Mentions.find(sentences_of(of_known, test, every.column), every, SENTENCES, seed)
    moved = list(mentions.copies(encoder, test.X[mentions.rows]))
    places = {term: place for place, term in enumerate(everything)}
    copies = {
        "known": [moved[places[term]] for term in known],
        "unseen": [moved[places[term]] for term in unseen],
    }
    pairs = copies_to_pair(of_known, train, encoder, seed)
    learned = copies_to_learn(of_known, train, encoder)
    return Split(train, test, pairs, learned, mentions.rows, copies)


def fitted(split: Split, method: str, rho: float) -> NeuralNetworkClassifier:
    """Train one model."""
    train = split.train
    if method == "nn":
        return NeuralNetworkClassifier(**TRAINING).fit(train.X, train.y)
    if method == "clp":
        model = CLPClassifier(rho=rho, **TRAINING)
        return model.fit(train.X, train.y, counterfactuals=split.pairs)
    rows, copies = split.learned
    metric = FACE(n_directions=DIRECTIONS).fit(rows, counterfactuals=copies)
    return SenSeIClassifier(metric, rho=rho, **SENSEI, **TRAINING).fit(train.X, train.y)


def deviations(own: Float, copies: Float) -> tuple[Float, Float]:
    """Standard deviation of each sentence's probabilities, and whether all decide alike.

    Parameters
    ----------
    own : ndarray of float, shape (m,)
        Probability of each sentence as it is.
    copies : ndarray of float, shape (terms, m)
        Probability of its copies.

    Returns
    -------
    ndarray of float, shape (m,)
        Over the sentence itself and its copies.
    ndarray of float of {0, 1}, shape (m,)
    """
    every = np.vstack([own[None, :], copies])
    decided = every > HALF
    return every.std(axis=0), (decided == decided[0]).all(axis=0).astype(float)


def judged(model: NeuralNetworkClassifier, split: Split) -> dict[str, Any]:
    """Return balanced accuracy, and by sentence the deviation and the consistency."""
    decision = model.predict_proba(split.test.X)[:, 1] > HALF
    label = split.test.y
    rates = [float((decision[label == value] == value).mean()) for value in (0, 1)]
    own = model.predict_proba(split.test.X[split.rows])[:, 1].astype(float)
    values: dict[str, Any] = {"balanced_accuracy": float(np.mean(rates))}
    for kind, moved in split.copies.items():
        copies = np.stack([model.predict_proba(copy)[:, 1] for copy in moved]).astype(float)
        deviation, consistent = deviations(own, copies)
        values[f"deviation.{kind}"] = deviation
        values[f"consistency.{kind}"] = consistent
    return values


def models() -> Iterator[tuple[str, float]]:
    """Yield the methods and their weights, in the order in which they are trained."""
    yield "nn", 0.0
    for rho in (5.0, *(rho for rho in RHOS if rho != 5.0)):
        yield "clp", rho
        yield "sensei", rho


def key_of(method: str, rho: float) -> str:
    """Return the name of a model in the results."""
    return f"{method} {rho:g}" if rho else method


def paired(first: Any, second: Any) -> list[float]:
    """Mean of the differences by sentence, and its standard error."""
    difference = np.asarray(first) - np.asarray(second)
    return [float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))]


def measure(split: Split, table: str, seed: int) -> None:
    """Train and judge the models of a split that the results lack, and compare them at each ρ."""
    by_sentence: dict[str, dict[str, Any]] = {}
    for method, rho in models():
        key = key_of(method, rho)
        content = read_result(RESULT)
        tables = content.setdefault("tables", {})
        entry = tables.setdefault(table, {}).setdefault(str(seed), {"models": {}, "paired": {}})
        partner = f"clp {rho:g}"
        is_known = key in entry["models"] and (method != "clp" or f"{rho:g}" in entry["paired"])
        if is_known:
            continue
        started = time.process_time()
        with threadpool_limits(1):
            values = judged(fitted(split, method, rho), split)
        by_sentence[key] = values
        summary = {name: float(np.mean(value)) for name, value in values.items()}
        summary["seconds"] = time.process_time() - started
        entry["models"][key] = rounded(summary, 4)
        if method == "sensei" and partner in by_sentence:
            differences = {}
            for name in values:
                if name != "balanced_accuracy":
                    pair = paired(values[name], by_sentence[partner][name])
                    differences[name] = [round(value, 4) for value in pair]
            entry["paired"][f"{rho:g}"] = differences
        log(table, seed, key, entry["models"][key], entry["paired"].get(f"{rho:g}", ""))
        entry["sentences"] = len(split.rows)
        command = f"python -m benchmarks.studies.unseen_terms --table {table}"
        document = content | provenance(command)
        document |= {"training": TRAINING, "sensei": SENSEI, "tables": tables}
        write_result(RESULT, document)


def is_missing(entry: Mapping[str, Any]) -> bool:
    """Whether a split lacks a model, or the comparison at a weight."""
    done = entry.get("models", {})
    compared = entry.get("paired", {})
    lacks_model = any(key_of(method, rho) not in done for method, rho in models())
    return lacks_model or any(f"{rho:g}" not in compared for rho in RHOS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the splits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", default="tweets", choices=("tweets", "templates"))
    parser.add_argument("--splits", type=int, default=SPLITS)
    chosen = parser.parse_args(arguments)
    if importlib.util.find_spec("sentence_transformers") is None:
        raise InputError(MISSING_EXTRA.format(name="minilm"))
    code_state()
    torch.set_num_threads(1)
    store = Store(os.environ.get("EVENHAND_STORE"))
    for seed in range(chosen.splits):
        tables = read_result(RESULT).get("tables", {})
        if is_missing(tables.get(chosen.table, {}).get(str(seed), {})):
            measure(split_of(store, chosen.table, seed), chosen.table, seed)
    if chosen.splits >= SPLITS:
        write_result(RESULT, read_result(RESULT) | {WHOLE[chosen.table]: True})


if __name__ == "__main__":
    main(sys.argv[1:])
