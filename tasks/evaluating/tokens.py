"""Answers of a model about sentences and about their copies with another term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.mentions import mention_aucs
from evenhand.fairlib.evaluation.tokens import token_gaps
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.dataset import Dataset
from evenhand.tasks.evaluating.decisions import groups_argument, person_mean
from evenhand.tasks.sentences import MAX_MEASURED, Mentions, terms_of, versions_of_rows
from evenhand.tasks.step import StepContext


@dataclass(frozen=True)
class TokenMoves:
    """Metrics by name, and the document of the page: by list of terms the moves of each term."""

    metrics: dict[str, MetricValue] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)


def token_moves(
    context: StepContext, model: Any, encoder: TableEncoder, data: Dataset, settings: Mapping[str, Any]
) -> TokenMoves:
    """Measure a model on test sentences that have a term, at most 2,000, drawn at random.

    The copies are encoded and predicted one term after the other. `settings` are those of the bootstrap.
    """
    parameters = context.parameters
    found = TokenMoves()
    for name, terms in terms_of(parameters["evaluate"]).items():
        mentions = Mentions.find(context, data, terms, MAX_MEASURED, parameters["seed"])
        rows = data.X[mentions.rows]
        sensitive = {key: values[mentions.rows].astype(str) for key, values in data.sensitive.items()}
        groups = groups_argument(model, sensitive)
        decided = model.predict(rows, **groups)
        same, probability = np.ones(len(rows), dtype=bool), []
        for copy in mentions.copies(encoder, data.X):
            probability.append(model.predict_proba(copy)[:, 1])
            same &= model.predict(copy, **groups) == decided
        chance = {key: settings[key] for key in ("draws", "level", "min_cell", "seed")}
        own = model.predict_proba(rows)[:, 1]
        gaps, moves = token_gaps(
            own, np.stack(probability, axis=1), mentions.own, names=terms.names, **chance
        )
        found.metrics.update({f"{kind}.{name}": value for kind, value in gaps.items()})
        scores, versions = model.predict_proba(data.X)[:, 1], versions_of_rows(context, data, terms)
        ranked, by_term = mention_aucs(data.y, scores, versions, names=terms.names, **chance)
        found.metrics.update({f"{kind}.{name}": value for kind, value in ranked.items()})
        kept = {**parameters, "evaluate": {**parameters["evaluate"], "draws": settings["draws"]}}
        found.metrics[f"consistency.{name}"] = person_mean(same, kept)
        found.content[name] = {
            "column": terms.column,
            "sentences": len(rows),
            "terms": [move | by_term.get(move["term"], {}) for move in moves],
        }
    return found
