"""What our measurements say about each statement of the papers.

Figures without printed numbers are compared by the statements that their papers make of them. Every
statement of ``printed/PAPER.json`` has a function here, or a reason in ``printed/reasons.json``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import read_result
from benchmarks.reproductions import (
    dadi_agents,
    dadi_pretrained,
    dadi_theory,
    proxies_curves,
    proxies_theory,
    unseen_terms,
)
from benchmarks.reproductions.paper_results import measured_row, stored
from benchmarks.reproductions.paper_rows import AT_PRINT, PRINTED_ADULT, PRINTED_BUDGETS
from benchmarks.reproductions.printed_values import Measured, measured
from evenhand.fairlib.catalogue import better


@dataclass(frozen=True)
class Answer:
    """What ours say of a statement.

    Attributes
    ----------
    holds : bool
        Whether the statement is true of ours, within two standard errors where these are known.
    ours : str
        The measured values.
    basis : str
        What they were measured on.
    command : str
        The command that measures them again.
    measured : Measured, optional
        The number that stands beside a printed number.
    only_within_errors : bool
        Whether our means alone would say that it is not true.
    is_better : bool
        Whether ours is better than the printed number by more than two standard errors.
    """

    holds: bool
    ours: str
    basis: str
    command: str
    measured: Measured | None = None
    only_within_errors: bool = False
    is_better: bool = False


PAPERS_COMMAND = "python -m benchmarks.reproductions.papers"
PROXIES_COMMAND = "python -m benchmarks.reproductions.proxies_paper"
DADI_COMMAND = "python -m benchmarks.reproductions.dadi_curve"
LOANS_COMMAND = "python -m benchmarks.reproductions.dadi_paper loans"
FAIAS_COMMAND = "python -m benchmarks.reproductions.papers faias"
SURFACES_COMMAND = "python -m benchmarks.reproductions.paper_surfaces"
TEXT_COMMAND = "python -m benchmarks.studies.sentence_methods --tables"


def decimal(value: float, digits: int = 3) -> str:
    """Return a number with so many digits behind the point."""
    return f"{value:.{digits}f}"


# ------------------------------------------------------------------------------------------- BuDRO


def two_clusters() -> Answer:
    """Figure 1 of BuDRO."""
    shares = read_result("papers_surfaces")["budro"]["result"]["changing"]
    return Answer(
        shares["budro"] < 0.5 * shares["plain"],
        f"a horizontal move can change {shares['plain']:.0%} of the predictions of plain trees, "
        f"{shares['budro']:.0%} of those of BuDRO",
        "150 generated people",
        f"{SURFACES_COMMAND} budro",
    )


def adult_curves() -> dict[str, list[Mapping[str, float]]]:
    """Return the points of the trade-off curves on Adult by job, each with its means."""
    curves: dict[str, list[Mapping[str, float]]] = {}
    for key, entry in stored("budro")["rows"].items():
        # the points at the printed settings are of figure 2 alone
        if not key.startswith("adult curve of ") or AT_PRINT in key:
            continue
        job = key.removeprefix("adult curve of ").partition(",")[0]
        names = entry.get("means") or entry["method"]
        point = {name: measured_row(entry, name) for name in names}
        curves.setdefault(job, []).append(
            {name: value.mean for name, value in point.items() if value is not None}
        )
    return curves


def budget_points() -> list[tuple[float, dict[str, float]]]:
    """Return the means of BuDRO at the printed settings by budget, on the first split alone."""
    rows = stored("budro")["rows"]
    entries = {PRINTED_ADULT["perturbation_budget"]: rows["adult budro"]}
    for budget in PRINTED_BUDGETS:
        entries[budget] = rows[f"adult {AT_PRINT}, perturbation_budget {budget}"]
    points = []
    for budget, entry in sorted(entries.items()):
        points.append((budget, {name: entry["method"][name][0] for name in TRADE_OFF}))
    return points


TRADE_OFF = ("balanced_accuracy", "gap_rms.sex")


def budro_trade_off() -> Answer:
    """Figure 2 of BuDRO: what a larger budget does."""
    points = budget_points()
    words = []
    for budget, point in points:
        accuracy, gap = (decimal(point[name]) for name in TRADE_OFF)
        words.append(f"ε = {budget:g}: {accuracy} and {gap}")
    return Answer(
        falls([point for _, point in points]),
        f"balanced accuracy and RMS gap by sex at {'; '.join(words)}",
        "the settings of table 6 with other budgets, first split",
        f"{PAPERS_COMMAND} budro --row 'adult {AT_PRINT}, perturbation_budget 0.1'",
    )


def falls(points: Sequence[Mapping[str, float]]) -> bool:
    """Whether accuracy and gap fall together along some points, as rank correlations say."""
    numbers = list(range(len(points)))
    return all(
        rank_correlation(numbers, [point[name] for point in points]) < -FALLING
        for name in TRADE_OFF
    )


# Of a rank correlation.
FALLING = 0.5

CURVE_BASIS = (
    "two splits a point; budgets and class weights are ours, and a choice has seen this table"
)


def budro_consistency() -> Answer:
    """Figure 2 of BuDRO."""
    lowest = min(point["consistency.spouse"] for point in adult_curves()["adult-budro"])
    return Answer(
        lowest >= 0.94,
        f"at least {decimal(lowest)}",
        CURVE_BASIS,
        f"{PAPERS_COMMAND} budro",
        Measured(lowest, 0.0, 1),
    )


def curve_gbdt() -> Answer:
    """Figure 3 of BuDRO: plain trees."""
    curves = adult_curves()
    accurate = {job: max(points, key=_balanced_accuracy) for job, points in curves.items()}
    plain = accurate["adult-gbdt"]
    gaps = {job: point["gap_rms.sex"] for job, point in accurate.items()}
    return Answer(
        plain["balanced_accuracy"] >= accurate["adult-budro"]["balanced_accuracy"] - 0.005
        and gaps["adult-gbdt"] == max(gaps.values()),
        f"balanced accuracy {decimal(plain['balanced_accuracy'])} with an RMS gap by sex of "
        f"{decimal(plain['gap_rms.sex'])}; at the most accurate point of BuDRO "
        f"{decimal(accurate['adult-budro']['balanced_accuracy'])} with "
        f"{decimal(gaps['adult-budro'])}",
        CURVE_BASIS,
        f"{PAPERS_COMMAND} budro",
    )


def curve_project() -> Answer:
    """Figure 3 of BuDRO: projection."""
    curves = adult_curves()
    best = max(map(_balanced_accuracy, curves["adult-project"]))
    plain = max(map(_balanced_accuracy, curves["adult-gbdt"]))
    gap = max(point["gap_rms.sex"] for point in curves["adult-project"])
    gap_of_plain = max(point["gap_rms.sex"] for point in curves["adult-gbdt"])
    return Answer(
        best < plain and gap < gap_of_plain,
        f"balanced accuracy at most {decimal(best)} (plain trees {decimal(plain)}), RMS gap by sex at "
        f"most {decimal(gap)} (plain trees {decimal(gap_of_plain)})",
        CURVE_BASIS,
        f"{PAPERS_COMMAND} budro",
    )


# Two splits are no better than that.
ALIKE_GAP = 0.01


def curve_over_project() -> Answer:
    """Figure 3 of BuDRO: BuDRO beside projection at the same accuracy."""
    curves = adult_curves()
    budro = front(curves["adult-budro"])
    accuracies = [point["balanced_accuracy"] for point in budro]
    largest_gap = -math.inf
    least_gain = math.inf
    for point in curves["adult-project"]:
        at = point["balanced_accuracy"]
        gap = interpolate(at, accuracies, [other["gap_rms.sex"] for other in budro])
        kept = interpolate(at, accuracies, [other["consistency.spouse"] for other in budro])
        largest_gap = max(largest_gap, gap - point["gap_rms.sex"])
        least_gain = min(least_gain, kept - point["consistency.spouse"])
    return Answer(
        largest_gap <= ALIKE_GAP and least_gain > 0,
        f"at the accuracies of projection, between the points of BuDRO of the smallest gaps, the gap "
        f"is larger by at most {decimal(largest_gap)} (up to {ALIKE_GAP:g} counts as none) and the "
        f"consistency higher by at least {decimal(least_gain)}",
        CURVE_BASIS,
        f"{PAPERS_COMMAND} budro",
    )


def front(points: Sequence[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Return the points that no other one beats in accuracy and gap by sex, the least accurate first.

    The paper, too, shows of each accuracy the point of the smallest gap.
    """
    kept: list[Mapping[str, float]] = []
    for point in sorted(points, key=_balanced_accuracy, reverse=True):
        if not kept or point["gap_rms.sex"] < kept[-1]["gap_rms.sex"]:
            kept.append(point)
    return kept[::-1]


def interpolate(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at a place between rising places, of which the ends' values go on."""
    return float(np.interp(at, places, values))


def curve_reweigh() -> Answer:
    """Figure 3 of BuDRO: reweighing."""
    curves = adult_curves()
    highest = max(point["consistency.spouse"] for point in curves["adult-reweigh"])
    lowest = min(point["consistency.spouse"] for point in curves["adult-budro"])
    return Answer(
        highest < lowest,
        f"spouse consistency at most {decimal(highest)}; BuDRO at least {decimal(lowest)}",
        CURVE_BASIS,
        f"{PAPERS_COMMAND} budro",
    )


def _balanced_accuracy(point: Mapping[str, float]) -> float:
    return point["balanced_accuracy"]


# ------------------------------------------------------------------------------------------ SenSeI

GAPS = ("gap_max.sex", "gap_rms.sex", "gap_max.race", "gap_rms.race")
# Printed values of SenSR, with which the paper compares SenSeI.
SENSR = {
    "balanced_accuracy": 0.789,
    "consistency.spouse": 0.934,
    "consistency.gender_race": 0.984,
    "gap_max.sex": 0.087,
    "gap_rms.sex": 0.068,
    "gap_max.race": 0.067,
    "gap_rms.race": 0.055,
}
PRINTED_SENSEI = "adult sensei"


def _sensei_row() -> tuple[Mapping[str, Any], str]:
    """The row with an active dual, or, before it is measured, that of the shipped job."""
    rows = stored("sensei")["rows"]
    if PRINTED_SENSEI in rows:
        entry = rows[PRINTED_SENSEI]
        return entry, f"{entry['splits']} splits, ρ = 40, active dual, equal classes"
    entry = rows[f"{PRINTED_SENSEI}, our job"]
    return entry, f"{entry['splits']} splits, our job (a choice has seen it)"


def _sensei_values(names: Sequence[str]) -> tuple[dict[str, Measured], str]:
    entry, basis = _sensei_row()
    values = {}
    for name in names:
        value = measured_row(entry, name)
        assert value is not None
        values[name] = value
    return values, basis


def _sensei_command() -> str:
    return f'{PAPERS_COMMAND} sensei --row "{PRINTED_SENSEI}"'


def _against_sensr(names: Sequence[str], values: Mapping[str, Measured]) -> str:
    return ", ".join(
        f"{name} {decimal(values[name].mean)} ± {decimal(values[name].error or 0.0)} "
        f"(SenSR as printed {decimal(SENSR[name])})"
        for name in names
    )


def _within_two_errors(value: Measured, limit: float, is_below: bool) -> bool:
    slack = 2 * (value.error or 0.0)
    return value.mean <= limit + slack if is_below else value.mean >= limit - slack


def sensei_gaps() -> Answer:
    """Table 3 of SenSeI: the gaps."""
    values, basis = _sensei_values(GAPS)
    return Answer(
        all(_within_two_errors(values[name], SENSR[name], True) for name in GAPS),
        _against_sensr(GAPS, values),
        basis,
        _sensei_command(),
        only_within_errors=any(values[name].mean > SENSR[name] for name in GAPS),
    )


def sensei_consistency() -> Answer:
    """Table 3 of SenSeI: the consistencies."""
    names = ("consistency.spouse", "consistency.gender_race")
    values, basis = _sensei_values(names)
    improved = [name for name in names if values[name].mean > SENSR[name]]
    return Answer(bool(improved), _against_sensr(names, values), basis, _sensei_command())


def sensei_accuracy() -> Answer:
    """Table 3 of SenSeI: its cost."""
    values, basis = _sensei_values(("balanced_accuracy",))
    value = values["balanced_accuracy"]
    return Answer(
        _within_two_errors(value, SENSR["balanced_accuracy"], True)
        and value.mean >= unseen_terms.DEGENERATE,
        _against_sensr(("balanced_accuracy",), values),
        basis,
        _sensei_command(),
        only_within_errors=value.mean > SENSR["balanced_accuracy"],
    )


def sensei_surfaces() -> Answer:
    """Figure 1 of SenSeI."""
    panels = read_result("papers_surfaces")["sensei"]["result"]["sensei"]
    shares = [panel["sideways"] for panel in panels.values()]
    words = ", ".join(
        f"{decimal(panel['sideways'], 2)} at {name}" for name, panel in panels.items()
    )
    return Answer(
        all(after <= before + 0.02 for before, after in zip(shares, shares[1:], strict=False)),
        f"share of the logit's variation along the protected feature: {words}",
        "200 generated people",
        f"{SURFACES_COMMAND} sensei",
    )


def sensr_surfaces() -> Answer:
    """Figure 3 of SenSeI."""
    panels = read_result("papers_surfaces")["sensei"]["result"]["sensr"]
    words = ", ".join(
        f"{decimal(panel['sideways'], 2)} at {name}" for name, panel in panels.items()
    )
    first = next(iter(panels.values()))
    return Answer(
        first["sideways"] < 0.1,
        f"share of the logit's variation along the protected feature: {words}",
        "200 generated people",
        f"{SURFACES_COMMAND} sensei",
    )


# What the stored rows of sentences are called here: the jobs of that name have a weight of pairs.
TEXT_METHODS = {
    "nn": "baseline",
    "clp": "CLP",
    "project": "project",
    "sensei": "sensei+clp",
    "sensei-pure": "SenSeI",
    "sensr": "SenSR",
}


def text_rows(table: str) -> dict[str, dict[str, Measured]]:
    """Return the measured methods on tweets or biographies by name and metric."""
    result = "text_bios" if table == "bios" else "text"
    rows = read_result(result)["rows"][table]
    return {
        method: {
            metric: measured([split[metric] for split in splits.values()])
            for metric in next(iter(splits.values()))
            if not metric.endswith("_s")
        }
        for method, splits in rows.items()
        if method in TEXT_METHODS
    }


FAIRNESS_OF_TEXT = (
    *("consistency.all", "deviation.all"),
    *("accuracy_parity", "balanced_accuracy_parity"),
)
# What the paper may call slightly lower.
SLIGHTLY = 0.05


def _text_basis() -> str:
    count = unseen_terms.splits("tweets")
    return f"tweets, {count} splits, 25 of 50 terms known, ρ = 5"


def _comparators(*left_out: str) -> list[str]:
    """The fair methods besides some, without those that decide nearly all alike."""
    models = []
    for model in unseen_terms.FAIR_MODELS:
        accuracy = unseen_terms.model_value("tweets", model, "balanced_accuracy").mean
        if model not in left_out and accuracy >= unseen_terms.DEGENERATE:
            models.append(model)
    return models


def _values_by_model(measures: Sequence[str]) -> str:
    parts = []
    for measure in measures:
        values = []
        for model, title in unseen_terms.PRINTED_MODELS.items():
            mean = unseen_terms.model_value("tweets", model, measure).mean
            values.append(f"{title.partition(',')[0]} {decimal(mean)}")
        parts.append(f"{unseen_terms.MEASURES[measure]}: {', '.join(values)}")
    return "; ".join(parts)


def text_best() -> Answer:
    """Table 1 of SenSeI: its fairness on the tweets."""
    is_true = True
    is_best_by_means = True
    for measure in FAIRNESS_OF_TEXT:
        for model in _comparators("sensei 5"):
            value = unseen_terms.between("tweets", "sensei 5", model, measure)
            gain = unseen_terms.sign_of(measure) * value.mean
            is_best_by_means = is_best_by_means and gain >= 0
            is_true = is_true and gain + 2 * value.error >= 0
    return Answer(
        is_true,
        _values_by_model(FAIRNESS_OF_TEXT),
        _text_basis(),
        f"{unseen_terms.COMMAND} tweets",
        only_within_errors=not is_best_by_means,
    )


def text_accuracy() -> Answer:
    """Table 1 of SenSeI: its cost."""
    is_true = True
    for model in ("nn", *_comparators("sensei 5")):
        value = unseen_terms.between("tweets", "sensei 5", model, "balanced_accuracy")
        is_lower = value.mean - 2 * value.error <= 0
        is_true = is_true and is_lower and value.mean >= -SLIGHTLY
    return Answer(
        is_true,
        _values_by_model(("balanced_accuracy",)),
        _text_basis(),
        f"{unseen_terms.COMMAND} tweets",
    )


def text_sensr() -> Answer:
    """Table 1 of SenSeI: the consistency of SenSR."""
    is_true = True
    is_lowest_by_means = True
    for model in _comparators("sensr"):
        value = unseen_terms.between("tweets", "sensr", model, "consistency.all")
        is_lowest_by_means = is_lowest_by_means and value.mean <= 0
        is_true = is_true and value.mean - 2 * value.error <= 0
    return Answer(
        is_true,
        _values_by_model(("consistency.all", "balanced_accuracy")),
        _text_basis(),
        f"{unseen_terms.COMMAND} tweets",
        only_within_errors=not is_lowest_by_means,
    )


PURE = "sensei-pure"
BIOS_FAIRNESS = (
    *("consistency.gender", "token_gap.gender", "gap_rms.gender"),
    "average_odds_difference.gender",
)
# A consistency within so much is alike.
ALIKE = 0.01


def _bios_basis(rows: Mapping[str, Mapping[str, Measured]]) -> str:
    count = rows[PURE]["balanced_accuracy"].splits
    return f"generated biographies, {count} split{'s' if count > 1 else ''}, ρ = 5"


BIOS_COMPARATORS = ("clp", "sensr")
BIOS_FAIR = ("clp", "sensei", PURE, "sensr")


def bios_between(first: str, second: str, metric: str) -> Measured:
    """Return a measure of one method less that of another, on the splits that both have."""
    rows = read_result("text_bios")["rows"]["bios"]
    shared = [split for split in rows[first] if split in rows[second]]
    return measured([rows[first][split][metric] - rows[second][split][metric] for split in shared])


def _between_words(second: str, metrics: Sequence[str]) -> str:
    values = {name: bios_between(PURE, second, name) for name in metrics}
    parts = [f"{name} {value.mean:+.3f}" for name, value in values.items()]
    return f"SenSeI less {TEXT_METHODS[second]}: {', '.join(parts)}"


def bios_fairness() -> Answer:
    """Table 2 of SenSeI."""
    largest = max(
        abs(bios_between(PURE, other, name).mean)
        for other in BIOS_COMPARATORS
        for name in BIOS_FAIRNESS
    )
    words = [_between_words(other, BIOS_FAIRNESS) for other in BIOS_COMPARATORS]
    return Answer(
        largest < ALIKE,
        f"{'; '.join(words)} (below {ALIKE:g} counts as alike)",
        _bios_basis(text_rows("bios")),
        f"{TEXT_COMMAND} bios",
    )


def bios_advantage() -> Answer:
    """Table 2 of SenSeI: its advantage."""
    is_better = True
    for name in BIOS_FAIRNESS:
        sign = 1.0 if name.startswith("consistency") else -1.0
        is_better = is_better and sign * bios_between(PURE, "clp", name).mean >= 0
    return Answer(
        is_better,
        _between_words("clp", BIOS_FAIRNESS),
        _bios_basis(text_rows("bios")),
        f"{TEXT_COMMAND} bios",
    )


def bios_accuracy() -> Answer:
    """Table 2 of SenSeI: its cost."""
    words = []
    is_true = True
    for method in BIOS_FAIR:
        value = bios_between(method, "nn", "balanced_accuracy")
        error = "" if value.error is None else f" ± {decimal(value.error)}"
        count = "1 split" if value.splits == 1 else f"{value.splits} splits"
        words.append(f"{TEXT_METHODS[method]} {value.mean:+.3f}{error} ({count})")
        is_true = is_true and _within_two_errors(value, 0.0, False)
    return Answer(
        is_true,
        f"balanced accuracy less that of the baseline on the same splits: {', '.join(words)}",
        "generated biographies, ρ = 5",
        f"{TEXT_COMMAND} bios",
    )


# -------------------------------------------------------------------------------------------- DADI


def dadi_rise() -> Answer:
    """Figure 2 of DADI: both rise."""
    gammas = dadi_agents.GAMMAS
    ranks = {}
    for name in ("auc", "disparity"):
        values = [dadi_agents.mean(gamma, name).mean for gamma in gammas]
        ranks[name] = rank_correlation(gammas, values)
    return Answer(
        min(ranks.values()) > 0.8,
        f"rank correlation with γ: AUC {decimal(ranks['auc'], 2)}, disparity "
        f"{decimal(ranks['disparity'], 2)}",
        dadi_agents.basis(),
        DADI_COMMAND,
    )


def dadi_early() -> Answer:
    """Figure 2 of DADI: which rises first."""
    gammas = dadi_agents.GAMMAS
    middle = gammas[len(gammas) // 2 - 1]
    shares = {}
    for name in ("auc", "disparity"):
        low, half, high = (
            dadi_agents.mean(gamma, name).mean for gamma in (gammas[0], middle, gammas[-1])
        )
        shares[name] = (half - low) / (high - low)
    return Answer(
        shares["auc"] > shares["disparity"],
        f"at γ = {middle} AUC has made {shares['auc']:.0%} of its rise, disparity "
        f"{shares['disparity']:.0%}",
        dadi_agents.basis(),
        DADI_COMMAND,
    )


def dadi_asked() -> Answer:
    """Figure 2 of DADI: how many features are asked."""
    gammas = dadi_agents.GAMMAS
    counts = [dadi_agents.mean(gamma, "asked").mean for gamma in gammas]
    rank = rank_correlation(gammas, counts)
    return Answer(
        rank > 0.8,
        f"{counts[0]:.1f} features at γ = {gammas[0]:g}, {counts[-1]:.1f} at γ = {gammas[-1]:g}; rank "
        f"correlation {decimal(rank, 2)}",
        dadi_agents.basis(),
        DADI_COMMAND,
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation of two lists without ties."""
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda number: values[number])
    ranks = [0.0] * len(values)
    for rank, number in enumerate(order):
        ranks[number] = float(rank)
    return ranks


def loans() -> list[Mapping[str, Any]]:
    """Return the measured samples of the loans, without a margin."""
    samples = read_result("dadi")["loans"]["result"]["seeds"]
    # the other margins are chosen ones, of which one may be 0, too
    return [sample["margins"][0] for sample in samples]


def _loans_share(names: Sequence[str]) -> Measured:
    return measured([statistics.fmean(row["selected"][name] for name in names) for row in loans()])


def loans_always() -> Answer:
    """Figure 3 of DADI: the fair features of the loans."""
    value = _loans_share(("X1", "X2", "X3", "X9"))
    return Answer(
        value.mean >= 0.95,
        f"asked of {value.mean:.0%} of the people",
        f"{len(loans())} samples of 100,000, no margin",
        LOANS_COMMAND,
        value,
    )


def loans_never() -> Answer:
    """Figure 3 of DADI: the unfair features of the loans."""
    value = _loans_share(("X5", "X6", "X7"))
    return Answer(
        value.mean <= 0.05,
        f"asked of {value.mean:.1%} of the people",
        f"{len(loans())} samples of 100,000, no margin",
        LOANS_COMMAND,
        value,
    )


def loans_conditional() -> Answer:
    """Figure 3 of DADI: the conditionally fair feature of the loans."""
    rows = loans()
    shares = [statistics.fmean(row["x10_by_x9"][value] for row in rows) for value in range(3)]
    return Answer(
        shares[0] > shares[1] and shares[0] > shares[2],
        f"asked of {shares[0]:.0%}, {shares[1]:.0%} and {shares[2]:.0%} where X9 is 0, 1 and 2",
        f"{len(rows)} samples of 100,000, no margin",
        LOANS_COMMAND,
    )


PRETRAINED_BASIS = "6 folds, test people, the printed 2,000 iterations of pretraining"
# A printed AUC has two digits.
AUC_DIGITS = 0.005


def _printed_auc(value: Measured, printed: float) -> Answer:
    """Whether an AUC of the pretrained networks is the printed one, within two standard errors."""
    error = value.error or 0.0
    apart = abs(value.mean - printed)
    return Answer(
        apart <= max(AUC_DIGITS, 2 * error),
        f"{decimal(value.mean)} ± {decimal(error)}",
        PRETRAINED_BASIS,
        dadi_pretrained.COMMAND,
        value,
        only_within_errors=apart > AUC_DIGITS,
    )


PRINTED_ADVERSARY = 0.87


def dadi_all() -> Answer:
    """Figure 3 of DADI: the adversary with all features of Adult."""
    folds = dadi_pretrained.splits_of("adult")
    return _printed_auc(
        measured([fold["all"]["adversary_auc"] for fold in folds]), PRINTED_ADVERSARY
    )


def dadi_relationship() -> Answer:
    """Figure 3 of DADI: the adversary with relationship alone."""
    folds = dadi_pretrained.splits_of("adult")
    return _printed_auc(
        measured([fold["alone"]["relationship"]["adversary_auc"] for fold in folds]), 0.86
    )


def loans_alone() -> Answer:
    """Figure 3 of DADI: what each feature of the loans tells alone."""
    samples = dadi_pretrained.splits_of("loans")
    aucs = {
        kind: {
            name: measured([sample["alone"][name][kind] for sample in samples])
            for name in samples[0]["alone"]
        }
        for kind in ("classifier_auc", "adversary_auc")
    }
    fair = ("X1", "X2", "X3", "X9")
    label = aucs["classifier_auc"].values()
    farthest = max((aucs["adversary_auc"][name] for name in fair), key=lambda v: abs(v.mean - 0.5))
    least = min(label, key=lambda value: value.mean)
    unfair = [value.mean for name, value in aucs["adversary_auc"].items() if name not in fair]
    return Answer(
        abs(farthest.mean - 0.5) <= AUC_DIGITS and least.mean - 2 * (least.error or 0.0) > 0.5,
        f"AUC for the group at most {decimal(abs(farthest.mean - 0.5))} from .5 with X1, X2, X3 and "
        f"X9, {decimal(min(unfair))} to {decimal(max(unfair))} with the others; AUC for the label "
        f"{decimal(least.mean)} to {decimal(max(value.mean for value in label))}",
        f"{len(samples)} samples, test people, 2,000 iterations of pretraining",
        dadi_pretrained.COMMAND,
    )


def _selected_words(features: Sequence[str]) -> str:
    parts = []
    for feature in features:
        shares = ", ".join(
            f"{dadi_agents.selected(feature, gamma):.0%}" for gamma in dadi_agents.SHOWN_GAMMAS
        )
        parts.append(f"{feature} {shares}")
    return "; ".join(parts)


def dadi_never() -> Answer:
    """Figure 3 of DADI: relationship is never asked."""
    largest = max(dadi_agents.selected("relationship", gamma) for gamma in dadi_agents.SHOWN_GAMMAS)
    return Answer(
        largest <= 0.05,
        f"at γ .1, .5 and .9: {_selected_words(['relationship'])}",
        dadi_agents.basis(dadi_agents.SHOWN_GAMMAS),
        DADI_COMMAND,
        Measured(largest, 0.0, 1),
    )


def dadi_often() -> Answer:
    """Figure 3 of DADI: what is asked often."""
    features = ("education-num", "age", "capital-gain")
    shares = {}
    for name in features:
        for gamma in dadi_agents.SHOWN_GAMMAS:
            shares[name, gamma] = dadi_agents.selected(name, gamma)
    (rarest, at), least = min(shares.items(), key=lambda item: item[1])
    of_folds = [agent["selected"][rarest] for agent in dadi_agents.agents_of(at)]
    return Answer(
        least > 0.5,
        f"at γ .1, .5 and .9: {_selected_words(features)}; in single folds {rarest} at γ "
        f"{decimal(at, 1)} {min(of_folds):.0%} to {max(of_folds):.0%}",
        dadi_agents.basis(dadi_agents.SHOWN_GAMMAS),
        DADI_COMMAND,
    )


def dadi_late() -> Answer:
    """Figure 3 of DADI: what is asked at a large gamma only."""
    features = ("marital-status", "occupation", "hours-per-week", "native-country", "race")
    early = max(
        dadi_agents.selected(name, gamma)
        for name in features
        for gamma in dadi_agents.SHOWN_GAMMAS[:2]
    )
    return Answer(
        early < 0.5,
        f"at γ .1, .5 and .9: {_selected_words(features)}",
        dadi_agents.basis(dadi_agents.SHOWN_GAMMAS),
        DADI_COMMAND,
    )


def dadi_policies() -> Answer:
    """Theorem 1 of DADI."""
    is_true = True
    largest = 0.0
    least_spread = math.inf
    differing = 0
    examples = 0
    for gamma in dadi_theory.GAMMAS:
        columns = dadi_theory.examples_of(gamma)
        is_true = is_true and dadi_theory.is_equal(columns)
        largest = max(largest, *columns["sum_error"], *columns["excess"])
        least_spread = min(least_spread, *columns["spread"])
        differing += round(sum(columns["different"]))
        examples += len(columns["excess"])
    return Answer(
        is_true,
        f"of {examples} examples the policy of most reward has the least objective of all 244 "
        f"policies, and rewards and objectives sum to 0 to {largest:.0e} nats, where the objectives "
        f"of the policies differ by at least {decimal(least_spread)}; in {differing} of them it asks "
        "different people for different features",
        f"{dadi_theory.PEOPLE} generated people, three features of two values, networks trained for "
        f"200 iterations and then fixed, γ = .1, .5 and .9",
        dadi_theory.COMMAND,
    )


# ------------------------------------------------------------------------------------------- FAIAS

FAIAS_ATTRIBUTES = {"german": "sex", "compas": "sex", "bank": "age_group"}
AIF360_METHODS = ("disparate-impact-remover", "calibrated-equalized-odds")


def faias_column(data: str, metric: str) -> str:
    """Return the name of a metric in the results of a table."""
    return f"{metric}.{FAIAS_ATTRIBUTES[data]}" if metric.endswith("difference") else metric


def faias_bars(data: str, metric: str) -> dict[str, list[float]]:
    """Return the values of a metric by method, one a split."""
    name = faias_column(data, metric)
    bars = {}
    for key, entry in stored("faias")["rows"].items():
        table, _, method = key.partition(" ")
        if table == data and "," not in method and name in entry.get("method", {}):
            bars[method] = entry["method"][name]
    reference = read_result("faias").get("aif360", {}).get("result", {}).get(data, {})
    for method in AIF360_METHODS:
        runs = reference.get(f"{method} (AIF360)", [])
        if runs:
            bars[method] = [run[name] for run in runs]
    return bars


def faias_is_best(data: str, metric: str) -> Answer:
    """Whether no comparator is better than FAIAS by more than two standard errors of the difference.

    The difference is paired by split.
    """
    return best_of_bars(faias_bars(data, metric), metric)


def best_of_bars(values: Mapping[str, Sequence[float]], metric: str) -> Answer:
    """Whether ``faias`` is the best of some methods, within two standard errors of the difference.

    Parameters
    ----------
    values
        By method, one value a split.
    metric
        Its name, which tells whether larger is better.
    """
    bars = dict(values)
    selector_bars = bars.pop("faias")
    is_difference = metric.endswith("difference")
    sign = 1.0 if not is_difference and better(metric) == "higher" else -1.0
    best = max(bars, key=lambda name: sign * statistics.fmean(bars[name]))
    splits = min(len(selector_bars), len(bars[best]))
    difference = measured(
        [sign * (selector_bars[number] - bars[best][number]) for number in range(splits)]
    )
    holds = difference.mean + 2 * (difference.error or 0.0) >= 0
    verb = "above" if difference.mean > 0 else "behind"
    error = "" if difference.error is None else f" ± {decimal(difference.error)}"
    return Answer(
        holds,
        f"{decimal(statistics.fmean(selector_bars))}; the best other, {best}, "
        f"{decimal(statistics.fmean(bars[best]))}: {verb} by {decimal(abs(difference.mean))}{error}",
        f"{splits} splits",
        FAIAS_COMMAND,
        only_within_errors=difference.mean < 0,
    )


# ----------------------------------------------------------------------------------------- proxies


def proxy_curve(data: str, method: str, part: str) -> list[list[float]]:
    """Return the points (disclosivity, imbalance) of a method in sample or out of sample."""
    lines = proxies_curves.read_curves()["result"][data]["lines"]
    points: list[list[float]] = lines[method][part]
    return points


def _proxy_splits(data: str) -> int:
    rows = proxies_curves.read_curves()["result"][data]["paper"]
    return int(rows[0]["seeds"])


def _proxy_basis(data: str) -> str:
    return f"{_proxy_splits(data)} of 20 splits"


# At this distance from equal shares the paper's trees stop growing.
PROXY_END = 0.1


def bank_in_sample() -> Answer:
    """Figure 1 of the proxies, in sample."""
    least = {
        method: min(point[1] for point in proxy_curve("bank", method, "train"))
        for method in ("proxy", "relaxed-proxy", "qp-tree")
    }
    words = ", ".join(f"{name} {decimal(value)}" for name, value in least.items())
    return Answer(
        max(least.values()) < PROXY_END,
        f"least imbalance: {words} (without a filter .252; read as below {decimal(PROXY_END, 1)}, where "
        "the paper's trees stop growing, too)",
        _proxy_basis("bank"),
        proxies_curves.COMMAND,
    )


def bank_out_of_sample() -> Answer:
    """Figure 1 of the proxies, out of sample."""
    points = proxy_curve("bank", "relaxed-proxy", "test")
    early = min(imbalance for disclosivity, imbalance in points if disclosivity <= 0.4)
    late = min(imbalance for disclosivity, imbalance in points if disclosivity > 0.4)
    in_sample = min(point[1] for point in proxy_curve("bank", "relaxed-proxy", "train"))
    start = max(imbalance for _, imbalance in points)
    return Answer(
        early < start - 0.01 and early <= late + 0.01 and in_sample < early,
        f"relaxed proxy: from {decimal(start)} to {decimal(early)} up to a disclosivity of .4, {decimal(late)} beyond; in "
        f"sample {decimal(in_sample)}",
        _proxy_basis("bank"),
        proxies_curves.COMMAND,
    )


def adult_dominance() -> Answer:
    """Figure 2 of the proxies: which is best in sample."""
    margins = proxies_curves.read_curves()["result"]["adult"]["dominance"]["train"]["paper"]
    words = ", ".join(
        f"{name} by {decimal(item['margin'])} at a disclosivity of {decimal(item['at'], 2)}"
        for name, item in margins.items()
        if item["margin"] > 0.001
    )
    held_out = proxies_curves.read_curves()["result"]["adult"]["dominance"]["test"]["paper"]
    words_held_out = ", ".join(
        f"{name} by {decimal(item['margin'])}"
        for name, item in held_out.items()
        if item["margin"] > 0.001
    )
    return Answer(
        not words,
        f"others are better in sample: {words}; out of sample: {words_held_out}",
        _proxy_basis("adult"),
        proxies_curves.COMMAND,
    )


def _regressions(part: str) -> dict[str, float]:
    return {
        method: min(point[1] for point in proxy_curve("adult", method, part))
        for method in ("naive-regression", "qp-regression")
    }


def _least_of_regressions(part: str, printed: float) -> Answer:
    least = _regressions(part)
    words = []
    for name, value in least.items():
        unmixed, *mixed = proxy_curve("adult", name, part)
        words.append(
            f"{name} {decimal(value)}, without the unmixed point (a disclosivity of "
            f"{decimal(unmixed[0], 2)}) {decimal(min(point[1] for point in mixed))}"
        )
    smallest = min(least.values())
    return Answer(
        smallest >= printed,
        "; ".join(words),
        _proxy_basis("adult"),
        proxies_curves.COMMAND,
        Measured(smallest, 0.0, 1),
    )


def regressions_in_sample() -> Answer:
    """Figure 2 of the proxies: the regressions in sample."""
    return _least_of_regressions("train", 0.70)


def regressions_out_of_sample() -> Answer:
    """Figure 2 of the proxies: the regressions out of sample."""
    return _least_of_regressions("test", 0.65)


def adult_range() -> Answer:
    """Figure 2 of the proxies: the range of the trees."""
    ranges = {}
    for method in ("qp-tree", "proxy"):
        values = [point[1] for point in proxy_curve("adult", method, "train")]
        ranges[method] = (min(values), max(values))
    words = ", ".join(
        f"{name} {decimal(low)} to {decimal(high)}" for name, (low, high) in ranges.items()
    )
    return Answer(
        all(low < 0.1 and high > 0.65 for low, high in ranges.values()),
        words,
        _proxy_basis("adult"),
        proxies_curves.COMMAND,
    )


# Disclosivities at which the curves are compared, and a margin that a drawn line hides.
DISCLOSIVITIES = tuple(step / 20 for step in range(21))
SAME_LINE = 0.001
PROXY_TABLES = ("bank", "adult")


def least_imbalances(points: Sequence[Sequence[float]]) -> list[float]:
    """Return the least imbalance of a method's points up to each disclosivity."""
    return [
        min((imbalance for x, imbalance in points if x <= limit + 0.005), default=math.nan)
        for limit in DISCLOSIVITIES
    ]


def neither_dominates() -> Answer:
    """Figures 1 and 2 of the proxies: the QP tree beside the exact proxy, in sample."""
    words = []
    is_true = True
    for data in PROXY_TABLES:
        proxy = least_imbalances(proxy_curve(data, "proxy", "train"))
        tree = least_imbalances(proxy_curve(data, "qp-tree", "train"))
        margins = [a - b for a, b in zip(proxy, tree, strict=True)]
        is_true = is_true and min(margins) < -SAME_LINE and max(margins) > SAME_LINE
        words.append(
            f"{data}: the proxy better by up to {decimal(-min(margins))}, the QP tree by up to "
            f"{decimal(max(margins))}"
        )
    basis = ", ".join(f"{data} {_proxy_basis(data)}" for data in PROXY_TABLES)
    return Answer(is_true, "; ".join(words), basis, proxies_curves.COMMAND)


def order_of(data: str, family: str) -> dict[str, float]:
    """Return the mean over disclosivities of the least imbalance out of sample, the best first.

    Parameters
    ----------
    data : {"bank", "adult"}
    family : str
        Settings of the (α, β) proxies; the others have none.
    """
    curves = {method: proxy_curve(data, method, "test") for method in PROXY_COMPARATORS}
    for method in ("relaxed-proxy", "proxy"):
        rows = proxies_curves.read_curves()["result"][data][family]
        points = [row for row in rows if row["method"] == method]
        curves[method] = [[row["disclosivity"][0], row["imbalance"][0]] for row in points]
        # at the base rates every curve begins
        curves[method].append(proxy_curve(data, method, "test")[0])
    means = {
        method: float(np.nanmean(least_imbalances(points))) for method, points in curves.items()
    }
    return dict(sorted(means.items(), key=lambda item: item[1]))


def is_printed_order(order: Mapping[str, float]) -> bool:
    """Whether the QP tree and the relaxed proxy are best, and the exact proxy next."""
    first, second, third, *_ = order
    return {first, second} == {"qp-tree", "relaxed-proxy"} and third == "proxy"


def order_words(data: str, order: Mapping[str, float]) -> str:
    """Return an order in words."""
    return f"{data}: {', '.join(f'{method} {decimal(mean)}' for method, mean in order.items())}"


def out_of_sample_order() -> Answer:
    """Figures 1 and 2 of the proxies: which are best out of sample."""
    orders = {data: order_of(data, "paper") for data in PROXY_TABLES}
    basis = ", ".join(f"{data} {_proxy_basis(data)}" for data in PROXY_TABLES)
    return Answer(
        all(is_printed_order(order) for order in orders.values()),
        "least imbalance, mean over disclosivities from 0 to 1: "
        + "; ".join(order_words(data, order) for data, order in orders.items()),
        basis,
        proxies_curves.COMMAND,
    )


PROXY_COMPARATORS = ("qp-tree", "qp-regression", "naive-tree", "naive-regression")


def _shares() -> Mapping[str, Any]:
    shares: Mapping[str, Any] = read_result("proxies")["shares"]["result"]
    return shares


def bank_uniform() -> Answer:
    """Figure 3 of the proxies at α = 0."""
    part = _shares()["0.0"]["test"]
    moves = [abs(a - b) for a, b in zip(part["before"], part["after"], strict=True)]
    return Answer(
        max(moves) < 0.001,
        f"largest change of a share {decimal(max(moves), 4)}; with no split it holds by construction",
        f"{_shares()['splits']} splits",
        f"{PROXIES_COMMAND} shares",
    )


def bank_slightly() -> Answer:
    """Figure 3 of the proxies at α = .1."""
    words = []
    is_true = True
    for part, name in (("train", "in sample"), ("test", "out of sample")):
        distances = []
        for when in ("before", "after"):
            shares = _shares()["0.1"][part][when]
            distances.append(math.dist(shares, [1 / len(shares)] * len(shares)))
        is_true = is_true and distances[1] < distances[0]
        words.append(f"{name} from {decimal(distances[0])} to {decimal(distances[1])}")
    return Answer(
        is_true,
        f"distance of the mean shares from equal ones: {', '.join(words)}",
        f"{_shares()['splits']} splits",
        f"{PROXIES_COMMAND} shares",
    )


def bank_balanced() -> Answer:
    """Figure 3 of the proxies at α = .2, in sample."""
    (row,) = [
        row
        for row in read_result("proxies")["points"]["result"]["bank"]["paper"]
        if row["method"] == "relaxed-proxy"
    ]
    value = row["train_imbalance"][0]
    return Answer(
        value < PROXY_END,
        f"imbalance in sample {decimal(value)} (0: equal shares; without a filter .252; read as below "
        f"{decimal(PROXY_END, 1)}, where the paper's trees stop growing, too)",
        f"{row['seeds']} splits",
        f"{PROXIES_COMMAND} points",
    )


def bank_growth() -> Answer:
    """Figure 3 of the proxies: the smallest group out of sample."""
    (row,) = [
        row
        for row in read_result("proxies")["points"]["result"]["bank"]["paper"]
        if row["method"] == "relaxed-proxy"
    ]
    mean, half = row["smallest_growth"]
    splits = row["seeds"]
    value = Measured(mean, half / 1.96 * math.sqrt(splits), splits)
    shares = _shares()["0.0"]["test"]["before"]
    equal = 1 / len(shares) / min(shares)
    return Answer(
        mean + half >= 4.5,
        f"{mean:.1f} times, where equal shares would be {equal:.0f} times",
        f"{splits} splits",
        f"{PROXIES_COMMAND} points",
        value,
        is_better=mean - half > 4.5,
    )


def _compositions(alpha: str) -> Mapping[str, Any]:
    result: Mapping[str, Any] = read_result("proxies")["compositions"]["result"]
    return result[alpha]  # type: ignore[no-any-return]


def adult_base_rates() -> Answer:
    """Figure 4 of the proxies at α = 0."""
    groups = len(_compositions("0.0")["masses"])
    return Answer(groups == 1, f"{groups}", "1 split", f"{PROXIES_COMMAND} compositions")


def adult_three_groups() -> Answer:
    """Figure 4 of the proxies in the middle."""
    masses = _compositions("0.82")["masses"]
    large = [mass for mass in masses if mass >= 0.01]
    groups = len(masses)
    return Answer(
        groups == 3,
        f"{groups}, of which {len(large)} have at least 1 % of the people",
        "1 split",
        f"{PROXIES_COMMAND} compositions",
        Measured(float(groups), 0.0, 1),
    )


def adult_within() -> Answer:
    """Figure 4 of the proxies: the limit in the middle."""
    base = _compositions("0.0")["compositions"][0]
    largest = max(
        abs(share - rate)
        for row in _compositions("0.82")["compositions"]
        for share, rate in zip(row, base, strict=True)
    )
    return Answer(
        largest <= 0.82,
        f"by at most {decimal(largest, 2)}, in sample; the algorithm keeps this limit by construction",
        "1 split",
        f"{PROXIES_COMMAND} compositions",
    )


# The second group of the paper's figure: its share before is the printed one.
SECOND_GROUP = 1


def adult_certain() -> Answer:
    """Figure 4 of the proxies at α = .97: the second group has a proxy group of its own."""
    result = read_result("proxies")["compositions"]["result"]
    share = max(row[SECOND_GROUP] for row in result["0.97"]["compositions"])
    return Answer(
        share >= 0.97,
        f"{result['groups'][SECOND_GROUP]} has a share of {decimal(share, 2)} in one proxy group",
        "1 split",
        f"{PROXIES_COMMAND} compositions",
        Measured(share, 0.0, 1),
    )


def adult_prior() -> Answer:
    """Figure 4 of the proxies: the share of that group before."""
    prior = _compositions("0.0")["compositions"][0][SECOND_GROUP]
    return Answer(
        abs(prior - 0.03) <= 0.005,
        decimal(prior),
        "1 split",
        f"{PROXIES_COMMAND} compositions",
        Measured(prior, 0.0, 1),
    )


THEORY_FAMILIES = {"paper": "the paper's settings", "held-out": "leaves of at least 300 rows"}


def _theory_basis() -> str:
    return f"exact trees at α = .2 on Bank and .6 on Adult, {proxies_theory.splits_done()} of 20 splits"


def progress_of_splits() -> Answer:
    """Lemma 3 of the proxies."""
    words = []
    is_true = True
    for family, settings in THEORY_FAMILIES.items():
        splits: float = 0
        meeting: float = 0
        least = math.inf
        for table in proxies_theory.POINTS:
            trees = proxies_theory.trees_of(table, family)
            splits += sum(trees["splits"])
            meeting += sum(trees["meeting"])
            least = min([least, *trees["progress"]])
        needed = proxies_theory.SETTINGS[family]["progress"]
        is_true = is_true and least >= needed - 1e-4
        words.append(
            f"{settings} (γ = {needed:g}): {meeting} of {splits} splits meet the first two "
            f"conditions, and each shortens the distance by a share of at least {decimal(least)}"
        )
    return Answer(is_true, "; ".join(words), _theory_basis(), proxies_theory.COMMAND)


def number_of_splits() -> Answer:
    """Theorem 2 of the proxies."""
    words = []
    is_true = True
    settings = proxies_theory.SETTINGS["paper"]
    limit = proxies_theory.most_splits(settings["tolerance"], settings["progress"])
    for table in proxies_theory.POINTS:
        trees = proxies_theory.trees_of(table, "paper")
        reached = [value for value in trees["train imbalance"] if value <= settings["tolerance"]]
        is_true = is_true and max(trees["splits"]) <= limit
        words.append(
            f"{table}: at most {max(trees['splits'])} splits, {len(reached)} of "
            f"{len(trees['splits'])} trees reach β"
        )
    return Answer(is_true, "; ".join(words), _theory_basis(), proxies_theory.COMMAND)


def out_of_sample() -> Answer:
    """Theorem 3 of the proxies."""
    words = []
    is_true = True
    for family, settings in THEORY_FAMILIES.items():
        for table in proxies_theory.POINTS:
            trees = proxies_theory.trees_of(table, family)
            promised = proxies_theory.promises(table, family)
            disclosivity = max(trees["test disclosivity"])
            imbalance = max(trees["test imbalance"])
            is_true = is_true and disclosivity <= promised.disclosivity
            is_true = is_true and imbalance <= promised.imbalance
            words.append(
                f"{table}, {settings}: at least {min(trees['rows']):.0f} rows a proxy group, so ε is "
                f"at least {decimal(promised.epsilon, 2)}: disclosivity at most "
                f"{decimal(disclosivity)} (promised {decimal(promised.disclosivity, 2)}), imbalance "
                f"at most {decimal(imbalance)} (promised {decimal(promised.imbalance, 1)})"
            )
    return Answer(is_true, "; ".join(words), _theory_basis(), proxies_theory.COMMAND)


# ------------------------------------------------------------------------- SenSeI, unseen terms


def _terms_answer(name: str, sign: float, table: str = "tweets") -> Answer:
    """Whether SenSeI is not worse than CLP at any ρ, by more than two standard errors.

    Raises
    ------
    KeyError
        If the table is not measured.
    """
    words = []
    is_true = True
    is_true_by_means = True
    for rho in unseen_terms.rhos(table):
        value = unseen_terms.difference(table, rho, name)
        words.append(f"ρ = {rho}: {value.mean:+.3f} ± {value.error:.3f}")
        is_true = is_true and sign * value.mean + 2 * value.error >= 0
        is_true_by_means = is_true_by_means and sign * value.mean >= 0
    return Answer(
        is_true,
        f"SenSeI less CLP on unseen terms, {', '.join(words)}",
        f"{table}, {unseen_terms.splits(table)} splits, paired by sentence",
        f"{unseen_terms.COMMAND} {table}",
        only_within_errors=not is_true_by_means,
    )


def terms_consistency() -> Answer:
    """Figure 2 of SenSeI on the tweets."""
    return _terms_answer("consistency.unseen", 1.0)


def terms_deviation() -> Answer:
    """Figure 4 of SenSeI on the tweets."""
    return _terms_answer("deviation.unseen", -1.0)


def terms_by_rho() -> Answer:
    """Figure 2 of SenSeI: what a larger weight does."""
    rhos = unseen_terms.rhos("tweets")
    words = []
    is_true = True
    for model, title in (("clp", "CLP"), ("sensei", "SenSeI")):
        names = [f"{model} {rho}" for rho in rhos]
        values = [
            unseen_terms.model_value("tweets", name, "consistency.all").mean for name in names
        ]
        is_true = is_true and values == sorted(values)
        words.append(f"{title} {', '.join(decimal(value) for value in values)}")
    return Answer(
        is_true,
        f"consistency over all terms at ρ = {', '.join(rhos)}: {'; '.join(words)}",
        f"tweets, {unseen_terms.splits('tweets')} splits",
        f"{unseen_terms.COMMAND} tweets",
    )


ANSWERS: dict[str, Callable[[], Answer]] = {
    "two clusters": two_clusters,
    "figure 2 consistency": budro_consistency,
    "figure 2 trade-off": budro_trade_off,
    "figure 3 gbdt": curve_gbdt,
    "figure 3 project": curve_project,
    "figure 3 reweigh": curve_reweigh,
    "figure 3 over project": curve_over_project,
    "table 1 fairness": text_best,
    "table 1 accuracy": text_accuracy,
    "table 1 sensr": text_sensr,
    "table 2 fairness": bios_fairness,
    "table 2 advantage": bios_advantage,
    "table 2 accuracy": bios_accuracy,
    "table 3 gaps": sensei_gaps,
    "table 3 consistency": sensei_consistency,
    "table 3 accuracy": sensei_accuracy,
    "figure 1": sensei_surfaces,
    "figure 2 toxic": terms_consistency,
    "figure 2 larger rho": terms_by_rho,
    "figure 4": terms_deviation,
    "figure 3": sensr_surfaces,
    "figure 2 rise": dadi_rise,
    "figure 2 early": dadi_early,
    "figure 2 features": dadi_asked,
    "loans always": loans_always,
    "loans never": loans_never,
    "loans x10": loans_conditional,
    "loans alone": loans_alone,
    "adult all": dadi_all,
    "adult relationship": dadi_relationship,
    "adult never": dadi_never,
    "adult often": dadi_often,
    "adult late": dadi_late,
    "theorem 1 policies": dadi_policies,
    "bank in sample": bank_in_sample,
    "bank out of sample": bank_out_of_sample,
    "adult dominance": adult_dominance,
    "adult regressions in sample": regressions_in_sample,
    "adult regressions out of sample": regressions_out_of_sample,
    "adult range": adult_range,
    "neither dominates": neither_dominates,
    "out of sample order": out_of_sample_order,
    "bank uniform": bank_uniform,
    "bank slightly": bank_slightly,
    "bank balanced": bank_balanced,
    "bank growth": bank_growth,
    "adult base rates": adult_base_rates,
    "adult three groups": adult_three_groups,
    "adult within": adult_within,
    "adult certain": adult_certain,
    "adult prior": adult_prior,
    "lemma 3 progress": progress_of_splits,
    "theorem 2 splits": number_of_splits,
    "theorem 3 out of sample": out_of_sample,
}


def answer(statement: str) -> Answer | None:
    """Return what ours say of a statement; None where nothing of it is measured."""
    function = ANSWERS.get(statement)
    if function is None:
        return None
    try:
        return function()
    except KeyError:
        return None
