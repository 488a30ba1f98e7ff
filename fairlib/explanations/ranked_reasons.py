"""Principal reasons of an adverse decision: the columns that moved it most against a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.explanations.sampled_contributions import ORDERS, sampled_contributions
from evenhand.fairlib.methods.reasons import STEPS, contributions
from evenhand.fairlib.methods.registry import spec_of_class
from evenhand.fairlib.preprocessing.encoder import TableEncoder

# Regulation B advises against more than four principal reasons (12 CFR 1002.9, official
# interpretation).
MOST = 4
# A contribution below this share of the strongest one is no reason. The scale of log-odds differs
# between models: those of a model with few small steps are all near 0.
LEAST = 0.05
METHODS = {
    "trees": "exact Shapley values of the trees (XGBoost's pred_contribs)",
    "linear": "exact contributions of the linear model",
    "network": f"integrated gradients of the network, {STEPS} steps from the mean training row",
    "sampled": (
        f"sampled Shapley values, not exact: the model was asked in {2 * ORDERS} orders of the "
        "columns, from the mean training row"
    ),
}
"""How contributions are computed, by kind of model."""


@dataclass(frozen=True)
class Reason:
    """A column, and how much it moved the log-odds of the favourable decision."""

    column: str
    contribution: float


def reason_method(model: Any) -> str:
    """Say how the contributions of a model's columns are computed.

    Parameters
    ----------
    model : Method or DecidedModel

    Returns
    -------
    str
        One of `METHODS`.
    """
    spec = spec_of_class(type(getattr(model, "base", model)))
    if not spec.gives_reasons:
        return METHODS["sampled"]
    if spec.has_trees:
        return METHODS["trees"]
    return METHODS["network" if spec.differentiable else "linear"]


def favourable_contributions(
    model: Any, X: Float32, encoder: TableEncoder, reference: Float, *, favourable: int = 1
) -> Float:
    """Contribution of every column of the table to the log-odds of the favourable decision.

    The one-hot columns of a category are summed. Methods that give no contributions of their own
    have sampled ones (:mod:`.sampled_contributions`).

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    X : ndarray of float32, shape (n, d)
        Encoded rows.
    encoder : TableEncoder
        Fitted encoder of these rows.
    reference : ndarray of float, shape (d,)
        Mean encoded training row, as :func:`evenhand.fairlib.methods.reasons.mean_row` has it.
    favourable : {0, 1}, default 1
        Code of the favourable label.

    Returns
    -------
    ndarray of float, shape (n, columns)
        In the order of the encoder's ``groups_``.
    """
    base = getattr(model, "base", model)
    if spec_of_class(type(base)).gives_reasons:
        parts = contributions(model, X, encoder, reference)
    else:
        parts = sampled_contributions(
            lambda rows: np.asarray(base.predict_proba(rows))[:, 1], X, encoder.groups_, reference
        )
    if favourable == 1:
        return parts
    return -parts


def principal_reasons(
    contribution: Mapping[str, float], *, most: int = MOST, least: float = LEAST
) -> list[Reason]:
    """The columns that lowered the log-odds of the favourable decision most.

    Parameters
    ----------
    contribution : mapping of str to float
        By column, to the log-odds of the favourable decision.
    most : int, default 4
        Most reasons.
    least : float, default 0.05
        Contributions below this share of the strongest one are no reasons.

    Returns
    -------
    list of Reason
        The strongest first; of equal ones the column that comes first.

    Examples
    --------
    >>> found = principal_reasons({"income": -0.8, "age": 0.4, "years": -0.1, "city": -0.01})
    >>> [reason.column for reason in found]
    ['income', 'years']
    """
    names = list(contribution)
    values = np.array([contribution[name] for name in names])
    order = np.argsort(values, kind="stable")
    reasons = []
    strongest = min(float(values.min(initial=0.0)), 0.0)
    for place in order[:most].tolist():
        if values[place] < 0.0 and values[place] <= least * strongest:
            reasons.append(Reason(names[place], float(values[place])))
    return reasons
