"""A policy from the options of a command: its gates, and the rows of its holdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evenhand.fairlib.catalogue import describe, names_of
from evenhand.flows.data_source import parse_data
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.run import ingest
from evenhand.tasks.errors import InputError
from evenhand.tasks.gate import read_limits
from evenhand.tasks.inputs import nearest
from evenhand.tasks.row_digests import digest_of_rows, new_salt
from evenhand.tasks.signatures import read_public_keys
from evenhand.tasks.store import Store


def make_policy(
    store: Store,
    gates: str,
    holdout: str | None,
    overrides: Sequence[str],
    *,
    required: Sequence[str],
    limits: Mapping[str, float],
    promoters: Sequence[str],
    signed_by: Sequence[Path],
) -> dict[str, Any]:
    """Check the rules of a policy, and read its holdout.

    Raises `InputError` for a metric that does not exist, or a gate that no value satisfies.
    """
    chosen, found = read_limits(gates, baseline=False)
    known = names_of("classifier")
    for metric in (*required, *(gate.metric for gate in found)):
        try:
            describe(metric)
        except KeyError:
            raise InputError(
                f"the policy names {metric!r}, which is no metric{nearest(metric, known)}."
            ) from None
    for gate in found:
        low, high = describe(gate.metric)[0].domain
        over = gate.min is not None and high is not None and gate.min > high
        if over or (gate.max is not None and low is not None and gate.max < low):
            raise InputError(
                f"the policy's gate {gate.metric!r} asks for {gate.min if over else gate.max:g}, and the "
                f"metric lies from {low} to {high}: no model can satisfy it."
            )
    rules = {
        "gates": chosen,
        "required": list(required),
        "promoters": list(promoters),
        "signed_by": read_public_keys(signed_by),
        "holdout": None,
        **limits,
    }
    if holdout is not None:
        data = parse_data(holdout, overrides)
        with store.lease():
            steps = Steps(store, DirectEngine(store))
            ingest(data.source, data.seed or 0, steps)
            table = pq.read_table(store.fetch(steps.output("ingest", "raw")))
        salt = new_salt()
        rules["holdout"] = {
            "data": holdout,
            "overrides": list(overrides),
            "rows": table.num_rows,
            "salt": salt,
            "digest": digest_of_rows(table, salt),
        }
    return rules
