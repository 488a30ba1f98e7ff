"""SenSeI and its comparators on terms that training has not seen: ``python -m benchmarks.studies.unseen_terms``.

As in the experiment on toxic comments of the SenSeI paper: 70 % of the sentences train, 25 of the
50 identity terms are known in training, drawn anew for each split. The fair metric (FACE, 25
directions) and the pairs of CLP have known terms alone, mini-batches have equal classes, and
decisions are at one half. *Project* is the network on vectors without the metric's directions.

Each model has its balanced accuracy; of test sentences with a term the share that keeps its
decision with all terms (consistency), and the mean standard deviation of the probability over the
terms (the paper's CTF score), over all terms, the known ones and the unseen ones; and the standard
deviation of accuracy and of balanced accuracy over nine groups of sentences that have terms of one
identity (accuracy parity). Differences of SenSeI and CLP at one ρ are paired by sentence.

Results: ``benchmarks/results/unseen_terms.json``, with ``--table templates``
``unseen_terms_templates.json``. An interrupted command goes on with the next split; vectors of
sentences are kept in the cache of the user.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.summaries import by_column
from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.networks import (
    CLPClassifier,
    NeuralNetworkClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.sentences import MISSING_EXTRA
from evenhand.fairlib.preprocessing.terms import Terms
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
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

# The file of results of each table.
RESULTS = {"tweets": "unseen_terms", "templates": "unseen_terms_templates"}
# The paper has 5 in its tables, and curves over it.
PRINTED_RHO = 5.0
RHOS = (1.0, 5.0, 20.0)
KNOWN = 25
DIRECTIONS = 25
TEST_SHARE = 0.3
# Sentences with a term that are encoded with every term, once for all splits: those that a split
# holds out are measured, and of the others the metric is learned.
POOL = 500
HALF = 0.5
SPLITS = 10
TRAINING: dict[str, Any] = {
    "hidden": (100,),
    "n_steps": 1000,
    "batch_size": 256,
    "learning_rate": 0.001,
    "class_balance": 1.0,
    "n_iter_no_change": None,
    "random_state": 0,
}
SEARCH: dict[str, Any] = {"perturbation_budget": 0.01, "full_steps": 2}
# The nine groups of accuracy parity: sentences with one of these terms. Terms of ages and of
# disabilities but "old" and "young" are in fewer than 20 tweets.
GROUPS: dict[str, tuple[str, ...]] = {
    "orientation": (
        *("lesbian", "gay", "bisexual", "queer", "lgbt", "lgbtq"),
        *("homosexual", "straight", "heterosexual"),
    ),
    "gender": ("male", "female", "nonbinary", "trans", "transgender"),
    "white": ("white", "european"),
    "black": ("black", "african", "african american"),
    "latin": ("hispanic", "latino", "latina", "latinx", "mexican"),
    "asian": ("asian", "indian", "middle eastern", "chinese", "japanese"),
    "nationality": ("american", "canadian"),
    "religion": (
        *("christian", "muslim", "jewish", "buddhist"),
        *("catholic", "protestant", "sikh", "taoist"),
    ),
    "age": ("old", "older", "young", "younger"),
}
KINDS = ("all", "known", "unseen")


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
    groups : dict of str to ndarray of bool
        By identity, which test sentences have one of its terms.
    """

    train: Dataset
    test: Dataset
    pairs: list[Float32]
    learned: tuple[Float32, list[Float32]]
    rows: Any
    copies: dict[str, list[Float32]]
    groups: dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How the models of a split are trained.

    Attributes
    ----------
    training, search : dict
        Arguments of all networks, and of those with a search.
    directions : int
        Free directions of the metric.
    quantile : float
        Ends of the free coordinates' range, as a share of the training rows outside at either end;
        0: the whole range.
    scale : float
        Factor of all vectors.
    """

    training: dict[str, Any] = field(default_factory=lambda: dict(TRAINING))
    search: dict[str, Any] = field(default_factory=lambda: dict(SEARCH))
    directions: int = DIRECTIONS
    quantile: float = 0.0
    scale: float = 1.0


def known_terms(names: Sequence[str], seed: int, count: int = KNOWN) -> list[str]:
    """Draw the terms of a split that training knows, in the order of the list."""
    drawn = generator(seed, "known terms").choice(len(names), count, replace=False)
    return [names[position] for position in sorted(drawn.tolist())]


def part_of(data: Dataset, share: float, kept: Any) -> Dataset:
    """Draw a share of the rows of a dataset, and take those of the table's rows `kept`, too."""
    is_drawn = generator(0, "part").random(len(data.y)) < share
    return data.take(np.flatnonzero(is_drawn | np.isin(data.rows, kept)))


def encoded_again(context: StepContext, data: Dataset, column: str, encoder: Any) -> Dataset:
    """Replace the vectors of a column of sentences by those of another encoder."""
    sentences = [str(sentence) for sentence in sentences_of(context, data, column)]
    vectors = encoder.encode_sentences(column, sentences)
    X = np.array(data.X)
    X[:, encoder.groups_[column][: vectors.shape[1]]] = vectors
    return replace(data, X=X)


def prepared(store: Store, table: str, seed: int) -> tuple[ResolvedJob, Steps]:
    """Run the steps of a job up to its encoded rows."""
    options = [f"seed={seed}", f"split.test={TEST_SHARE}"]
    job = resolve(*load_job(f"{table}-sensei", options))
    steps = Steps(store, DirectEngine(store))
    prepare(job, steps)
    return job, steps


def split_of(
    store: Store,
    table: str,
    seed: int,
    *,
    known_count: int = KNOWN,
    pool_size: int = POOL,
    part: float = 1.0,
    other_encoder: Callable[[TableEncoder, str, Sequence[str]], Any] | None = None,
) -> Split:
    """Prepare a split of a table of sentences.

    Parameters
    ----------
    store
        Where its steps are kept.
    table : {"tweets", "templates"}
    seed
        Of the split, and of the known terms.
    known_count
        Number of terms that training knows; those that are measured as known or unseen stay.
    pool_size
        Number of sentences of the table that are encoded with every term.
    part
        Share of the training and of the test rows that is used, besides the pool's.
    other_encoder
        From the table's encoder, the column and the training sentences: what has ``groups_`` and
        ``encode_sentences`` of the table's encoder, in its place. None: the table's.
    """
    job, steps = prepared(store, table, seed)
    train, test = (
        read_dataset(store.fetch(steps.output("preprocess", name))) for name in ("train", "test")
    )
    encoder: Any = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
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

    (every,) = terms_of(context(everything).parameters).values()
    pool = pool_rows(every, checked["checked"], pool_size)
    if part < 1.0:
        train, test = (part_of(data, part, pool) for data in (train, test))
    if other_encoder is not None:
        column = written["column"]
        sentences = sentences_of(context(known), train, column)
        encoder = other_encoder(encoder, column, [str(sentence) for sentence in sentences])
        train, test = (
            encoded_again(context(known), data, column, encoder) for data in (train, test)
        )
    of_training = context(known)
    if known_count != KNOWN:
        of_training = context(known_terms(everything, seed, known_count))
    measured = np.flatnonzero(np.isin(test.rows, pool))
    of_pool = test.take(measured)
    mentions = Mentions.find(sentences_of(of_training, of_pool, every.column), every, pool_size, 0)
    moved = list(mentions.copies(encoder, of_pool.X[mentions.rows]))
    places = {term: place for place, term in enumerate(everything)}
    copies = {
        "known": [moved[places[term]] for term in known],
        "unseen": [moved[places[term]] for term in unseen],
    }
    groups = {}
    sentences = sentences_of(of_training, test, every.column)
    for group, terms in GROUPS.items():
        groups[group] = Terms(every.column, (terms,)).versions_of(sentences) >= 0
    pairs = copies_to_pair(of_training, train, encoder, seed)
    to_learn = train.take(np.flatnonzero(np.isin(train.rows, pool)))
    learned = copies_to_learn(of_training, to_learn, encoder)
    return Split(train, test, pairs, learned, measured[mentions.rows], copies, groups)


def pool_rows(terms: Terms, table: Path, size: int) -> Any:
    """Draw the rows of a table whose sentences are encoded with every term, at most `size`.

    A smaller pool is a part of that of the size `POOL`.
    """
    sentences = pq.read_table(table, columns=[terms.column])[terms.column].to_pylist()
    rows = Mentions.find(sentences, terms, max(size, POOL), seed=0).rows
    if len(rows) > size:
        rows = np.sort(generator(0, "pool").choice(rows, size, replace=False))
    return rows


def metric_of(split: Split, settings: Settings) -> Metric:
    """Learn the fair metric from the known terms."""
    rows, copies = split.learned
    scaled = [copy * settings.scale for copy in copies]
    metric = FACE(n_directions=settings.directions)
    metric.fit(rows * settings.scale, counterfactuals=scaled)
    if settings.quantile:
        coordinates = (split.train.X * settings.scale) @ metric.basis_
        ends = np.quantile(coordinates, [settings.quantile, 1.0 - settings.quantile], axis=0)
        metric.feature_bounds_.free_low[:] = ends[0]
        metric.feature_bounds_.free_high[:] = ends[1]
    return metric


@dataclass(eq=False)
class Answers:
    """A trained network, and what it reads of a vector.

    Parameters
    ----------
    network
    scale
        Factor of the vectors.
    metric
        Whose free directions are removed; None: none are.
    """

    network: NeuralNetworkClassifier
    scale: float = 1.0
    metric: Metric | None = None

    def inputs(self, vectors: Float32) -> Float32:
        """Vectors as the network reads them."""
        scaled = vectors * np.float32(self.scale)
        if self.metric is None:
            return scaled
        return np.asarray(self.metric.project(scaled), dtype=np.float32)

    def __call__(self, vectors: Float32) -> Float:
        """Probability of label 1 of each vector."""
        return self.network.predict_proba(self.inputs(vectors))[:, 1].astype(float)


def fitted(
    split: Split,
    method: str,
    rho: float,
    settings: Settings | None = None,
    metric: Metric | None = None,
) -> Answers:
    """Train one model.

    Parameters
    ----------
    split
    method : {"nn", "project", "sensr", "clp", "sensei"}
    rho
        Weight of CLP's or SenSeI's penalty.
    settings
        None: those of all tables here.
    metric
        As of :func:`metric_of`; None: it is learned.
    """
    settings = settings or Settings()
    y = split.train.y
    if method in ("nn", "clp"):
        answers = Answers(NeuralNetworkClassifier(**settings.training), settings.scale)
    else:
        metric = metric or metric_of(split, settings)
        answers = Answers(NeuralNetworkClassifier(**settings.training), settings.scale)
    if method == "project":
        answers.metric = metric
    rows = answers.inputs(split.train.X)
    if method in ("nn", "project"):
        answers.network.fit(rows, y)
    elif method == "clp":
        copies = [answers.inputs(copy) for copy in split.pairs]
        answers.network = CLPClassifier(rho=rho, **settings.training)
        answers.network.fit(rows, y, counterfactuals=copies)
    elif method == "sensr":
        answers.network = SenSRClassifier(metric, **settings.search, **settings.training)
        answers.network.fit(rows, y)
    else:
        answers.network = SenSeIClassifier(metric, rho=rho, **settings.search, **settings.training)
        answers.network.fit(rows, y)
    return answers


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


def balanced(is_right: Any, labels: Any) -> float:
    """Mean over both labels of the share that is decided right; NaN where a label is absent."""
    shares = []
    for label in (0, 1):
        of_label = is_right[labels == label]
        shares.append(float(of_label.mean()) if len(of_label) else float("nan"))
    return float(np.mean(shares))


def parity(is_right: Any, labels: Any, groups: Mapping[str, Any]) -> tuple[float, float]:
    """Standard deviation over groups of the accuracy, and of the balanced accuracy.

    Parameters
    ----------
    is_right : ndarray of bool, shape (n,)
    labels : ndarray of int, shape (n,)
    groups : mapping of str to ndarray of bool, shape (n,)
        A group without a person is left out; one without people of both labels has no balanced
        accuracy.

    Returns
    -------
    float
    float
    """
    accuracies = []
    balanced_accuracies = []
    for members in groups.values():
        if not members.any():
            continue
        accuracies.append(float(is_right[members].mean()))
        value = balanced(is_right[members], labels[members])
        if not np.isnan(value):
            balanced_accuracies.append(value)
    return float(np.std(accuracies)), float(np.std(balanced_accuracies))


def judged(answers: Answers, split: Split) -> dict[str, Any]:
    """Return the measures of a model; deviation and consistency by sentence."""
    labels = split.test.y
    probabilities = answers(split.test.X)
    is_right = (probabilities > HALF) == (labels == 1)
    of_groups = parity(is_right, labels, split.groups)
    values: dict[str, Any] = {
        "balanced_accuracy": balanced(is_right, labels),
        "accuracy_parity": of_groups[0],
        "balanced_accuracy_parity": of_groups[1],
    }
    own = probabilities[split.rows]
    copies = {}
    for kind, moved in split.copies.items():
        copies[kind] = np.stack([answers(copy) for copy in moved])
    copies["all"] = np.concatenate([copies["known"], copies["unseen"]])
    for kind in KINDS:
        deviation, consistent = deviations(own, copies[kind])
        values[f"deviation.{kind}"] = deviation
        values[f"consistency.{kind}"] = consistent
    return values


def models() -> Iterator[tuple[str, float]]:
    """Yield the methods and their weights, in the order in which they are trained."""
    yield "nn", 0.0
    yield "project", 0.0
    yield "sensr", 0.0
    for rho in RHOS:
        yield "clp", rho
        yield "sensei", rho


def key_of(method: str, rho: float) -> str:
    """Return the name of a model in the results."""
    return f"{method} {rho:g}" if rho else method


def paired(first: Any, second: Any) -> list[float]:
    """Mean of the differences by sentence, and its standard error."""
    difference = np.asarray(first) - np.asarray(second)
    return [float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))]


def compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[float]]:
    """Differences of two models, paired by sentence, of what is measured by sentence."""
    differences = {}
    for kind in KINDS:
        for measure in ("consistency", "deviation"):
            name = f"{measure}.{kind}"
            differences[name] = paired(first[name], second[name])
    return differences


def means(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean of what is measured by sentence, and the other measures as they are."""
    return {name: float(np.mean(value)) for name, value in values.items()}


def measure(split: Split) -> dict[str, Any]:
    """Train and judge all models of a split, and compare SenSeI with CLP at each ρ."""
    metric = metric_of(split, Settings())
    by_key: dict[str, dict[str, Any]] = {}
    records = []
    for method, rho in models():
        key = key_of(method, rho)
        started = time.process_time()
        by_key[key] = judged(fitted(split, method, rho, metric=metric), split)
        seconds = {"seconds": time.process_time() - started}
        records.append({"model": key, **rounded(means(by_key[key]) | seconds, 4)})
        log(records[-1])
    differences = {}
    for rho in RHOS:
        pair = compared(by_key[f"sensei {rho:g}"], by_key[f"clp {rho:g}"])
        differences[f"{rho:g}"] = rounded(pair, 4)
    return {"sentences": len(split.rows), "models": records, "paired": differences}


def is_missing(entry: Mapping[str, Any]) -> bool:
    """Whether a split lacks a model, or the comparison at a weight."""
    done = {record["model"] for record in entry.get("models", ())}
    compared_rhos = entry.get("paired", {})
    lacks_model = any(key_of(method, rho) not in done for method, rho in models())
    return lacks_model or any(f"{rho:g}" not in compared_rhos for rho in RHOS)


def write_splits(table: str, splits: Mapping[str, Any], splits_asked: int) -> None:
    """Write the splits of a table, the models of each by column."""
    written = {}
    for seed, entry in sorted(splits.items(), key=lambda item: int(item[0])):
        written[seed] = entry | {"models": by_column(entry["models"])}
    content = provenance(f"python -m benchmarks.studies.unseen_terms --table {table}")
    content |= {"training": TRAINING, "search": SEARCH, "splits": written}
    if len(written) >= min(SPLITS, splits_asked) and splits_asked >= SPLITS:
        content["whole"] = True
    write_result(RESULTS[table], content)


def check_encoder() -> None:
    """Refuse to start without the encoder of sentences.

    Raises
    ------
    InputError
        If the optional extra is not installed.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise InputError(MISSING_EXTRA.format(name="minilm"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the splits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", default="tweets", choices=tuple(RESULTS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    chosen = parser.parse_args(arguments)
    check_encoder()
    code_state()
    torch.set_num_threads(1)
    store = Store(os.environ.get("EVENHAND_STORE"))
    for seed in range(chosen.splits):
        splits = read_result(RESULTS[chosen.table]).get("splits", {})
        if not is_missing(splits.get(str(seed), {})):
            continue
        log(f"{chosen.table}: split {seed + 1} of {chosen.splits}")
        with threadpool_limits(1):
            splits[str(seed)] = measure(split_of(store, chosen.table, seed))
        write_splits(chosen.table, splits, chosen.splits)


if __name__ == "__main__":
    main(sys.argv[1:])
