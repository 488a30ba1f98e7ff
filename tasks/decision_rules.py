"""Calibration and decision rule of a model, chosen on held-out rows: of a run's model, of its
controls, and of the candidates of a search.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Int, Str
from evenhand.fairlib.evaluation.group_selection import JOINT
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.calibration import Calibration, fit_calibration
from evenhand.fairlib.methods.decided import (
    OTHER_GROUPS,
    QUOTA_TOLERANCE,
    AttributeGroups,
    GroupRule,
    Rule,
    choose_threshold,
    decision_curve,
    nearest_share,
)
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.errors import InputError, input_errors

# Rates and curves of fewer rows than this are not published; a job's `evaluate.min_cell` replaces
# it.
MIN_CELL = 5
# A cost of 0 would make every decision as good as any other.
LEAST_COST = 1e-6


def decided_rule(
    parameters: Mapping[str, Any], held: HeldOut, groups: Str | None = None
) -> tuple[Any, Rule, dict[str, Any]]:
    """Calibration, the rule of :func:`chosen_rule`, and a description of both without rows."""
    calibration, losses = calibrated_on(parameters, held)
    calibration = calibration_for_share(parameters, held, calibration)
    rule = chosen_rule(parameters, held, calibration, groups)
    least = parameters.get("min_cell", MIN_CELL)
    content = {
        "rows": len(held.label),
        "base_rate": float(held.label.mean()),
        "calibration": calibration.kind,
        "losses": losses,
        "shift": held.shift,
        "rule": rule.to_json(),
        "missed_share": missed_share(parameters, held, calibration),
        "curve": decision_curve(calibration(held.probability), held.label, min_cell=least),
    }
    return calibration, rule, content


def chosen_rule(
    parameters: Mapping[str, Any], held: HeldOut, calibration: Any, groups: Str | None
) -> Rule:
    """Decision rule chosen on held-out rows by their calibrated probabilities.

    `parameters` are ``calibration`` and ``decision`` as a job has them, ``seed``, and for
    thresholds by group ``attribute`` (name, cut points and group names, or several ``crossed``
    ones); ``min_cell`` and the ``favourable`` label optionally. `groups` are those of the held-out
    rows, shape (m,). Raises `InputError` for a quota that equal probabilities make impossible, or
    groups with too few rows.
    """
    decision = parameters["decision"]
    p = calibration(held.probability)
    threshold = decision["threshold"]
    if threshold is None and decision["rate"] is None and decision["costs"] is None:
        threshold = "balanced"
    with input_errors("decision: "):
        if groups is not None:
            return _by_group(parameters, p, held.label, groups, threshold)
        return choose_threshold(
            p, held.label, threshold=threshold, rate=decision["rate"], costs=decision["costs"]
        )


def calibrated_on(parameters: Mapping[str, Any], held: HeldOut) -> tuple[Any, Any]:
    """Calibration of the probabilities of held-out rows, and the losses that it was chosen by."""
    return fit_calibration(
        held.probability, held.label, parameters["calibration"], shift=held.shift
    )


def calibration_for_share(
    parameters: Mapping[str, Any], held: HeldOut, calibration: Calibration
) -> Calibration:
    """The calibration, or a strictly increasing one where an isotonic regression that ``auto``
    chose gives so many people the same probability that no threshold keeps the wanted share.
    """
    is_chosen = parameters["calibration"] == "auto" and calibration.kind == "isotonic"
    if not is_chosen or missed_share(parameters, held, calibration) is None:
        return calibration
    increasing, _ = fit_calibration(
        held.probability, held.label, shift=held.shift, is_increasing=True
    )
    return increasing


def missed_share(
    parameters: Mapping[str, Any], held: HeldOut, calibration: Calibration
) -> dict[str, float] | None:
    """The ``wanted`` share of positive decisions, and the ``nearest`` one of any threshold; None
    where a threshold keeps it, or no share is wanted.
    """
    decision = parameters["decision"]
    target_rate = decision["rate"]
    if target_rate is None and decision["costs"] is None and decision["threshold"] == "observed":
        target_rate = float(held.label.mean())
    if target_rate is None or decision["equal"]:
        return None
    _, nearest = nearest_share(calibration(held.probability), target_rate)
    if abs(nearest - target_rate) <= QUOTA_TOLERANCE + 1.0 / len(held.label):
        return None
    return {"wanted": target_rate, "nearest": nearest}


def share_warning(missed: Mapping[str, float]) -> str:
    """Say that a share of :func:`missed_share` is not kept."""
    return (
        f"no threshold keeps the wanted share of {missed['wanted']:.1%} positive decisions: so "
        f"many people have equal probabilities that the nearest share is {missed['nearest']:.1%}"
    )


def held_out_groups(
    parameters: Mapping[str, Any], sensitive: Mapping[str, Any], held: HeldOut
) -> Str:
    """Groups of the held-out rows by the attribute of ``decision.equal``, shape (m,), from those of
    the training rows.

    Groups of the training rows that have too few held-out rows for their rates, such as that of the
    people without a value, share one set of thresholds: ``OTHER_GROUPS``. Raises InputError unless
    two sets remain.
    """
    # imported lazily: a run without thresholds by group needs no evaluation here
    from evenhand.fairlib.evaluation.outcomes import groups_by

    attribute = parameters["attribute"]
    with input_errors("decision.equal: ", end="."):
        of_training_rows = groups_by(sensitive, attribute["name"])
        check_joint_labels(attribute.get("crossed", ()), sensitive)
    groups = of_training_rows[held.rows].astype(str)
    everybody = np.array(sorted(set(of_training_rows.tolist())), dtype=str)
    return _with_small_ones_joined(parameters, everybody, groups, held.label)


def check_joint_labels(crossed: Sequence[Mapping[str, Any]], sensitive: Mapping[str, Any]) -> None:
    """Raise ValueError if two combinations of groups of the training rows would share a label."""
    names = [np.unique(np.asarray(sensitive[part["name"]]).astype(str)) for part in crossed]
    if not any(JOINT in name for groups in names for name in groups.tolist()):
        return
    labels = [JOINT.join(groups) for groups in itertools.product(*names)]
    if len(set(labels)) < len(labels):
        raise ValueError(f"two crossed groups would share a label: rename groups with {JOINT!r}")


def _with_small_ones_joined(
    parameters: Mapping[str, Any], everybody: Str, groups: Str, label: Int
) -> Str:
    """Groups of rows, with ``OTHER_GROUPS`` in place of those with too few rows of a label.

    If these have too few together, the next larger ones join them: else the facts of a few people
    would follow from the rates of the others and of all. `everybody` has each group of the training
    rows. Raises InputError if fewer than two groups are left.
    """
    least = parameters.get("min_cell", MIN_CELL)
    counts = _label_counts(everybody, groups, label)
    by_size = sorted(counts, key=lambda group: (counts[group].min(), group))
    joined = [group for group in by_size if counts[group].min() < least]
    if not joined:
        return groups
    small = len(joined)
    for group in by_size[small:]:
        of_joined = np.sum([counts[name] for name in joined], axis=0)
        if of_joined.min() >= least:
            break
        joined.append(group)
    # the largest group is a second one only if the joined ones have enough rows
    if len(joined) == len(by_size):
        raise InputError(f"decision.equal: {_too_few_groups(parameters, small, len(by_size))}")
    named: Str = np.where(np.isin(groups, joined), OTHER_GROUPS, groups)
    return named


def _label_counts(everybody: Str, groups: Str, label: Int) -> dict[str, Int]:
    """Number of rows with a negative and with a positive label, shape (2,), by group."""
    counts = {}
    for group in everybody.tolist():
        counts[group] = np.bincount(label[groups == group], minlength=2)
    return counts


def _too_few_groups(parameters: Mapping[str, Any], small: int, groups: int) -> str:
    """Say that there are no two groups with thresholds of their own, and what helps."""
    attribute = parameters["attribute"]
    least = parameters.get("min_cell", MIN_CELL)
    if attribute.get("crossed"):
        return (
            f"no two crossed groups of {attribute['name']!r} have {least} held-out rows of each "
            "label: name one attribute, collect rows, or take decision.equal out."
        )
    return (
        f"{small} of {groups} groups of {attribute['name']!r} have fewer than {least} held-out "
        "rows of a label, and too few are left for thresholds by group: merge small groups in the "
        "contract, collect rows, or take decision.equal out."
    )


def joined_groups_warning(
    parameters: Mapping[str, Any], sensitive: Mapping[str, Any], held: HeldOut, groups: Str
) -> str | None:
    """Say that some groups share thresholds, and which are large enough to be named; None if each
    group has its own. `groups` are those of :func:`held_out_groups`.
    """
    from evenhand.fairlib.evaluation.outcomes import groups_by

    attribute = parameters["attribute"]
    of_training_rows = groups_by(sensitive, attribute["name"])
    everybody = np.unique(of_training_rows.astype(str))
    shared = np.setdiff1d(everybody, groups)
    if not len(shared):
        return None
    least = parameters.get("min_cell", MIN_CELL)
    counts = _label_counts(shared, of_training_rows[held.rows].astype(str), held.label)
    # a small group could be one person's: its name is not shown
    large = [repr(group) for group, count in counts.items() if count.min() >= least]
    among = f", {' and '.join(large)} among them," if large else ""
    kind = "crossed groups" if attribute.get("crossed") else "groups"
    return (
        f"{len(shared)} of {len(everybody)} {kind} of {attribute['name']!r}{among} share one set "
        f"of thresholds, as some have fewer than {least} held-out rows of a label: their rates may "
        "differ by more than the tolerance, and so may those of a group that they are a large part "
        "of"
    )


def _by_group(
    parameters: Mapping[str, Any], p: Float, label: Int, groups: Str, threshold: str | None
) -> GroupRule:
    """Thresholds for each group, of rows with probabilities `p`."""
    from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds, fit_group_thresholds

    equal = parameters["decision"]["equal"]
    attribute = parameters["attribute"]
    costs = parameters["decision"]["costs"]
    if costs is None:
        share = float(label.mean())
        balanced = {"false_positive": share, "false_negative": 1.0 - share}
        costs = balanced
        if threshold == "max_accuracy":
            costs = {"false_positive": 1.0, "false_negative": 1.0}
        if threshold == "observed":
            # the costs for which one threshold for all would keep the observed share
            cut = choose_threshold(p, label, threshold="observed").threshold
            cut = min(max(float(cut or 0.0), LEAST_COST), 1.0 - LEAST_COST)
            costs = {"false_positive": cut, "false_negative": 1.0 - cut}

    def fit(by_group: Str) -> GroupThresholds:
        return fit_group_thresholds(
            p,
            label,
            by_group,
            attribute=attribute["name"],
            criterion=equal["criterion"],
            tolerance=equal["tolerance"],
            **costs,
            favourable=parameters.get("favourable", 1),
            smoothing=equal.get("smoothing", 0.0),
        )

    thresholds = fit(groups)
    parts = attribute.get("crossed", ())
    if not parts and OTHER_GROUPS in thresholds.thresholds:
        # so that the rule knows which groups share them
        parts = (attribute,)
    if attribute.get("crossed") and OTHER_GROUPS not in thresholds.thresholds:
        # a combination that no training row has is decided as everybody would be by one rule
        of_all = fit(np.full(len(p), OTHER_GROUPS)).thresholds
        thresholds = replace(thresholds, thresholds={**thresholds.thresholds, **of_all})
    criterion = equal["criterion"].replace("_", " ")
    bins = None
    if attribute["bins"] is not None:
        bins = tuple(attribute["bins"])
    return GroupRule(
        attribute["name"],
        thresholds,
        f"{criterion} by {attribute['name']} within {equal['tolerance']:g}",
        derive_seed(parameters["seed"], "decision"),
        bins,
        tuple(attribute["names"]),
        tuple(map(AttributeGroups.from_json, parts)),
    )
