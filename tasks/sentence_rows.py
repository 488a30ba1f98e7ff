"""Sentences in steps: their encoder with its cache, and counterfactual copies of encoded rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from evenhand.fairlib.arrays import Float32, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.terms import Terms
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.execution.store import cache_folder
from evenhand.tasks.written_input import read_corpus

# Sentences, drawn at random, from whose copies a metric is learned: one copy of each is held per
# term.
MAX_LEARNED = 250
# Place of a term in a line of a corpus.
SLOT = "{}"
# Sentences whose copies are predicted, one term at a time.
MAX_MEASURED = 2_000
# Copies of each training row that counterfactual logit pairing chooses from, each with a random
# term.
PAIRED_COPIES = 4


def vectors_folder() -> Path:
    """Per-user cache of the vectors of sentences, by digests of sentence and encoder."""
    return cache_folder("embeddings")


def read_encoder(context: StepContext) -> TableEncoder:
    """Read the input ``encoder``; vectors of sentences are cached."""
    encoder = TableEncoder.load(context.inputs["encoder"])
    encoder.cache = vectors_folder()
    return encoder


def terms_of(parameters: Mapping[str, Any]) -> dict[str, Terms]:
    """Lists of terms by name, from a step's parameters."""
    terms = {}
    for name, swap in parameters.get("terms", {}).items():
        terms[name] = Terms(swap["column"], tuple(map(tuple, swap["terms"])))
    return terms


@dataclass(frozen=True, eq=False)
class Mentions:
    """Rows of a dataset whose sentence has a term, m of them."""

    terms: Terms
    rows: Int  # shape (m,): positions in the dataset
    own: Int  # shape (m,): version of the sentence's first term
    sentences: list[str]

    @classmethod
    def find(cls, sentences: Sequence[str | None], terms: Terms, most: int, seed: int) -> Mentions:
        """Find them in the n rows' sentences, and draw `most` at random; m is 0 where there are
        none.
        """
        versions = terms.versions_of(sentences)
        rows = np.flatnonzero(versions >= 0)
        if len(rows) > most:
            rows = np.sort(generator(seed, "mentions").choice(rows, most, replace=False))
        return cls(terms, rows, versions[rows], [str(sentences[row]) for row in rows.tolist()])

    def copies(self, encoder: TableEncoder, encoded: Float32) -> Iterator[Float32]:
        """Copies of the encoded rows, shape (m, d), one term after the other."""
        for sentences in self.terms.copies(self.sentences):
            yield self.encoded(encoder, encoded, sentences)

    def encoded(self, encoder: TableEncoder, rows: Float32, sentences: Sequence[str]) -> Float32:
        """Encoded rows, shape (m, d), with other sentences."""
        vectors = encoder.encode_sentences(self.terms.column, sentences)
        copy = rows.copy()
        copy[:, encoder.groups_[self.terms.column][: vectors.shape[1]]] = vectors
        return copy

    def in_rows_of(self, encoder: TableEncoder, X: Float32, seed: int) -> Float32:
        """The sentences, with the other columns of encoded rows of X drawn at random; shape (m, d).

        With one value for all, EXPLORE would learn that these columns do not count.
        """
        rows = X[generator(seed, "corpus").integers(len(X), size=len(self.sentences))]
        rows[:, encoder.groups_[self.terms.column]] = 0.0  # no sentence is missing
        return self.encoded(encoder, rows, self.sentences)


def no_mention(terms: Terms, where: str) -> InputError:
    """Refuse terms that do not occur."""
    return InputError(
        f"no sentence of the {where} has a term of the list for {terms.column!r}: check list and "
        "column."
    )


def copies_to_learn(
    context: StepContext, data: Dataset, encoder: TableEncoder
) -> tuple[Float32, list[Float32]]:
    """Rows with a term, and all their copies, to learn a fair metric from; also those of other
    columns.

    With the input ``corpus``, a file of sentences, these replace the sentences of random training
    rows.
    """
    seed = context.parameters["seed"]
    corpus = None
    if "corpus" in context.inputs:
        corpus = read_corpus(context.inputs["corpus"])
    rows = []
    copies = []
    # every list of terms has its own rows, so there is one list only
    for terms in terms_of(context.parameters).values():
        if corpus is None:
            sentences = sentences_of(context, data, terms.column)
            mentions = Mentions.find(sentences, terms, MAX_LEARNED, seed)
            _refuse_none(mentions, "training rows")
            originals = data.X[mentions.rows]
        else:
            lines = [line.replace(SLOT, terms.groups[0][0]) for line in corpus]
            mentions = Mentions.find(lines, terms, MAX_LEARNED, seed)
            _refuse_none(mentions, "corpus")
            originals = mentions.in_rows_of(encoder, data.X, seed)
        rows.append(originals)
        copies.append(list(mentions.copies(encoder, originals)))
    most = max(map(len, copies))
    filled = []
    for originals, row_copies in zip(rows, copies, strict=True):
        # a row with fewer terms gets itself as a copy, which is no difference
        filled.append(row_copies + [originals] * (most - len(row_copies)))
    X = np.concatenate(rows)
    joined = [np.concatenate(parts) for parts in zip(*filled, strict=True)]
    for changes in context.parameters["counterfactuals"].values():
        joined += encoded_copies(encoder, X, changes)
    return X, joined


def _refuse_none(mentions: Mentions, where: str) -> None:
    """Refuse terms that no sentence has."""
    if not mentions.rows.size:
        raise no_mention(mentions.terms, where)


def copies_to_pair(
    context: StepContext, data: Dataset, encoder: TableEncoder, seed: int
) -> list[Float32]:
    """Copies of all rows, each with a random term in place of its own; a row without a term is its
    copy.
    """
    copied_inputs: list[Float32] = []
    for name, terms in terms_of(context.parameters).items():
        sentences = sentences_of(context, data, terms.column)
        mentions = Mentions.find(sentences, terms, len(sentences), seed)
        rng = generator(seed, "paired", name)
        for _ in range(PAIRED_COPIES):
            drawn = rng.integers(len(terms.groups[0]), size=len(mentions.rows)).tolist()
            changed = list(map(terms.replaced, mentions.sentences, drawn))
            copy = data.X.copy()
            copy[mentions.rows] = mentions.encoded(encoder, data.X[mentions.rows], changed)
            copied_inputs.append(copy)
    return copied_inputs


def sentences_of(context: StepContext, data: Dataset, name: str) -> list[str | None]:
    """Sentences of the rows of a dataset, from the input ``checked``."""
    table = pq.read_table(context.inputs["checked"], columns=[name])
    return list(table[name].take(data.rows).to_pylist())
