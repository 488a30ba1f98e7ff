"""Answers of a model about sentences and about their copies with another term."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.tokens import mention_aucs, token_gaps
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.preprocessing.terms import Terms
from evenhand.tasks.evaluating.decisions import LoadedModel, bootstrap_settings, groups_argument
from evenhand.tasks.sentence_rows import MAX_MEASURED, Mentions, terms_of, vectors_folder

# Sentences that a page shows at most.
MOST_SHOWN = 10


@dataclass(frozen=True)
class TokenMoves:
    """Metrics by name, and the document of the page: by list of terms the moves of each term."""

    metrics: dict[str, MetricValue] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)
    # by metric that is a mean over sentences: each sentence's value, shape (m,)
    by_sentence: dict[str, Float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Moves:
    """A model's answers about m of n rows, and about copies of them with each of k terms."""

    rows: Int  # shape (m,): positions among the n rows
    own: Int  # shape (m,): version of each row's own term
    versions: Int  # shape (n,): that of all rows, -1 for a sentence without a term
    # shape (m, k): of the copies; of more than two labels how far theirs are from those of the row
    probability: Float
    same: Bool  # shape (m,): whether all copies get the row's decision

    def metrics(
        self, name: str, terms: Terms, outcomes: Outcomes, settings: Mapping[str, Any]
    ) -> tuple[dict[str, MetricValue], list[dict[str, Any]]]:
        """Metrics by name, and the moves by term; `settings` are those of the bootstrap."""
        chance = {key: settings[key] for key in ("draws", "level", "min_cell", "seed")}
        score = outcomes.score
        row_scores = np.zeros(len(self.rows))
        if not outcomes.classes:
            row_scores = score[self.rows]
        gaps, moves = token_gaps(
            row_scores, self.probability, self.own, names=terms.names, **chance
        )
        by_term: dict[str, dict[str, float]] = {}
        if not outcomes.classes:
            ranked, by_term = mention_aucs(
                outcomes.y_true, score, self.versions, names=terms.names, **chance
            )
            gaps |= ranked
        metrics = {f"{kind}.{name}": value for kind, value in gaps.items()}
        metrics[f"consistency.{name}"] = _consistency(self.same, settings)
        return metrics, [move | by_term.get(move["term"], {}) for move in moves]


def _consistency(same: Bool, settings: Mapping[str, Any]) -> MetricValue:
    """Share of sentences whose copies all get the same decision."""
    if len(same) < settings["min_cell"]:
        reason = f"only {len(same)} sentences have a term, fewer than {settings['min_cell']}"
        return MetricValue.insufficient(reason)
    share = float(same.mean())
    if not settings["draws"]:
        return MetricValue(share)
    return MetricValue(share, *rate_interval(float(same.sum()), len(same), settings["level"]))


def moved_to(copies: Float, own: Float) -> Float:
    """Probabilities of m copies as :class:`Moves` has them, shape (m,); `own` are those of their
    rows.

    Both have the shape (m,), or (m, L) of more than two labels: then half the sum of the absolute
    changes, which of two labels is the absolute change of either probability.
    """
    if copies.ndim == 1:
        return copies
    return np.abs(copies - own).sum(axis=1) / 2


def token_moves(
    model: Any,
    encoder: TableEncoder,
    encoded: Callable[[Int], Float32],
    sentences: Callable[[str], Sequence[str | None]],
    outcomes: Outcomes,
    parameters: Mapping[str, Any],
    draws: int,
    *,
    show: bool = False,
) -> TokenMoves:
    """Measure a model on rows whose sentences have a term, at most 2,000 of the n rows, drawn at
    random.

    ``encoded(rows)`` gives rows as the model takes them, shape (m, d), ``sentences(column)`` the n
    sentences of a column, and `outcomes` has the model's answers. The copies are encoded and
    predicted one term after the other. `parameters` are those of a step with ``evaluate`` and
    ``seed``. With `show` the content has the sentences that move most.
    """
    result = TokenMoves()
    settings = bootstrap_settings(parameters) | {"draws": draws}
    for name, terms in terms_of(parameters["evaluate"]).items():
        listed = sentences(terms.column)
        mentions = Mentions.find(listed, terms, MAX_MEASURED, parameters["seed"])
        count = len(mentions.rows)
        probability = list[Float]()
        same = np.ones(count, dtype=bool)
        if count:  # models refuse a table without rows
            sensitive = {key: values[mentions.rows] for key, values in outcomes.sensitive.items()}
            groups = groups_argument(model, sensitive)
            rows = encoded(mentions.rows)
            decided = model.predict(rows, **groups)
            for copy in mentions.copies(encoder, rows):
                answers = model.predict_proba(copy)
                if not outcomes.classes:
                    answers = answers[:, 1]
                probability.append(moved_to(answers, outcomes.score[mentions.rows]))
                same &= model.predict(copy, **groups) == decided
        copies = np.empty((0, len(terms.names)))
        if count:
            copies = np.stack(probability, axis=1)
        moves = Moves(mentions.rows, mentions.own, terms.versions_of(listed), copies, same)
        metrics, by_term = moves.metrics(name, terms, outcomes, settings)
        result.metrics.update(metrics)
        if count:
            shifts = copies
            if not outcomes.classes:
                shifts = copies - outcomes.score[mentions.rows][:, None]
            is_other_term = mentions.own[:, None] != np.arange(len(terms.names))
            result.by_sentence[f"consistency.{name}"] = same.astype(np.float64)
            result.by_sentence[f"token_gap.{name}"] = np.average(
                np.abs(shifts), axis=1, weights=is_other_term
            )
        result.content[name] = {"column": terms.column, "sentences": count, "terms": by_term}
        if show:
            result.content[name]["shown"] = _largest(mentions, moves, outcomes)
    return result


def moves_in_table(
    one: LoadedModel, table: pa.Table, outcomes: Outcomes, parameters: Mapping[str, Any]
) -> TokenMoves:
    """Answers of a published model about a table of its inputs, and about copies with
    another term.
    """
    one.encoder.cache = vectors_folder()
    return token_moves(
        one.model,
        one.encoder,
        lambda rows: one.encoder.transform(table.take(rows).to_pandas()),
        lambda column: table[column].to_pylist(),
        outcomes,
        parameters,
        parameters["evaluate"]["draws"],
    )


def _largest(mentions: Mentions, moves: Moves, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Sentences whose answer changes most, each with its copy that changes most.

    With the probability before and after, or the change alone where there are more than two labels.
    """
    before = np.zeros(len(moves.rows)) if outcomes.classes else outcomes.score[moves.rows]
    change = np.abs(moves.probability - before[:, None])
    listed = []
    for row in np.argsort(-change.max(axis=1, initial=0.0), kind="stable")[:MOST_SHOWN].tolist():
        version = int(change[row].argmax())
        sentence = mentions.sentences[row]
        after = float(moves.probability[row, version])
        numbers = (
            {"change": after}
            if outcomes.classes
            else {"before": float(before[row]), "after": after}
        )
        listed.append(
            {"sentence": sentence, "copy": mentions.terms.replaced(sentence, version), **numbers}
        )
    return listed
