"""A starter job for an inferred contract: what its method needs, and comments on what else there
is.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.arrow import group_labels
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.yaml_writer import comment, dump_plainly
from evenhand.fairlib.methods.registry import METHODS, PROXIES, MethodSpec, method_class, spec_of
from evenhand.flows.metric_choice import MetricChoice
from evenhand.tasks.errors import InputError
from evenhand.tasks.written_input import not_known

CLASSIFIER_KEYS = """\
# Calibration makes probabilities hold: auto chooses by the log loss on held-out training rows.
calibration: auto
# Threshold observed keeps the share of positive labels, max_accuracy makes the fewest errors.
decision: {threshold: observed}
"""
TEXT = """\
# Sentences become vectors: tfidf needs no extra; minilm reads meaning (extra evenhand[text]).
text: {encoder: tfidf}
"""
COPIES = """\
# Counterfactual copies of people: consistency.NAME is the share with one prediction on all copies.
"""
ADAPTED_COPIES = """\
# Adapted copies: each person's counterparts in the other groups, as the learned metric makes them.
# consistency.counterpart is the share of people with one prediction on all of them.
evaluate:
  counterfactuals: {counterpart: adapted}
"""
GATES = """\
# Gates: a model is published only within these bounds; `evenhand metrics` lists the names.
# gates:
"""
TREE_KEYS = """\
  # Imbalance given up so that most people have a chance and the sample is useful (paper: 0).
  support: 0.03
"""
PROXY_GATES = """\
# Gates: a proxy is published only within these bounds; `evenhand metrics` lists the names.
gates:
  # A proxy that removes less of the imbalance balances hardly anything.
  imbalance_reduction: {min: 0.1}
  # On held-out rows it removes at least half of what is possible on the training rows, and the
  # sample is about as balanced.
  imbalance_reduction.of_possible: {min: 0.5}
  imbalance.excess: {max: 0.1}
  # Share of the rows that are kept.
  kept: {min: 0.01}
"""
TREE_GATES = """\
  # Share of people with a chance above a tenth of the mean.
  support: {min: 0.6}
  # The limit alpha (0.2) is exceeded a little on held-out rows, and by the acceptance probability.
  # disclosivity: {max: 0.2}
  # disclosivity_of_probability: {max: 0.25}
"""
PUBLISH = """\
# Without a policy (`evenhand policy set`) the gates above alone decide which model is champion.
publish: {without_policy: true}
"""


def check_method(method: str, sensitive: bool) -> MethodSpec:
    """Return the entry of a method.

    Raises `InputError` if it is unknown, or compares groups and there is no sensitive column.
    """
    names = [*METHODS, *PROXIES]
    if method not in names:
        raise not_known("method", method, names)
    spec = spec_of(method)
    needs_groups = (
        spec.needs_groups or spec.needs_metric or spec.needs_counterfactuals or method in PROXIES
    )
    if needs_groups and not sensitive:
        raise InputError(f"method {method} needs a sensitive column: name one with --sensitive.")
    return spec


def needs_inputs(spec: MethodSpec) -> bool:
    """Whether a method needs the sensitive columns among the model inputs."""
    return spec.needs_counterfactuals or (spec.needs_feature_groups and not spec.asks)


def method_needs(
    spec: MethodSpec, contract: Contract, groups: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the keys that a job of a method needs for this table, and reasons for the user.

    `groups` has the rows of each group, by sensitive column.
    """
    names = [column.name for column in contract.sensitive]
    notes: list[str] = []
    keys: dict[str, Any] = {"method": {"name": spec.name}}
    if needs_inputs(spec):
        reason = "reads each person's group"
        if spec.needs_counterfactuals:
            reason = "pairs people with copies"
        are = "are"
        if len(names) == 1:
            are = "is"
        notes.append(f"{spec.name} {reason}: {', '.join(names)} {are} model inputs too")
    parameters = inspect.signature(method_class(spec.name).__init__).parameters
    is_one_proxy = spec.name in PROXIES and spec.class_name != "ProxyTree"
    takes_one = "attribute" in parameters or is_one_proxy
    # the attribute whose groups have the most rows to learn from
    widest = max(names, key=lambda name: min(groups[name].values()), default="")
    if takes_one and len(names) > 1:
        notes.append(
            f"{spec.name} compares the groups of one column: {widest}, whose smallest group is "
            "largest"
        )
        if spec.name in PROXIES:
            keys["sensitive"] = [widest]
        else:
            keys["method"]["attribute"] = widest
    return keys, notes


def group_sizes(table: pa.Table, contract: Contract) -> dict[str, dict[str, int]]:
    """Rows of each group of a typed table, by sensitive column."""
    sizes = {}
    for column in contract.sensitive:
        names, counts = np.unique(group_labels(table[column.name], column), return_counts=True)
        sizes[column.name] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return sizes


def counterfactuals(table: pa.Table, contract: Contract) -> dict[str, dict[str, Any]]:
    """Changes that flip each sensitive model input: all categories, or the median number of every
    group.

    `table` has the contract's columns, typed.
    """
    return {
        column.name: {column.name: _flips(table[column.name], column)}
        for column in contract.sensitive
        if column.is_feature
    }


def _flips(values: pa.ChunkedArray, column: Column) -> Any:
    if column.encoding not in ("standard", "unit"):
        return "all"
    if column.allowed is not None:
        return list(column.allowed)
    present = values.drop_null()
    groups = group_labels(present, column)
    numbers = np.asarray(present.to_numpy(), dtype=np.float64)
    # the lower median is a value of the table, so that the contract allows it
    medians = sorted(
        float(np.quantile(numbers[groups == name], 0.5, method="lower"))
        for name in np.unique(groups)
    )
    if column.logical_type == "integer":
        return [int(value) for value in medians]
    return medians


def job_text(
    name: str,
    contract: Contract,
    contract_file: str,
    *,
    source: Mapping[str, Any],
    shown: str,
    spec: MethodSpec,
    keys: Mapping[str, Any],
    flips: Mapping[str, Any],
    choice: MetricChoice,
) -> str:
    """Return a job as YAML: what it needs, and comments on gates and counterfactuals.

    A copy with another value of the sensitive column alone is no counterpart for a learned metric,
    which makes adapted copies: they take the place of such flips.
    """
    if choice.is_learned:
        flips = {}
    job: dict[str, Any] = {
        "name": name,
        "description": f"{contract.label.name} from {shown}",
        "table": dict(source),
        "contract": contract_file,
        "seed": 0,
    }
    job |= {key: keys[key] for key in ("split", "sensitive") if key in keys}
    if any("terms" in changes for changes in flips.values()):
        # the directions along which sentences differ from their copies with another term
        job["fair_metric"] = {"kind": "face", "counterfactuals": ["identity"]}
    text = dump_plainly(job, width=110)
    text += _metric_text(choice)
    method = {"method": keys["method"]}
    text += dump_plainly(method, width=110)
    if spec.name in PROXIES:
        parameters = inspect.signature(method_class(spec.name).__init__).parameters
        if "alpha" not in parameters:
            return text + PROXY_GATES + "  # disclosivity: {max: 0.2}\n" + PUBLISH
        return text + TREE_KEYS + PROXY_GATES + TREE_GATES + PUBLISH
    if not contract.label.classes:
        text += CLASSIFIER_KEYS
    if any(column.is_text for column in contract.features):
        text += TEXT
    if choice.is_learned:
        text += ADAPTED_COPIES
    else:
        text += _counterfactuals_text(contract, flips)
    gates: dict[str, Any] = {"balanced_accuracy": {"min": 0.7}}
    gates |= {f"gap_max.{c.name}": {"max": 0.1, "bound": "interval"} for c in contract.sensitive}
    gates |= {f"consistency.{flip}": {"min": 0.95} for flip in flips}
    gates |= choice.gates
    return text + GATES + _flow("#   ", gates) + PUBLISH


def _metric_text(choice: MetricChoice) -> str:
    """Return the section `fair_metric` below its comments; none where the default stays."""
    if not choice.section:
        return ""
    lines = []
    for sentence in choice.comments:
        text = f"{sentence[0].upper()}{sentence[1:]}."
        lines += textwrap.wrap(
            comment(text).removeprefix("# "),
            98,
            break_long_words=False,
            break_on_hyphens=False,
            initial_indent="# ",
            subsequent_indent="# ",
        )
    section = {"fair_metric": dict(choice.section)}
    comments = "".join(f"{line}\n" for line in lines)
    return comments + dump_plainly(section, width=110)


def _counterfactuals_text(contract: Contract, flips: Mapping[str, Any]) -> str:
    """Return the section `evaluate`; without counterfactuals an example in comments."""
    if flips:
        evaluate = {"evaluate": {"counterfactuals": dict(flips)}}
        return COPIES + dump_plainly(evaluate, width=110)
    for column in contract.features:
        if column.encoding in ("onehot", "binary"):
            example = _flow("#     ", {"example": {column.name: "all"}})
            return COPIES + "# evaluate:\n#   counterfactuals:\n" + example
    return ""


def _flow(indent: str, content: Mapping[str, Any]) -> str:
    """Return a line of YAML for each key, its value in braces."""
    lines = []
    for key, value in content.items():
        line = dump_plainly(
            {key: value}, default_flow_style=True, sort_keys=True, width=10_000
        ).strip()
        lines.append(f"{indent}{line[1:-1]}\n")
    return "".join(lines)
