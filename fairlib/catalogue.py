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

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, Literal

TOKEN_METRICS = ("token_gap", "token_gap_p95", "subgroup_auc_min", "bpsn_auc_min", "bnsp_auc_min")
EXCHANGED = ("token_gap", "token_gap_p95", "consistency")
"""Metrics of exchanged terms that need no label of the rows."""
Direction = Literal["higher", "lower"]
Kind = Literal["classifier", "proxy", "drift"]
Subject = Literal["", "attribute", "counterfactual", "column", "class"]

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

    name: str  # in jobs, gates, ``metrics.json`` and MLflow; a metric with a subject has it after a dot
    title: str  # the field's term, in a few words
    explanation: (
        str  # one sentence; ``{subject}`` stands for the attribute, set of copies or column
    )
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

    @property
    def pattern(self) -> str:
        """Name with a placeholder for its subject, such as ``gap_max.<attr>``."""
        return f"{self.name}.{PLACEHOLDERS[self.subject]}" if self.subject else self.name


def _auc_of_terms(name: str, whose: str, rows: str) -> MetricInfo:
    """AUC of the worst term of a list."""
    return MetricInfo(
        name, f"AUC of {whose}, worst term", f"The smallest AUC, over the terms of “{{subject}}”, of {rows}.",
        "higher", "sentences by term and label", "min over terms of P(s⁺ > s⁻) + P(s⁺ = s⁻) / 2",
        "Borkan et al., WWW 2019", subject="counterfactual", unit="probability",
    )  # fmt: skip


def _gap(
    name: str, title: str, explanation: str, formula: str, source: str, *, any_classes: bool = False
) -> MetricInfo:
    """Difference between groups of a sensitive attribute."""
    return MetricInfo(
        name, title, explanation, "lower", "groups of the attribute", formula, source, subject="attribute",
        unit="difference of shares", any_classes=any_classes,
    )  # fmt: skip


def _ends(
    name: str, title: str, explanation: str, direction: Direction, formula: str, **others: Any
) -> tuple[MetricInfo, MetricInfo]:
    """Both ends of a quantity of comparable treatment: what a search found, and what is proved."""
    words = {
        "found": "as a search found it",
        "proved": "as proved for all comparable points in the range",
    }
    found, proved = (
        MetricInfo(f"certificate.{name}.{end}", f"{title} ({end})", f"{explanation}, {said}.",
            direction, "a person and all comparable points", formula, **others)
        for end, said in words.items()
    )  # fmt: skip
    return found, proved


_CLASSIFIER = (
    MetricInfo("accuracy", "Accuracy",
        "The share of people whose predicted label is their true label.",
        "higher", "predicted and true labels", "P(ŷ = y)", any_classes=True),
    MetricInfo("balanced_accuracy", "Balanced accuracy",
        "The mean over the labels of the share of their people that is predicted right, so that "
        "the rarer "
        "label counts as much as the commoner one; of two labels these are the true negative and "
        "the true "
        "positive rate.",
        "higher", "predicted and true labels", "mean over y of P(ŷ = y | y)", any_classes=True),
    MetricInfo("auc", "Area under the ROC curve",
        "The probability that a positive person has a higher score than a negative one, ties "
        "counting half; "
        "random scores give 0.5.",
        "higher", "scores of positives and negatives", "P(score⁺ > score⁻) + P(score⁺ = score⁻) / 2"),
    MetricInfo("log_loss", "Log loss",
        "The mean of −ln of the probability that the model gives to the true label; a probability "
        "below "
        "2.2e-16 counts as that.",
        "lower", "probabilities and true labels", "mean of −ln p(y)",
        "scikit-learn", (0.0, None), "nats", any_classes=True),
    MetricInfo("log_loss_gain", "Log loss gain over the base rate",
        "How much lower the log loss is than that of giving everybody the share of positives of "
        "these rows; "
        "a model at or below 0 tells nothing about single people.",
        "higher", "the model's log loss and that of the base rate", "−ȳ ln ȳ − (1 − ȳ) ln(1 − ȳ) − log loss",
        "", (None, 0.6931471805599453), "nats"),
    MetricInfo("brier", "Brier score",
        "The mean squared difference between the probability of a positive label and the label.",
        "lower", "probabilities and true labels", "mean of (p − y)²",
        "Brier", unit="squared probability"),
    MetricInfo("ece", "Expected calibration error",
        "The mean difference between the probability and the share of positives over ten bins of "
        "equal row "
        "count, less the part that chance alone would give.",
        "lower", "probabilities and shares of positives in bins",
        "max(0, Σ over bins of w (2|d| − E|N(d, s)|)), d = mean p − mean y, s = √(Σ p (1 − p)) / "
        "rows",
        "Kumar", unit="probability"),
    MetricInfo("recall", "Recall",
        "The share of the people with the label {subject} that is predicted right.",
        "higher", "predicted and true labels", "P(ŷ = y | y)", subject="class", any_classes=True),
    MetricInfo("consistency", "Counterfactual consistency",
        "The share of people with the same predicted label on every counterfactual copy of their "
        "row that "
        "differs only in “{subject}”, as the job defines the copies.",
        "higher", "counterfactual copies of one person", "P(ŷ(x′) equal for all copies x′ of x)",
        "Vargo, appendix C.2", subject="counterfactual", any_classes=True),
    _gap("gap_max", "Largest gap in error rates",
        "The largest difference, of any label, between groups by {subject} in the share of the "
        "label's "
        "people that is predicted right; of two labels these are the true negative and true "
        "positive rate.",
        "max over y of Gapᵧ, Gapᵧ = max over groups g, h of |P(ŷ = y | y, g) − P(ŷ = y | y, h)|",
        "Vargo, appendix C.2", any_classes=True),
    _gap("gap_rms", "Root-mean-square gap in error rates",
        "The root mean square over the labels of the largest difference between groups by "
        "{subject} in the "
        "share of the label's people that is predicted right.",
        "√(mean over y of Gapᵧ²)", "Vargo, appendix C.2", any_classes=True),
    _gap("demographic_parity_difference", "Demographic parity difference",
        "The largest difference of the selection rate, the share predicted to get the favourable "
        "outcome, "
        "between groups by {subject}.",
        "max over g, h of |P(ŷ = favourable | g) − P(ŷ = favourable | h)|", "Fairlearn"),
    MetricInfo("impact_ratio", "Impact ratio",
        "The lowest selection rate (share predicted to get the favourable outcome) of a group by "
        "{subject} "
        "over the highest; less than 0.8, four fifths, counts as evidence of adverse impact.",
        "higher", "groups of the attribute",
        "min over g of P(ŷ = favourable | g) / max over g of P(ŷ = favourable | g)",
        "29 CFR 1607.4 D", unit="ratio of shares", subject="attribute"),
    _gap("equal_opportunity_difference", "Equal opportunity difference",
        "The largest difference between groups by {subject} in the share of the people with the "
        "favourable "
        "label who are predicted so: of the true positive rate, where the positive label is "
        "favourable.",
        "max over g, h of |P(ŷ = y | y = favourable, g) − P(ŷ = y | y = favourable, h)|", "Hardt"),
    _gap("average_odds_difference", "Average odds difference",
        "The mean over the labels of the largest difference between groups by {subject} in the "
        "share of the "
        "label's people that is predicted right; of two labels these are the differences of the "
        "true and of "
        "the false positive rate.",
        "mean over y of Gapᵧ; of two labels (max |ΔTPR| + max |ΔFPR|) / 2",
        "AIF360's average_abs_odds_difference", any_classes=True),
    _gap("balanced_accuracy_difference", "Balanced accuracy difference",
        "The largest difference of balanced accuracy between groups by {subject}.",
        "max over g, h of |BA(g) − BA(h)|", "FAIAS, section 6.6", any_classes=True),
    MetricInfo("calibration_gap", "Calibration gap",
        "The largest difference between groups by {subject} of the mean probability less the share "
        "of "
        "positives: how much more the model overestimates one group than another.",
        "lower", "groups of the attribute",
        "max over g, h of |(mean p − mean y | g) − (mean p − mean y | h)|",
        "", (0.0, 2.0), "probability", "attribute"),
    MetricInfo("theil_index", "Theil index of benefits",
        "How unequally the benefit, prediction − label + 1, is spread over people, where 1 is the "
        "favourable "
        "outcome; 0 is equal.",
        "lower", "benefits of all people", "mean of (b / μ) ln(b / μ), b = ŷ − y + 1, μ its mean",
        "Speicher", (0.0, None), "nats"),
    MetricInfo("token_gap", "Counterfactual token gap",
        "The mean absolute difference between the probability of a sentence and that of its copies "
        "with "
        "another term of “{subject}”, over all sentences with a term and all other terms.",
        "lower", "a sentence and its copies with another term",
        "mean of |p(x′) − p(x)|; of more than two labels half of Σ over y of |pᵧ(x′) − pᵧ(x)|",
        "Garg et al., AIES 2019", unit="probability", subject="counterfactual", any_classes=True),
    MetricInfo("token_gap_p95", "Counterfactual token gap, 95th percentile",
        "The absolute difference between the probability of a sentence and that of a copy with "
        "another term "
        "of “{subject}” that 95 % of all such pairs do not exceed.",
        "lower", "a sentence and its copies with another term", "95th percentile of |p(x′) − p(x)|",
        "Garg et al., AIES 2019", unit="probability", subject="counterfactual", any_classes=True),
    _auc_of_terms("subgroup_auc_min", "sentences with a term", "the sentences that mention a term"),
    _auc_of_terms("bpsn_auc_min", "negatives with a term",
        "negative sentences that mention a term and positive ones that do not: small where "
        "harmless mentions "
        "get high scores"),
    _auc_of_terms("bnsp_auc_min", "positives with a term",
        "positive sentences that mention a term and negative ones that do not: small where harmful "
        "mentions "
        "get low scores"),
    MetricInfo("certificate.dif", "Output change under comparable treatment",
        "The largest mean squared change of a network's logits that a search found when people may "
        "move to "
        "comparable points within the stated mean squared fair distance.",
        "lower", "a person and comparable points",
        "sup over moves with mean d²(x, x′) ≤ ε of mean ‖h(x) − h(x′)‖²",
        "Yurochkin, eq. 2.2", (0.0, None), "squared logits"),
    *_ends("dif", "Output change under comparable treatment",
        "The largest mean squared change of a network's logits within the stated mean squared fair "
        "distance",
        "lower",
        "sup over moves with mean d²(x, x′) ≤ ε of mean ‖h(x) − h(x′)‖²",
        source="Yurochkin, eq. 2.2", domain=(0.0, None), unit="squared logits"),
    *_ends("score", "Largest change of anybody's score",
        "The largest change of the score of any one person within a fair distance of √ε",
        "lower", "max over x and d(x, x′) ≤ √ε of |p(x) − p(x′)|",
        unit="difference of probabilities"),
    *_ends("flips", "Decisions changed among all comparable points",
        "The largest share of people whose decision changes within the stated mean squared fair "
        "distance",
        "lower",
        "max of |S| / n over sets S with Σ over i in S of d²(xᵢ, nearest x′ with ŷ(x′) ≠ ŷᵢ) ≤ n "
        "ε"),
    *_ends("radius", "Fair distance within which no decision changes",
        "The median over people of the fair distance to the nearest comparable point with another "
        "decision",
        "higher", "median of d(xᵢ, nearest x′ with ŷ(x′) ≠ ŷᵢ)",
        domain=(0.0, None), unit="fair distance"),
    *_ends("loss", "Loss increase among all comparable points",
        "The largest rise of the mean log loss within the stated mean squared fair distance",
        "lower", "max over moves with mean d²(x, x′) ≤ ε of mean loss(x′, y) − mean loss(x, y)",
        domain=(0.0, None), unit="nats"),
    MetricInfo("certificate.drf", "Loss increase among the given people",
        "How much the mean loss rises when every person may be treated as another given person "
        "within the "
        "stated mean squared fair distance; among arbitrary people the rise can be larger, see "
        "certificate.loss. It depends on the scale of the scores, so scores shrunken towards one "
        "value look "
        "better.",
        "lower", "a person and other given people",
        "max over plans with mean d²(xᵢ, xⱼ) ≤ ε of mean loss(xⱼ, yᵢ) − mean loss(xᵢ, yᵢ)",
        "Vargo, eq. 2.5", (0.0, None), "nats"),
    MetricInfo("certificate.flips", "Decisions changed under comparable treatment",
        "The largest share of people whose decision changes when every person may be treated as "
        "another "
        "given person within the stated mean squared fair distance; it does not depend on the "
        "scale of the "
        "scores, and among arbitrary people the share can be larger.",
        "lower", "a person and other given people",
        "max of |S| / n over sets S with Σ over i in S of d²(xᵢ, nearest xⱼ with ŷⱼ ≠ ŷᵢ) ≤ n ε"),
    MetricInfo("certificate.drf_relative", "Loss increase relative to no mitigation",
        "The loss increase under comparable treatment divided by that of the learner without "
        "mitigation, "
        "whose probabilities are first drawn towards the base rate until its log loss is no "
        "better: below 1, "
        "the method reduces the increase by more than shrinking the scores would.",
        "lower", "the model and its plain control",
        "drf(model) / drf(σ(t z + (1 − t) z̄)), z the plain log-odds, z̄ those of the base rate",
        "", (0.0, None), "ratio"),
    MetricInfo("probability_spread", "Spread of the probabilities",
        "How far the 5th and the 95th percentile of the predicted probabilities are apart: near 0, "
        "everybody "
        "gets the same answer, and gaps and certificates are small for that reason alone.",
        None, "people", "q₀.₉₅(p) − q₀.₀₅(p)",
        unit="difference of probabilities"),
    MetricInfo("leak_suspected", "Columns suspected of a leak",
        "The number of model inputs that tell the label of the training rows almost perfectly.",
        "lower", "model inputs and the label", "number of columns with an AUC of at least 0.98",
        "", (0.0, None), "columns", any_classes=True),
    MetricInfo("features_asked", "Features asked",
        "The mean number of features that the model asks of a person before it predicts.",
        "lower", "people", "mean number of questions",
        "DADI", (0.0, None), "features"),
    MetricInfo("adversary_auc", "Adversary's AUC",
        "How well the strongest of three classifiers tells the groups by {subject} from what the "
        "model asked "
        "of people, learned and measured on different test rows; 0.5 is chance.",
        "lower", "answers and groups",
        "largest cross-fitted AUC, mean over each group against the rest",
        subject="attribute"),
    MetricInfo("reasons_kept", "Reasons kept under comparable moves",
        "How many of the columns that moved a prediction most are also those of the same person "
        "with "
        "another value of a sensitive attribute; the changed columns themselves do not count.",
        "higher", "a person and changed copies",
        "mean over people and copies of |reasons(x) and reasons(x′)| / |reasons(x)|"),
    MetricInfo("membership_auc", "Membership inference AUC",
        "How well an attacker with shadow models tells the model's training rows from test rows: "
        "the "
        "probability that a training row gets a higher score than a test row; 0.5 is chance.",
        "lower", "training and test rows",
        "larger AUC of ln N(φ; μ_in, σ²_in) − ln N(φ; μ_out, σ²_out) and (φ − μ_out) / σ_out", "Carlini"),
)  # fmt: skip

_PROXY = tuple(
    MetricInfo(*entry, kind="proxy")  # type: ignore[arg-type, misc]
    for entry in (
        ("disclosivity", "Disclosivity",
            "The largest difference between a group's share within a proxy group and among all "
            "rows; "
            "proxy groups of too few rows are left out.",
            "lower", "proxy groups and all rows", "max over proxy groups j and groups k of |Aⱼₖ − rₖ|",
            "Deng, definition 5"),
        ("disclosivity_of_probability", "Disclosivity of the acceptance probability",
            "The largest difference between a group's share among rows of one acceptance "
            "probability and its "
            "share among all rows; probabilities that few rows have are left out.",
            "lower", "rows of one acceptance probability and all rows",
            "max over probabilities p and groups k of |P(k | p) − rₖ|"),
        ("imbalance", "Imbalance",
            "The distance between the groups' shares among the rows that are kept and the target "
            "shares.",
            "lower", "shares among kept rows and the target", "‖shares of kept rows − target‖₂",
            "Deng, definition 2", (0.0, 2**0.5), "distance of shares"),
        ("imbalance_before", "Imbalance before filtering",
            "The distance between the groups' shares among all rows and the target shares, for "
            "comparison.",
            None, "shares among all rows and the target", "‖shares of all rows − target‖₂",
            "Deng, definition 2", (0.0, 2**0.5), "distance of shares"),
        ("smallest_growth", "Growth of the rarest group",
            "How many times larger the share of the group that was rarest in the training rows is "
            "among the "
            "rows that are kept.",
            "higher", "kept rows and all rows", "share among kept rows / share among all rows",
            "", (0.0, None), "times"),
        ("smallest_share", "Share of the rarest group",
            "The share of the group that was rarest in the training rows among the rows that are "
            "kept.",
            "higher", "kept rows", "P(rarest group | kept)"),
        ("kept", "Share of rows kept",
            "The share of all rows that is expected to be kept.",
            "higher", "kept rows and all rows", "mean acceptance probability"),
        ("imbalance_reduction", "Imbalance removed",
            "The share of the imbalance of all rows that filtering removes: 0 if it balances "
            "nothing, below "
            "0 if the kept rows are farther from the target.",
            "higher", "kept rows and all rows", "1 − imbalance / imbalance_before",
            "", (None, 1.0), "share"),
        ("support", "People with a chance",
            "The share of people whose acceptance probability is above a tenth of the mean.",
            "higher", "all rows", "share of rows with p > 0.1 · mean p"),
        ("support_none", "People without a chance",
            "The share of people whose acceptance probability is below 0.001.",
            "lower", "all rows", "share of rows with p < 0.001"),
        ("support_size", "Effective sample size",
            "The effective sample size of the acceptance probabilities, as a share of all rows; 1 "
            "if all "
            "people have the same chance.",
            "higher", "all rows", "(Σ p)² / (n Σ p²)"),
        ("support_shift", "Covariate shift within groups",
            "How much the kept people of a group differ from all people of the group, for the "
            "group where "
            "they differ most: the chi-square divergence, which is 0 if all of its people have one "
            "chance.",
            "lower", "all rows of a group", "max over groups k of nₖ Σ p² / (Σ p)² − 1",
            "", (0.0, None), "divergence"),
        ("disclosivity.train", "Disclosivity on the training rows",
            "The disclosivity on the training rows, which the limit alpha is about.",
            "lower", "proxy groups and all rows", "max over j, k of |Aⱼₖ − rₖ| on training rows",
            "Deng, definition 5"),
        ("imbalance.train", "Imbalance on the training rows",
            "The imbalance on the training rows.",
            "lower", "shares among kept rows and the target",
            "‖shares of kept rows − target‖₂ on training rows",
            "Deng, definition 2", (0.0, 2**0.5), "distance of shares"),
    )
)  # fmt: skip

_ROWS = "new rows and training rows"
_DRIFT = tuple(
    MetricInfo(name, title, explanation, direction, _ROWS, formula, "", domain, unit, subject, "drift")  # type: ignore[arg-type, misc]
    for name, subject, title, explanation, direction, formula, domain, unit in (
        ("psi_max", "", "Largest population stability index",
            "The largest population stability index of a model input.",
            "lower", "max over columns of psi", (0.0, None), "index"),
        ("psi", "column", "Population stability index",
            "The population stability index of {subject}: the difference between its distribution "
            "in the "
            "new rows and in the training rows.",
            "lower", "Σ over bins of (p − q) ln(p / q)", (0.0, None), "index"),
        ("p_value", "column", "P-value of the change",
            "The probability of such a difference in {subject} without drift (chi-square test, "
            "Holm's correction).",
            None, "P(χ² ≥ observed)", (0.0, 1.0), "probability"),
        ("unseen_max", "", "Largest share of unseen categories",
            "The largest share of rows with a category that the training rows do not have.",
            "lower", "max over columns of unseen", (0.0, 1.0), "share"),
        ("unseen", "column", "Share of unseen categories",
            "The share of rows with a category of {subject} that the training rows do not have.",
            "lower", "P(category not in training rows)", (0.0, 1.0), "share"),
        ("missing_change", "column", "Change of missing values",
            "The absolute change of the share of missing values in {subject}.",
            "lower", "|P(missing) now − then|", (0.0, 1.0), "difference of shares"),
        ("outside_contract_max", "", "Largest share outside the contract",
            "The largest share of rows that break a rule of the contract about one model input.",
            "lower", "max over columns of outside_contract", (0.0, 1.0), "share"),
        ("outside_contract", "column", "Share outside the contract",
            "The share of rows that break a rule of the contract about {subject}.",
            "lower", "P(value breaks a rule)", (0.0, 1.0), "share"),
        ("group_share_change", "attribute", "Change of group shares",
            "The largest absolute change of the share of a group by {subject}.",
            "lower", "max over groups of |P(g) now − then|", (0.0, 1.0), "difference of shares"),
        ("label_rate_change", "", "Change of the base rate",
            "The absolute change of the share of positive labels; of more than two labels the "
            "largest.",
            "lower", "|P(y = 1) now − then|", (0.0, 1.0), "difference of shares"),
        ("label_rate_change", "attribute", "Change of base rates",
            "The largest absolute change of the share of positive labels in a group by {subject}.",
            "lower", "max over groups of |P(y = 1 | g) now − then|", (0.0, 1.0), "difference of shares"),
        ("prediction_rate", "", "Share predicted positive",
            "The share of rows that the model predicts positive.",
            None, "P(ŷ = 1)", (0.0, 1.0), "share"),
        ("prediction_rate_change", "", "Change of the share predicted positive",
            "The absolute change of the share predicted positive since the test rows of the "
            "training run; of "
            "more than two labels the largest change of the share that gets a label.",
            "lower", "|P(ŷ = 1) now − then|", (0.0, 1.0), "difference of shares"),
    )
)  # fmt: skip

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
    """
    return [
        pattern
        for pattern, info in METRICS.items()
        if info.kind == kind and (info.any_classes or not any_classes)
    ]


def group_metrics(*, any_classes: bool = False) -> list[str]:
    """Names of the classifiers' metrics that compare the groups of an attribute, without the
    attribute.
    """
    return [
        info.name
        for info in _CLASSIFIER
        if info.subject == "attribute"
        and info.compares.startswith("groups")
        and (info.any_classes or not any_classes)
    ]


def title(name: str) -> str:
    """Title of a flat metric name with its subject: "Largest gap in error rates by sex"; else the
    name.
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
    """Write a subject for readers: ``sex&personal_status`` as "sex and personal status"."""
    return subject.replace("&", " and ").replace("_", " ").strip()


def direction(name: str) -> Direction | None:
    """Which way a metric is better; None for one that only informs, and for an unknown name."""
    try:
        return describe(name)[0].direction
    except KeyError:
        return None


def better(name: str) -> Direction:
    """Tell which way a metric is better.
    ValueError: the name is of no metric, or of one without a direction.
    """
    found = direction(name)
    if found is None:
        raise ValueError(
            f"metric: got {name!r}, which has no direction; `evenhand metrics` lists those that "
            "have one"
        )
    return found


def better_or_worse(name: str, change: float) -> str:
    """Whether a change of a metric is better or worse; no word where it is neither."""
    way = direction(name)
    if way is None or change == 0:
        return ""
    return "better" if (change > 0) == (way == "higher") else "worse"


def is_intersection(name: str, counts: Container[str]) -> bool:
    """Whether a metric or an attribute is of crossed attributes, such as 'sex&race'."""
    parts = (name.partition(".")[2] or name).split("&")
    return len(parts) > 1 and all(part in counts for part in parts)


def without_intersections(metrics: Iterable[str], counts: Container[str]) -> list[str]:
    """Names of metrics that are not of crossed attributes."""
    return [name for name in metrics if not is_intersection(name, counts)]
