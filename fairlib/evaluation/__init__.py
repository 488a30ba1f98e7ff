"""Metrics of a classifier with intervals, gates, audits, certificates and drift.

Group metrics follow from counts per group, label and prediction. Where a count is too small, a
metric is "insufficient evidence" and has no number. Gates turn an evaluation into one verdict.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.certificates import Certificate, certify
    from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
    from evenhand.fairlib.evaluation.gates import Decision, Gate, GateResult, decide, parse_gates
    from evenhand.fairlib.evaluation.group_audit import GroupAudit, audit
    from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds, fit_group_thresholds
    from evenhand.fairlib.evaluation.outcomes import Outcomes
    from evenhand.fairlib.evaluation.paired import Comparison, compare
    from evenhand.fairlib.evaluation.predictions import PredictionAudit, audit_predictions
    from evenhand.fairlib.evaluation.transport_adversary import TransportAudit, transport_audit

__all__ = [
    "audit",
    "audit_predictions",
    "Certificate",
    "certify",
    "compare",
    "Comparison",
    "decide",
    "Decision",
    "Evaluation",
    "fit_group_thresholds",
    "Gate",
    "GateResult",
    "GroupAudit",
    "GroupThresholds",
    "MetricValue",
    "Outcomes",
    "parse_gates",
    "PredictionAudit",
    "transport_audit",
    "TransportAudit",
]

if not TYPE_CHECKING:
    _MODULES = {
        "audit": "evenhand.fairlib.evaluation.group_audit",
        "audit_predictions": "evenhand.fairlib.evaluation.predictions",
        "Certificate": "evenhand.fairlib.evaluation.certificates",
        "certify": "evenhand.fairlib.evaluation.certificates",
        "compare": "evenhand.fairlib.evaluation.paired",
        "Comparison": "evenhand.fairlib.evaluation.paired",
        "decide": "evenhand.fairlib.evaluation.gates",
        "Decision": "evenhand.fairlib.evaluation.gates",
        "Evaluation": "evenhand.fairlib.evaluation.evaluate",
        "fit_group_thresholds": "evenhand.fairlib.evaluation.group_thresholds",
        "Gate": "evenhand.fairlib.evaluation.gates",
        "GateResult": "evenhand.fairlib.evaluation.gates",
        "GroupAudit": "evenhand.fairlib.evaluation.group_audit",
        "GroupThresholds": "evenhand.fairlib.evaluation.group_thresholds",
        "MetricValue": "evenhand.fairlib.evaluation.evaluate",
        "Outcomes": "evenhand.fairlib.evaluation.outcomes",
        "parse_gates": "evenhand.fairlib.evaluation.gates",
        "PredictionAudit": "evenhand.fairlib.evaluation.predictions",
        "transport_audit": "evenhand.fairlib.evaluation.transport_adversary",
        "TransportAudit": "evenhand.fairlib.evaluation.transport_adversary",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
