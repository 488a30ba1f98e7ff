r"""Every metric, described once: pages, command line, gates, docs, MLflow and Prefect artifacts
read it here.

A flat metric name is a catalogue name (``auc``), or a catalogue name, a dot and a subject
(``gap_max.sex``, ``gap_max.sex&race``, ``consistency.spouse``, ``psi.age``).

Sources: Vargo = Vargo et al., "Individually Fair Gradient Boosting", ICLR 2021; Yurochkin =
Yurochkin and Sun, "SenSeI", ICLR 2021; Deng = Deng et al., "Balanced Filtering via Non-Disclosive
Proxies", 2023; Hardt = Hardt et al., "Equality of opportunity in supervised learning", NeurIPS
2016; Speicher = Speicher et al., KDD 2018; Brier = Brier, Monthly Weather Review 1950; Kumar =
Kumar et al., "Verified Uncertainty Calibration", NeurIPS 2019; Carlini = Carlini et al.,
"Membership Inference Attacks From First Principles", IEEE S&P 2022.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

TOKEN_METRICS = ("token_gap", "token_gap_p95", "subgroup_auc_min", "bpsn_auc_min", "bnsp_auc_min")
EXCHANGED = ("token_gap", "token_gap_p95", "consistency")
"""Metrics of counterfactual tokens that need no true label."""
Direction = Literal["higher", "lower"]
Kind = Literal["classifier", "proxy", "drift"]
Subject = Literal["", "attribute", "counterfactual", "column", "class"]

MIN_DRAWS = 20
"""Fewest bootstrap draws, other than none: an interval from fewer draws has hardly any information.
"""

# How a subject is written in lists of metrics.
PLACEHOLDERS = {
    "attribute": "<attr>",
    "counterfactual": "<name>",
    "column": "<column>",
    "class": "<class>",
}


@dataclass(frozen=True)
class MetricInfo:
    """One metric."""

    # in jobs, gates, ``metrics.json`` and MLflow; a metric with a subject has it after a dot
    name: str
    title: str  # the field's term, in a few words
    # one sentence; ``{subject}`` stands for the attribute, set of copies or column
    explanation: str
    direction: Direction | None  # which is better; None for numbers that only inform
    compares: str  # whose or what numbers it compares
    formula: str
    source: str = ""
    # smallest and largest possible value; None where there is no limit
    domain: tuple[float | None, float | None] = (0.0, 1.0)
    unit: str = "share"
    # what stands after the dot: nothing, an attribute, a set of counterfactual copies, a column, a
    # class
    subject: Subject = ""
    kind: Kind = "classifier"  # what it measures
    any_classes: bool = False  # whether it is defined for a label of more than two values
    of_groups: bool = False  # whether it compares the groups of an attribute

    @property
    def pattern(self) -> str:
        """Name with a placeholder for its subject, such as ``gap_max.<attr>``."""
        return f"{self.name}.{PLACEHOLDERS[self.subject]}" if self.subject else self.name


def _auc_of_terms(name: str, whose: str, rows: str) -> MetricInfo:
    """AUC of the worst term of a list."""
    return MetricInfo(
        name=name,
        title=f"AUC of {whose}, worst term",
        explanation=f"The smallest AUC, over the terms of “{{subject}}”, of {rows}.",
        direction="higher",
        compares="sentences by term and label",
        formula="min over terms of P(s⁺ > s⁻) + P(s⁺ = s⁻) / 2",
        source="Borkan et al., WWW 2019",
        unit="probability",
        subject="counterfactual",
    )


def _gap(
    name: str, title: str, explanation: str, formula: str, source: str, *, any_classes: bool = False
) -> MetricInfo:
    """Difference between groups of a sensitive attribute."""
    return MetricInfo(
        name=name,
        title=title,
        explanation=explanation,
        direction="lower",
        compares="groups of the attribute",
        formula=formula,
        source=source,
        unit="difference of shares",
        subject="attribute",
        any_classes=any_classes,
        of_groups=True,
    )


def _ends(
    name: str, title: str, explanation: str, direction: Direction, formula: str, **others: Any
) -> tuple[MetricInfo, MetricInfo]:
    """Both ends of a quantity of comparable treatment: what a search found, and what is proved."""

    def _end(key: str, condition: str) -> MetricInfo:
        return MetricInfo(
            name=f"certificate.{name}.{key}",
            title=f"{title} ({key})",
            explanation=f"{explanation}, {condition}.",
            direction=direction,
            compares="a person and all comparable points",
            formula=formula,
            **others,
        )

    return (
        _end("found", "the lower bound of a search"),
        _end("proved", "as proved for all comparable points in the range"),
    )


_CLASSIFIER = (
    MetricInfo(
        name="accuracy",
        title="Accuracy",
        explanation="The share of people whose predicted label is their true label.",
        direction="higher",
        compares="predicted and true labels",
        formula="P(ŷ = y)",
        any_classes=True,
    ),
    MetricInfo(
        name="balanced_accuracy",
        title="Balanced accuracy",
        explanation=(
            "The mean over the labels of the share of their people that is predicted right, so "
            "that the rarer label counts as much as the commoner one; of two labels these are the "
            "true negative and the true positive rate."
        ),
        direction="higher",
        compares="predicted and true labels",
        formula="mean over y of P(ŷ = y | y)",
        any_classes=True,
    ),
    MetricInfo(
        name="auc",
        title="Area under the ROC curve",
        explanation=(
            "The probability that a positive person has a higher score than a negative one, ties "
            "counting half; random scores give 0.5."
        ),
        direction="higher",
        compares="scores of positives and negatives",
        formula="P(score⁺ > score⁻) + P(score⁺ = score⁻) / 2",
    ),
    MetricInfo(
        name="log_loss",
        title="Log loss",
        explanation=(
            "The mean of −ln of the probability that the model gives to the true label; a "
            "probability below 2.2e-16 counts as that."
        ),
        direction="lower",
        compares="probabilities and true labels",
        formula="mean of −ln p(y)",
        source="scikit-learn",
        domain=(0.0, None),
        unit="nats",
        any_classes=True,
    ),
    MetricInfo(
        name="log_loss_gain",
        title="Log loss gain over the base rate",
        explanation=(
            "How much lower the log loss is than that of giving everybody the share of positives "
            "of these rows; a model at or below 0 has no skill over the base rate."
        ),
        direction="higher",
        compares="the model's log loss and that of the base rate",
        formula="−ȳ ln ȳ − (1 − ȳ) ln(1 − ȳ) − log loss",
        domain=(None, 0.6931471805599453),
        unit="nats",
    ),
    MetricInfo(
        name="brier",
        title="Brier score",
        explanation=(
            "The mean squared difference between the probability of a positive label and the label."
        ),
        direction="lower",
        compares="probabilities and true labels",
        formula="mean of (p − y)²",
        source="Brier",
        unit="squared probability",
    ),
    MetricInfo(
        name="ece",
        title="Expected calibration error",
        explanation=(
            "The mean difference between the probability and the share of positives over ten bins "
            "of equal row count, less the part that chance alone would give."
        ),
        direction="lower",
        compares="probabilities and shares of positives in bins",
        formula=(
            "max(0, Σ over bins of w (2|d| − E|N(d, s)|)), d = mean p − mean y, s = √(Σ p (1 − p))"
            " / rows"
        ),
        source="Kumar",
        unit="probability",
    ),
    MetricInfo(
        name="recall",
        title="Recall",
        explanation="The share of the people with the label {subject} that is predicted right.",
        direction="higher",
        compares="predicted and true labels",
        formula="P(ŷ = y | y)",
        subject="class",
        any_classes=True,
    ),
    MetricInfo(
        name="consistency",
        title="Counterfactual consistency",
        explanation=(
            "The share of people with the same predicted label on every counterfactual copy "
            "“{subject}” of their row, as the job defines the copies."
        ),
        direction="higher",
        compares="counterfactual copies of one person",
        formula="P(ŷ(x′) equal for all copies x′ of x)",
        source="Vargo, appendix C.2",
        subject="counterfactual",
        any_classes=True,
    ),
    _gap(
        name="gap_max",
        title="Largest gap in error rates",
        explanation=(
            "The largest difference, of any label, between groups by {subject} in the share of the"
            " label's people that is predicted right; of two labels these are the true negative "
            "and true positive rate."
        ),
        formula=(
            "max over y of Gapᵧ, Gapᵧ = max over groups g, h of |P(ŷ = y | y, g) − P(ŷ = y | y, h)|"
        ),
        source="Vargo, appendix C.2",
        any_classes=True,
    ),
    _gap(
        name="gap_rms",
        title="Root-mean-square gap in error rates",
        explanation=(
            "The root mean square over the labels of the largest difference between groups by "
            "{subject} in the share of the label's people that is predicted right."
        ),
        formula="√(mean over y of Gapᵧ²)",
        source="Vargo, appendix C.2",
        any_classes=True,
    ),
    _gap(
        name="demographic_parity_difference",
        title="Demographic parity difference",
        explanation=(
            "The largest difference of the selection rate, the share predicted to get the "
            "favourable outcome, between groups by {subject}."
        ),
        formula="max over g, h of |P(ŷ = favourable | g) − P(ŷ = favourable | h)|",
        source="Fairlearn",
    ),
    MetricInfo(
        name="impact_ratio",
        title="Impact ratio",
        explanation=(
            "The lowest selection rate (share predicted to get the favourable outcome) of a group "
            "by {subject} over the highest; less than 0.8, four fifths, counts as evidence of "
            "adverse impact."
        ),
        direction="higher",
        compares="groups of the attribute",
        formula="min over g of P(ŷ = favourable | g) / max over g of P(ŷ = favourable | g)",
        source="29 CFR 1607.4 D",
        unit="ratio of shares",
        subject="attribute",
        of_groups=True,
    ),
    _gap(
        name="equal_opportunity_difference",
        title="Equal opportunity difference",
        explanation=(
            "The largest difference between groups by {subject} in the share of the people with "
            "the favourable label who are predicted so: of the true positive rate, where the "
            "positive label is favourable."
        ),
        formula="max over g, h of |P(ŷ = y | y = favourable, g) − P(ŷ = y | y = favourable, h)|",
        source="Hardt",
    ),
    _gap(
        name="average_odds_difference",
        title="Average odds difference",
        explanation=(
            "The mean over the labels of the largest difference between groups by {subject} in the"
            " share of the label's people that is predicted right; of two labels these are the "
            "differences of the true and of the false positive rate."
        ),
        formula="mean over y of Gapᵧ; of two labels (max |ΔTPR| + max |ΔFPR|) / 2",
        source="AIF360's average_abs_odds_difference",
        any_classes=True,
    ),
    _gap(
        name="balanced_accuracy_difference",
        title="Balanced accuracy difference",
        explanation="The largest difference of balanced accuracy between groups by {subject}.",
        formula="max over g, h of |BA(g) − BA(h)|",
        source="FAIAS, section 6.6",
        any_classes=True,
    ),
    MetricInfo(
        name="calibration_gap",
        title="Calibration gap",
        explanation=(
            "The largest difference between groups by {subject} of the mean probability less the "
            "share of positives: how much more the model overestimates one group than another."
        ),
        direction="lower",
        compares="groups of the attribute",
        formula="max over g, h of |(mean p − mean y | g) − (mean p − mean y | h)|",
        domain=(0.0, 2.0),
        unit="probability",
        subject="attribute",
        of_groups=True,
    ),
    MetricInfo(
        name="theil_index",
        title="Theil index of benefits",
        explanation=(
            "How unequally the benefit, prediction − label + 1, is spread over people, where 1 is "
            "the favourable outcome; 0 is equal."
        ),
        direction="lower",
        compares="benefits of all people",
        formula="mean of (b / μ) ln(b / μ), b = ŷ − y + 1, μ its mean",
        source="Speicher",
        domain=(0.0, None),
        unit="nats",
    ),
    MetricInfo(
        name="token_gap",
        title="Counterfactual token gap",
        explanation=(
            "The mean absolute difference between the probability of a sentence and that of its "
            "copies with another term of “{subject}”, over all sentences with a term and all other"
            " terms."
        ),
        direction="lower",
        compares="a sentence and its copies with another term",
        formula=(
            "mean of |p(x′) − p(x)|; of more than two labels half of Σ over y of |pᵧ(x′) − pᵧ(x)|"
        ),
        source="Garg et al., AIES 2019",
        unit="probability",
        subject="counterfactual",
        any_classes=True,
    ),
    MetricInfo(
        name="token_gap_p95",
        title="Counterfactual token gap, 95th percentile",
        explanation=(
            "The absolute difference between the probability of a sentence and that of a copy with"
            " another term of “{subject}” that 95 % of all such pairs do not exceed."
        ),
        direction="lower",
        compares="a sentence and its copies with another term",
        formula="95th percentile of |p(x′) − p(x)|",
        source="Garg et al., AIES 2019",
        unit="probability",
        subject="counterfactual",
        any_classes=True,
    ),
    _auc_of_terms(
        name="subgroup_auc_min",
        whose="sentences with a term",
        rows="the sentences that mention a term",
    ),
    _auc_of_terms(
        name="bpsn_auc_min",
        whose="negatives with a term",
        rows=(
            "negative sentences that mention a term and positive ones that do not: small where "
            "harmless mentions get high scores"
        ),
    ),
    _auc_of_terms(
        name="bnsp_auc_min",
        whose="positives with a term",
        rows=(
            "positive sentences that mention a term and negative ones that do not: small where "
            "harmful mentions get low scores"
        ),
    ),
    MetricInfo(
        name="certificate.dif",
        title="Output change under comparable treatment",
        explanation=(
            "The largest mean squared change of a network's logits that a search found when people"
            " may move to comparable points within the stated mean squared fair distance."
        ),
        direction="lower",
        compares="a person and comparable points",
        formula="sup over moves with mean d²(x, x′) ≤ ε of mean ‖h(x) − h(x′)‖²",
        source="Yurochkin, eq. 2.2",
        domain=(0.0, None),
        unit="squared logits",
    ),
    *_ends(
        name="dif",
        title="Output change under comparable treatment",
        explanation=(
            "The largest mean squared change of a network's logits within the stated mean squared "
            "fair distance"
        ),
        direction="lower",
        formula="sup over moves with mean d²(x, x′) ≤ ε of mean ‖h(x) − h(x′)‖²",
        source="Yurochkin, eq. 2.2",
        domain=(0.0, None),
        unit="squared logits",
    ),
    *_ends(
        name="score",
        title="Largest change of anybody's score",
        explanation=(
            "The largest change of the score of any one person within a fair distance of √ε"
        ),
        direction="lower",
        formula="max over x and d(x, x′) ≤ √ε of |p(x) − p(x′)|",
        unit="difference of probabilities",
    ),
    *_ends(
        name="flips",
        title="Decisions changed among all comparable points",
        explanation=(
            "The largest share of people whose decision changes within the stated mean squared "
            "fair distance"
        ),
        direction="lower",
        formula=(
            "max of |S| / n over sets S with Σ over i in S of d²(xᵢ, nearest x′ with ŷ(x′) ≠ ŷᵢ) ≤"
            " n ε"
        ),
    ),
    *_ends(
        name="radius",
        title="Fair distance within which no decision changes",
        explanation=(
            "The median over people of the fair distance to the nearest comparable point with "
            "another decision"
        ),
        direction="higher",
        formula="median of d(xᵢ, nearest x′ with ŷ(x′) ≠ ŷᵢ)",
        domain=(0.0, None),
        unit="fair distance",
    ),
    *_ends(
        name="loss",
        title="Loss increase among all comparable points",
        explanation=(
            "The largest rise of the mean log loss within the stated mean squared fair distance"
        ),
        direction="lower",
        formula="max over moves with mean d²(x, x′) ≤ ε of mean loss(x′, y) − mean loss(x, y)",
        domain=(0.0, None),
        unit="nats",
    ),
    MetricInfo(
        name="certificate.drf",
        title="Loss increase among the given people",
        explanation=(
            "How much the mean loss rises when every person may be treated as another given person"
            " within the stated mean squared fair distance; among arbitrary people the rise can be"
            " larger, see certificate.loss. It depends on the scale of the scores, so scores "
            "shrunken towards one value look better."
        ),
        direction="lower",
        compares="a person and other given people",
        formula="max over plans with mean d²(xᵢ, xⱼ) ≤ ε of mean loss(xⱼ, yᵢ) − mean loss(xᵢ, yᵢ)",
        source="Vargo, eq. 2.5",
        domain=(0.0, None),
        unit="nats",
    ),
    MetricInfo(
        name="certificate.flips",
        title="Decisions changed under comparable treatment",
        explanation=(
            "The largest share of people whose decision changes when every person may be treated "
            "as another given person within the stated mean squared fair distance; it does not "
            "depend on the scale of the scores, and among arbitrary people the share can be "
            "larger."
        ),
        direction="lower",
        compares="a person and other given people",
        formula=(
            "max of |S| / n over sets S with Σ over i in S of d²(xᵢ, nearest xⱼ with ŷⱼ ≠ ŷᵢ) ≤ n ε"
        ),
    ),
    MetricInfo(
        name="certificate.drf_relative",
        title="Loss increase relative to no mitigation",
        explanation=(
            "The loss increase under comparable treatment divided by that of the learner without "
            "mitigation, whose probabilities are first drawn towards the base rate until its log "
            "loss is no better: below 1, the method reduces the increase by more than shrinking "
            "the scores would."
        ),
        direction="lower",
        compares="the model and its plain control",
        formula=(
            "drf(model) / drf(σ(t z + (1 − t) z̄)), z the plain log-odds, z̄ those of the base rate"
        ),
        domain=(0.0, None),
        unit="ratio",
    ),
    MetricInfo(
        name="probability_spread",
        title="Spread of the probabilities",
        explanation=(
            "How far the 5th and the 95th percentile of the predicted probabilities are apart: "
            "near 0, everybody gets the same answer, and gaps and certificates are small for that "
            "reason alone."
        ),
        direction=None,
        compares="people",
        formula="q₀.₉₅(p) − q₀.₀₅(p)",
        unit="difference of probabilities",
    ),
    MetricInfo(
        name="leak_suspected",
        title="Columns suspected of a leak",
        explanation=(
            "The number of model inputs that predict the label of the training rows almost "
            "perfectly."
        ),
        direction="lower",
        compares="model inputs and the label",
        formula="number of columns with an AUC of at least 0.98",
        domain=(0.0, None),
        unit="columns",
        any_classes=True,
    ),
    MetricInfo(
        name="features_asked",
        title="Features asked",
        explanation=(
            "The mean number of features that the model asks of a person before it predicts."
        ),
        direction="lower",
        compares="people",
        formula="mean number of questions",
        source="DADI",
        domain=(0.0, None),
        unit="features",
    ),
    MetricInfo(
        name="adversary_auc",
        title="Adversary's AUC",
        explanation=(
            "How well the strongest of three classifiers predicts the groups by {subject} from the "
            "features that the model asked of people, learned and measured on different test rows; "
            "0.5 is chance."
        ),
        direction="lower",
        compares="answers and groups",
        formula="largest cross-fitted AUC, mean over each group against the rest",
        subject="attribute",
    ),
    MetricInfo(
        name="metric_leak",
        title="Leak of the fair metric",
        explanation=(
            "How well the groups by {subject} can be predicted from what the fair metric leaves of "
            "the model inputs, or from the adapted columns that the model reads, given the "
            "legitimate columns; learned and measured on different test rows; 0.5 is chance."
        ),
        direction="lower",
        compares="fair metric and groups",
        formula="largest cross-validated AUC of a group against the rest: linear or by trees; of "
        "EXPLORE by the nearest people",
        subject="attribute",
    ),
    MetricInfo(
        name="adapted_consistency",
        title="Consistency on adapted copies",
        explanation=(
            "The share of people who get the same decision as each of their counterparts in the "
            "other groups, as the learned fair metric adapts their columns."
        ),
        direction="higher",
        compares="a person and adapted copies",
        formula="share of people with ŷ(x) = ŷ(x′) for every adapted copy x′",
        domain=(0.0, 1.0),
    ),
    MetricInfo(
        name="reasons_kept",
        title="Reasons kept under comparable moves",
        explanation=(
            "How many of the columns that moved a prediction most are also those of the same "
            "person with another value of a sensitive attribute; the changed columns themselves do"
            " not count."
        ),
        direction="higher",
        compares="a person and changed copies",
        formula="mean over people and copies of |reasons(x) and reasons(x′)| / |reasons(x)|",
    ),
    MetricInfo(
        name="membership_auc",
        title="Membership inference AUC",
        explanation=(
            "How well an attacker with shadow models separates the model's training rows from test "
            "rows: the probability that a training row gets a higher score than a test row; 0.5 is"
            " chance."
        ),
        direction="lower",
        compares="training and test rows",
        formula=(
            "larger AUC of ln N(φ; μ_in, σ²_in) − ln N(φ; μ_out, σ²_out) and (φ − μ_out) / σ_out"
        ),
        source="Carlini",
    ),
)

_PROXY = (
    MetricInfo(
        name="disclosivity",
        title="Disclosivity",
        explanation=(
            "The largest difference between a group's share within a proxy group and among all "
            "rows; proxy groups of too few rows are left out."
        ),
        direction="lower",
        compares="proxy groups and all rows",
        formula="max over proxy groups j and groups k of |Aⱼₖ − rₖ|",
        source="Deng, definition 5",
        kind="proxy",
    ),
    MetricInfo(
        name="disclosivity_of_probability",
        title="Disclosivity of the acceptance probability",
        explanation=(
            "The largest difference between a group's share among rows of one acceptance "
            "probability and its share among all rows; probabilities that few rows have are left "
            "out."
        ),
        direction="lower",
        compares="rows of one acceptance probability and all rows",
        formula="max over probabilities p and groups k of |P(k | p) − rₖ|",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance",
        title="Imbalance",
        explanation=(
            "The distance between the groups' shares among the rows that are kept and the target "
            "shares."
        ),
        direction="lower",
        compares="shares among kept rows and the target",
        formula="‖shares of kept rows − target‖₂",
        source="Deng, definition 2",
        domain=(0.0, 2**0.5),
        unit="distance of shares",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance_before",
        title="Imbalance before filtering",
        explanation=(
            "The distance between the groups' shares among all rows and the target shares, for "
            "comparison."
        ),
        direction=None,
        compares="shares among all rows and the target",
        formula="‖shares of all rows − target‖₂",
        source="Deng, definition 2",
        domain=(0.0, 2**0.5),
        unit="distance of shares",
        kind="proxy",
    ),
    MetricInfo(
        name="smallest_growth",
        title="Growth of the rarest group",
        explanation=(
            "How many times larger the share of the group that was rarest in the training rows is "
            "among the rows that are kept."
        ),
        direction="higher",
        compares="kept rows and all rows",
        formula="share among kept rows / share among all rows",
        domain=(0.0, None),
        unit="times",
        kind="proxy",
    ),
    MetricInfo(
        name="smallest_share",
        title="Share of the rarest group",
        explanation=(
            "The share of the group that was rarest in the training rows among the rows that are "
            "kept."
        ),
        direction="higher",
        compares="kept rows",
        formula="P(rarest group | kept)",
        kind="proxy",
    ),
    MetricInfo(
        name="kept",
        title="Share of rows kept",
        explanation="The share of all rows that is expected to be kept.",
        direction="higher",
        compares="kept rows and all rows",
        formula="mean acceptance probability",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance_reduction",
        title="Imbalance removed",
        explanation=(
            "The share of the imbalance of all rows that filtering removes: 0 if it balances "
            "nothing, below 0 if the kept rows are farther from the target."
        ),
        direction="higher",
        compares="kept rows and all rows",
        formula="1 − imbalance / imbalance_before",
        domain=(None, 1.0),
        kind="proxy",
    ),
    MetricInfo(
        name="support",
        title="People with a chance",
        explanation=(
            "The share of people whose acceptance probability is above a tenth of the mean."
        ),
        direction="higher",
        compares="all rows",
        formula="share of rows with p > 0.1 · mean p",
        kind="proxy",
    ),
    MetricInfo(
        name="support_none",
        title="People without a chance",
        explanation="The share of people whose acceptance probability is below 0.001.",
        direction="lower",
        compares="all rows",
        formula="share of rows with p < 0.001",
        kind="proxy",
    ),
    MetricInfo(
        name="support_size",
        title="Effective sample size",
        explanation=(
            "The effective sample size of the acceptance probabilities, as a share of all rows; 1 "
            "if all people have the same chance."
        ),
        direction="higher",
        compares="all rows",
        formula="(Σ p)² / (n Σ p²)",
        kind="proxy",
    ),
    MetricInfo(
        name="support_shift",
        title="Covariate shift within groups",
        explanation=(
            "How much the kept people of a group differ from all people of the group, for the "
            "group where they differ most: the chi-square divergence, which is 0 if all of its "
            "people have one chance."
        ),
        direction="lower",
        compares="all rows of a group",
        formula="max over groups k of nₖ Σ p² / (Σ p)² − 1",
        domain=(0.0, None),
        unit="divergence",
        kind="proxy",
    ),
    MetricInfo(
        name="disclosivity.train",
        title="Disclosivity on the training rows",
        explanation="The disclosivity on the training rows, which the limit alpha is about.",
        direction="lower",
        compares="proxy groups and all rows",
        formula="max over j, k of |Aⱼₖ − rₖ| on training rows",
        source="Deng, definition 5",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance.train",
        title="Imbalance on the training rows",
        explanation="The imbalance on the training rows.",
        direction="lower",
        compares="shares among kept rows and the target",
        formula="‖shares of kept rows − target‖₂ on training rows",
        source="Deng, definition 2",
        domain=(0.0, 2**0.5),
        unit="distance of shares",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance.excess",
        title="Imbalance beyond that on the training rows",
        explanation=(
            "How much larger the imbalance is on held-out rows than on the training rows: large if "
            "the proxy groups fit the training rows only."
        ),
        direction="lower",
        compares="held-out rows and training rows",
        formula="imbalance − imbalance.train",
        domain=(-(2**0.5), 2**0.5),
        unit="distance of shares",
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance_reduction.possible",
        title="Imbalance that could be removed",
        explanation=(
            "The share of the imbalance of the training rows that the best sample of the same proxy"
            " groups would remove, if no imbalance were given up for support."
        ),
        direction=None,
        compares="kept rows and all rows",
        formula="1 − min over q of ‖q A − target‖₂ / ‖shares of all rows − target‖₂, training rows",
        source="Deng, algorithm 1",
        domain=(0.0, 1.0),
        kind="proxy",
    ),
    MetricInfo(
        name="imbalance_reduction.of_possible",
        title="Imbalance removed, as a share of what is possible",
        explanation=(
            "The imbalance that is removed on held-out rows, divided by what could be removed on "
            "the training rows."
        ),
        direction="higher",
        compares="held-out rows and training rows",
        formula="imbalance_reduction / imbalance_reduction.possible",
        domain=(None, None),
        kind="proxy",
    ),
)

_ROWS = "new rows and training rows"
_DRIFT = (
    MetricInfo(
        name="psi_max",
        title="Largest population stability index",
        explanation="The largest population stability index of a model input.",
        direction="lower",
        compares=_ROWS,
        formula="max over columns of psi",
        domain=(0.0, None),
        unit="index",
        kind="drift",
    ),
    MetricInfo(
        name="psi",
        title="Population stability index",
        explanation=(
            "The population stability index of {subject}: the difference between its distribution "
            "in the new rows and in the training rows."
        ),
        direction="lower",
        compares=_ROWS,
        formula="Σ over bins of (p − q) ln(p / q)",
        domain=(0.0, None),
        unit="index",
        subject="column",
        kind="drift",
    ),
    MetricInfo(
        name="p_value",
        title="P-value of the change",
        explanation=(
            "The probability of such a difference in {subject} without drift (chi-square test, "
            "Holm's correction)."
        ),
        direction=None,
        compares=_ROWS,
        formula="P(χ² ≥ observed)",
        unit="probability",
        subject="column",
        kind="drift",
    ),
    MetricInfo(
        name="unseen_max",
        title="Largest share of unseen categories",
        explanation="The largest share of rows with a category that the training rows do not have.",
        direction="lower",
        compares=_ROWS,
        formula="max over columns of unseen",
        kind="drift",
    ),
    MetricInfo(
        name="unseen",
        title="Share of unseen categories",
        explanation=(
            "The share of rows with a category of {subject} that the training rows do not have."
        ),
        direction="lower",
        compares=_ROWS,
        formula="P(category not in training rows)",
        subject="column",
        kind="drift",
    ),
    MetricInfo(
        name="missing_change",
        title="Change of missing values",
        explanation="The absolute change of the share of missing values in {subject}.",
        direction="lower",
        compares=_ROWS,
        formula="|P(missing) now − then|",
        unit="difference of shares",
        subject="column",
        kind="drift",
    ),
    MetricInfo(
        name="outside_contract_max",
        title="Largest share outside the contract",
        explanation=(
            "The largest share of rows that break a rule of the contract about one model input."
        ),
        direction="lower",
        compares=_ROWS,
        formula="max over columns of outside_contract",
        kind="drift",
    ),
    MetricInfo(
        name="outside_contract",
        title="Share outside the contract",
        explanation="The share of rows that break a rule of the contract about {subject}.",
        direction="lower",
        compares=_ROWS,
        formula="P(value breaks a rule)",
        subject="column",
        kind="drift",
    ),
    MetricInfo(
        name="group_share_change",
        title="Change of group shares",
        explanation="The largest absolute change of the share of a group by {subject}.",
        direction="lower",
        compares=_ROWS,
        formula="max over groups of |P(g) now − then|",
        unit="difference of shares",
        subject="attribute",
        kind="drift",
    ),
    MetricInfo(
        name="label_rate_change",
        title="Change of the base rate",
        explanation=(
            "The absolute change of the share of positive labels; of more than two labels the "
            "largest."
        ),
        direction="lower",
        compares=_ROWS,
        formula="|P(y = 1) now − then|",
        unit="difference of shares",
        kind="drift",
    ),
    MetricInfo(
        name="label_rate_change",
        title="Change of base rates",
        explanation=(
            "The largest absolute change of the share of positive labels in a group by {subject}."
        ),
        direction="lower",
        compares=_ROWS,
        formula="max over groups of |P(y = 1 | g) now − then|",
        unit="difference of shares",
        subject="attribute",
        kind="drift",
    ),
    MetricInfo(
        name="prediction_rate",
        title="Share predicted positive",
        explanation="The share of rows that the model predicts positive.",
        direction=None,
        compares=_ROWS,
        formula="P(ŷ = 1)",
        kind="drift",
    ),
    MetricInfo(
        name="prediction_rate_change",
        title="Change of the share predicted positive",
        explanation=(
            "The absolute change of the share predicted positive since the test rows of the "
            "training run; of more than two labels the largest change of the share that gets a "
            "label."
        ),
        direction="lower",
        compares=_ROWS,
        formula="|P(ŷ = 1) now − then|",
        unit="difference of shares",
        kind="drift",
    ),
)

PROVED = tuple(info.name for info in _CLASSIFIER if info.name.endswith((".found", ".proved")))
"""Both ends of the quantities of which one is proved."""

ANY_CLASSES = frozenset(info.name for info in _CLASSIFIER if info.any_classes)
"""Names, without subjects, of the metrics for labels of more than two values."""

METRICS: dict[str, MetricInfo] = {info.pattern: info for info in (*_CLASSIFIER, *_PROXY, *_DRIFT)}
"""By pattern (``gap_max.<attr>``), in the order in which lists and evaluations have them."""

_BARE = {info.name: info for info in METRICS.values() if not info.subject}
_WITH_SUBJECT = {info.name: info for info in METRICS.values() if info.subject}


def describe(name: str) -> tuple[MetricInfo, str]:
    """Look a flat metric name up: its entry, and its subject ("" for none). KeyError for an unknown
    name.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.

    Returns
    -------
    tuple of MetricInfo and str
        Its entry, and its subject ("" for none).

    Raises
    ------
    KeyError
        If no metric has the name.

    Examples
    --------
    >>> describe("gap_max.sex")[1]
    'sex'
    """
    stem, dot, subject = name.partition(".")
    if name in _BARE:
        return _BARE[name], ""
    if dot and stem in _WITH_SUBJECT:
        return _WITH_SUBJECT[stem], subject
    raise KeyError(name)


def names_of(kind: Kind, *, any_classes: bool = False) -> list[str]:
    """Patterns of one kind of metric; with `any_classes` only those for labels of more than two
    values.

    Parameters
    ----------
    kind : Kind
        What the metrics measure.
    any_classes : bool, default False
        Whether to leave out metrics that need a label of two values.

    Returns
    -------
    list of str
        In the catalogue's order.
    """
    return [
        pattern
        for pattern, info in METRICS.items()
        if info.kind == kind and (info.any_classes or not any_classes)
    ]


def group_metrics(*, any_classes: bool = False) -> list[str]:
    """Names of the classifiers' metrics that compare the groups of an attribute, without the
    attribute.

    Parameters
    ----------
    any_classes : bool, default False
        Whether to leave out metrics that need a label of two values.

    Returns
    -------
    list of str
        In the catalogue's order.
    """
    return [
        info.name
        for info in _CLASSIFIER
        if info.of_groups and (info.any_classes or not any_classes)
    ]


def classifier_metrics(
    attributes: Iterable[str], classes: Sequence[Any] = (), copies: Iterable[str] = ()
) -> list[str]:
    """Flat names of the metrics of a classifier, without those of intersections and of
    counterfactual tokens.

    Parameters
    ----------
    attributes : iterable of str
        Sensitive attributes.
    classes : sequence
        Values of a label of more than two; none for two.
    copies : iterable of str
        Names of the sets of counterfactual copies.

    Returns
    -------
    list of str
        In the catalogue's order.

    Examples
    --------
    >>> names = classifier_metrics(["sex"], copies=["spouse"])
    >>> [name for name in names if name.startswith(("consistency", "impact"))]
    ['consistency.spouse', 'impact_ratio.sex']
    """
    any_classes = bool(classes)
    metrics = []
    for name in names_of("classifier", any_classes=any_classes):
        if "." not in name:
            metrics.append(name)
    metrics += [f"recall.{value}" for value in classes]
    metrics += [f"consistency.{name}" for name in copies]
    # the attributes of every metric stand together, and so they are listed once
    listed = list(attributes)
    for kind in group_metrics(any_classes=any_classes):
        metrics += [f"{kind}.{attribute}" for attribute in listed]
    return metrics


def term_metrics(lists: Iterable[str], *, any_classes: bool = False) -> list[str]:
    """Flat names of the metrics of counterfactual tokens, by their lists.

    Parameters
    ----------
    lists : iterable of str
        Names of the lists.
    any_classes : bool, default False
        Whether to leave out metrics that need a label of two values.

    Returns
    -------
    list of str
    """
    kinds = ["consistency"]
    for kind in TOKEN_METRICS:
        if kind in ANY_CLASSES or not any_classes:
            kinds.append(kind)
    metrics = []
    for name in lists:
        metrics += [f"{kind}.{name}" for kind in kinds]
    return metrics


def title(name: str) -> str:
    """Title of a flat metric name with its subject: "Largest gap in error rates by sex"; else the
    name.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.

    Returns
    -------
    str
        An unknown name stays as it is.

    Examples
    --------
    >>> title("gap_max.sex")
    'Largest gap in error rates by sex'
    """
    try:
        info, subject = describe(name)
    except KeyError:
        return name
    if not subject:
        return info.title
    preposition = {"attribute": "by", "counterfactual": "over"}.get(info.subject, "of")
    return f"{info.title} {preposition} {spoken(subject)}"


def spoken(subject: str) -> str:
    """Write a subject for readers: ``sex&personal_status`` as "sex and personal status".

    Parameters
    ----------
    subject : str
        Subject of a flat metric name.

    Returns
    -------
    str
        For readers.
    """
    return subject.replace("&", " and ").replace("_", " ").strip()


def direction(name: str) -> Direction | None:
    """Which way a metric is better; None for one that only informs, and for an unknown name.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.

    Returns
    -------
    Direction or None
        "higher", "lower" or None.
    """
    try:
        return describe(name)[0].direction
    except KeyError:
        return None


def better(name: str) -> Direction:
    """Say which way a metric is better.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.

    Returns
    -------
    Direction
        "higher" or "lower".

    Raises
    ------
    ValueError
        If the name is of no metric, or of one without a direction.
    """
    way = direction(name)
    if way is None:
        raise ValueError(f"metric: got {name!r}, {_why_no_direction(name)}")
    return way


def possible_gain(name: str, value: float) -> float:
    """Return by how much a metric could be better than a value.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.
    value : float

    Returns
    -------
    float
        Distance to its best possible value; infinite where there is none.

    Raises
    ------
    ValueError
        If the name is of no metric, or of one without a direction.

    Examples
    --------
    >>> possible_gain("gap_max.sex", 0.08), possible_gain("log_loss", 0.5)
    (0.08, 0.5)
    """
    way = better(name)
    low, high = describe(name)[0].domain
    end = low if way == "lower" else high
    if end is None:
        return math.inf
    return abs(value - end)


def _why_no_direction(name: str) -> str:
    """Say that a metric is not known, with the nearest name, or that it only informs."""
    try:
        describe(name)
    except KeyError:
        nearest = _nearest_name(name)
        guess = ""
        if nearest:
            guess = f" (did you mean {nearest!r}?)"
        return f"which is not known{guess}; `evenhand metrics` lists the names"
    return "which has no direction; `evenhand metrics` lists those that have one"


def _nearest_name(name: str) -> str:
    """Return the known name that is nearest to an unknown one; empty if none is near."""
    stem, _, subject = name.partition(".")
    for close in get_close_matches(stem, [*_BARE, *_WITH_SUBJECT], n=1):
        if close in _BARE:
            return close
        if subject:
            return f"{close}.{subject}"
        return _WITH_SUBJECT[close].pattern
    return ""


def better_or_worse(name: str, change: float) -> str:
    """Whether a change of a metric is better or worse; no word where it is neither.

    Parameters
    ----------
    name : str
        Flat metric name, such as ``gap_max.sex``.
    change : float
        New value less old value.

    Returns
    -------
    str
        "better", "worse" or "".
    """
    way = direction(name)
    if way is None or change == 0:
        return ""
    return "better" if (change > 0) == (way == "higher") else "worse"


def is_intersection(name: str, counts: Container[str]) -> bool:
    """Whether a metric or an attribute is of crossed attributes, such as 'sex&race'.

    Parameters
    ----------
    name : str
        Flat metric name, or name of an attribute.
    counts : sequence of str
        Names of the attributes, intersections not included.

    Returns
    -------
    bool
        True for two attributes or more.
    """
    parts = (name.partition(".")[2] or name).split("&")
    return len(parts) > 1 and all(part in counts for part in parts)


def attribute_names(attribute: str, known: Container[str]) -> tuple[str, ...]:
    """Names of the attributes that an attribute such as ``"sex&race"`` crosses.

    Parameters
    ----------
    attribute : str
    known : container of str
        Names of the attributes of a table.

    Returns
    -------
    tuple of str
        The attribute alone if it is known, crosses others than known ones, or one twice.

    Examples
    --------
    >>> attribute_names("sex&race", ["sex", "race"])
    ('sex', 'race')
    """
    parts = tuple(attribute.split("&"))
    is_repeated = len(set(parts)) < len(parts)
    if attribute in known or is_repeated or not is_intersection(attribute, known):
        return (attribute,)
    return parts


def without_intersections(metrics: Iterable[str], counts: Container[str]) -> list[str]:
    """Names of metrics that are not of crossed attributes.

    Parameters
    ----------
    metrics : sequence of str
        Flat metric names.
    counts : sequence of str
        Names of the attributes, intersections not included.

    Returns
    -------
    list of str
        In their order.
    """
    return [name for name in metrics if not is_intersection(name, counts)]
