"""The part of docs/benchmarks.md on DADI, and its pictures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.asked import asked_features
from benchmarks.common import picture
from benchmarks.panels import series_panels

TRADE_OFF, FEATURES, LOANS = "dadi-trade-off.svg", "dadi-features.svg", "dadi-loans.svg"
SHOWN = (0.1, 0.5, 0.9)

Interval = tuple[float, float]


def sections(found: Mapping[str, Any], provenance: Callable[[dict[str, Any]], str]) -> list[str]:
    """Text of the parts that were measured."""
    makers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "loans": loans,
        "curve": curve,
        "agents": agents,
        "sets": sets,
        "speed": speed,
    }
    present = [name for name in makers if name in found]
    parts = ["## DADI\n"] if present else []
    for name in present:
        parts += [makers[name](found[name]["result"]), provenance(found[name])]
    return parts


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Draw what was measured."""
    if "curve" in found:
        (folder / TRADE_OFF).write_text(draw_curve(found["curve"]["result"]))
        (folder / FEATURES).write_text(draw_features(found["curve"]["result"]))
    if "loans" in found:
        (folder / LOANS).write_text(draw_loans(found["loans"]["result"]))


def mean_interval(values: Sequence[float]) -> tuple[float, Interval]:
    """Mean with its 95% t-interval; the mean alone of a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, (mean, mean)
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return mean, (mean - half, mean + half)


def over_folds(result: Mapping[str, Any], index: int, key: str) -> list[float]:
    """A number of one trade-off on every fold."""
    return [fold["models"][index][key] for fold in result["folds"]]


def falls(result: Mapping[str, Any], key: str) -> list[str]:
    """Steps of gamma at which a curve falls by more than the interval of the folds' differences allows."""
    found = []
    for i in range(len(result["gammas"]) - 1):
        pairs = zip(over_folds(result, i, key), over_folds(result, i + 1, key), strict=True)
        differences = [later - earlier for earlier, later in pairs]
        if len(differences) > 1 and mean_interval(differences)[1][1] < 0:
            found.append(f"{result['gammas'][i]:g} to {result['gammas'][i + 1]:g}")
    return found


# ----------------------------------------------------------------------------------------------- the text


def loans(result: Mapping[str, Any]) -> str:
    """Selection on the synthetic loans."""
    seeds = result["seeds"]
    lines = [
        "### Synthetic loans\n",
        f"Appendix D: 100,000 people, gamma = .5, {len(seeds)} samples; share of the test people who are "
        "asked for a feature. Expected: at least 95% for X1, X2, X3 and X9, at most 5% for X5, X6 and X7, "
        "and for X10 a decrease as X9 goes from 0 to 2, by at least .3 between the ends.\n",
        "| sample | " + " | ".join(seeds[0]["selected"]) + " | X10, by X9 = 0 / 1 / 2 | AUC | disparity |",
        "|---" * (len(seeds[0]["selected"]) + 4) + "|",
    ]
    for number, seed in enumerate(seeds):
        shares = " | ".join(f"{share:.2f}" for share in seed["selected"].values())
        by = " / ".join(f"{share:.2f}" for share in seed["x10_by_x9"])
        lines.append(f"| {number} | {shares} | {by} | {seed['auc']:.3f} | {seed['disparity']:.3f} |")
    lines.append(
        f"\n![Share of people who are asked for each feature; for X10 by the value of X9]({LOANS})\n"
    )
    return "\n".join(lines)


def curve(result: Mapping[str, Any]) -> str:
    """Trade-off and selection on Adult."""
    folds = result["folds"]
    full = {
        key: statistics.fmean(fold["full_information"][key] for fold in folds) for key in ("auc", "disparity")
    }
    alone = statistics.fmean(fold["alone"]["relationship"]["adversary_auc"] for fold in folds)
    everything = statistics.fmean(fold["all"]["adversary_auc"] for fold in folds)
    lines = [
        "### Adult\n",
        f"{len(folds)} of six folds, {result['settings']['n_iterations']:,} iterations "
        f"({result['columns']} columns, 13 questions and the action to stop), mean ± 95% t-interval over the "
        f"folds. With all features the pretrained classifier has AUC {full['auc']:.3f} and disparity "
        f"{full['disparity']:.3f}. `fnlwgt` may be asked, and the network predicts, as in the paper. "
        f"The adversary's AUC is {everything:.3f} (paper .87), from relationship "
        f"alone {alone:.3f} (paper .86).\n",
        "| gamma | AUC | disparity | share of full disparity | adversary's AUC | asked |",
        "|---|---|---|---|---|---|",
    ]
    for i, gamma in enumerate(result["gammas"]):
        cells = [_pm(over_folds(result, i, key)) for key in ("auc", "disparity")]
        share = statistics.fmean(over_folds(result, i, "disparity")) / full["disparity"]
        adversary, asked = (
            statistics.fmean(over_folds(result, i, key)) for key in ("adversary_auc", "asked")
        )
        lines.append(f"| {gamma:g} | {cells[0]} | {cells[1]} | {share:.2f} | {adversary:.3f} | {asked:.1f} |")
    for key, name in (("auc", "AUC"), ("disparity", "Disparity")):
        where = falls(result, key)
        lines.append(
            f"\n{name} does not fall from one gamma to the next by more than its interval."
            if not where
            else f"\n{name} falls by more than its interval at gamma {', '.join(where)}."
        )
    lines += [
        f"\n![Three panels: AUC and disparity against gamma, and disparity against AUC]({TRADE_OFF})\n",
        f"![AUC of label and sex from each feature alone, and share asked at three gammas]({FEATURES})\n",
    ]
    return "\n".join(lines)


def agents(result: Mapping[str, Any]) -> str:
    """Predictions from the answers, and what they reveal, of the shipped jobs."""
    lines = [
        "### Shipped agents: predictions from the answers, and what these reveal\n",
        "Test rows of the jobs' own split. AUC of the prediction (network and trees, by their weight), of "
        "the network alone, and of trees that see the answers of the same training rows and nothing else. "
        "The adversary is the strongest of three, cross-fitted on the test rows. The last columns are what a "
        "choice of the margin may see: the AUC on held-out training rows, and the adversary on as many "
        "training rows as there are test rows.\n",
        "| job | margin | asked | trees' weight | AUC | network | trees | adversary (95% interval) | AUC, "
        "training rows | adversary, training rows |",
        "|---" * 10 + "|",
    ]
    for row in result["agents"]:
        name, auc = f"{row['job']}{', shipped' if row['shipped'] else ''}", row["auc"]
        head = [name, f"{row['margin']:g}", f"{row['asked']:.1f}", f"{row['trees_weight']:g}"]
        aucs = [f"{auc[key]:.3f}" for key in ("own", "network", "trees")]
        value, low, high = next(iter(row["adversary"].values()))
        seen = [f"{value:.3f}" for value in row["chosen_by"].values()]
        cells = [*head, *aucs, f"{value:.3f} ({low:.3f} to {high:.3f})", *seen]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def sets(result: Mapping[str, Any]) -> str:
    """Controls of the agents on Adult."""
    lines = [
        "### Adult: the same features of everybody\n",
        "Controls of `adult-dadi` without an agent: trees on fixed sets, and on all but sex (blind).\n",
        "| features | AUC | adversary of sex (95% interval) |",
        "|---" * 3 + "|",
    ]
    for row in result["sets"]:
        value, low, high = row["adversary"]
        names = "all but sex" if len(row["features"]) > 5 else ", ".join(row["features"])
        lines.append(f"| {names} | {row['auc']:.3f} | {value:.3f} ({low:.3f} to {high:.3f}) |")
    return "\n".join([*lines, ""])


def _pm(values: Sequence[float]) -> str:
    mean, (_, high) = mean_interval(values)
    return f"{mean:.3f} ± {high - mean:.3f}"


def speed(result: Mapping[str, Any]) -> str:
    """Iterations and steps a second."""
    lines = [
        "### Speed of joint training\n",
        "Adult, 64 agents and 4 steps an iteration, medians of five, taken in turns on one core. "
        "The plain implementation is the same loop in PyTorch: one-hot products, "
        "no table.\n",
        "| | ms an iteration | steps a second | minutes for 20,000 iterations |",
        "|---|---|---|---|",
    ]
    for name, words in (("own", "this project"), ("plain", "plain")):
        lines.append(
            f"| {words} | {result['milliseconds_per_iteration'][name]:.1f} | "
            f"{result['steps_per_second'][name]:,.0f} | {result['minutes_of_a_run'][name]:.1f} |"
        )
    lines.append(f"\nThe plain implementation takes {result['plain_to_own']:.1f} times as long.\n")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------- the pictures


def draw_curve(result: Mapping[str, Any]) -> str:
    """AUC and disparity against gamma, and against each other, beside the model with all features."""
    gammas, rows = result["gammas"], []
    full = {
        key: statistics.fmean(fold["full_information"][key] for fold in result["folds"])
        for key in ("auc", "disparity")
    }
    means: dict[str, list[float]] = {}
    for key, panel in (("auc", "AUC"), ("disparity", "Demographic disparity")):
        found = [mean_interval(over_folds(result, i, key)) for i in range(len(gammas))]
        means[key] = [mean for mean, _ in found]
        for gamma, (mean, (low, high)) in zip(gammas, found, strict=True):
            ends = {"low": max(low, 0.0), "high": min(high, 1.0)}
            rows.append({"panel": panel, "series": "asked", "x": gamma, "y": mean, **ends})
        for gamma in (gammas[0], gammas[-1]):
            known = {"panel": panel, "series": "all features", "x": gamma, "y": full[key]}
            rows.append({**known, "draw": "line"})
    both = "Disparity against AUC"
    for x, y in zip(means["auc"], means["disparity"], strict=True):
        rows.append({"panel": both, "series": "asked", "x": x, "y": y, "draw": "mark"})
    known = {"panel": both, "series": "all features", "x": full["auc"], "y": full["disparity"]}
    rows.append({**known, "draw": "hollow"})
    titles = {"AUC": "gamma", "Demographic disparity": "gamma", both: "AUC"}
    return picture(
        series_panels(rows, x_title=titles, columns=3, width=980),
        "Trade-off of DADI on Adult",
        "AUC and disparity rise with gamma; most of the AUC is there before most of the disparity.",
    )


def draw_features(result: Mapping[str, Any]) -> str:
    """Above, the AUC of label and group from each feature alone; below, the share asked at three gammas."""
    rows: list[dict[str, Any]] = []
    for name in result["folds"][0]["models"][0]["selected"]:
        alone = {
            key: statistics.fmean(fold["alone"][name][key] for fold in result["folds"])
            for key in ("classifier_auc", "adversary_auc")
        }
        at = [(result["gammas"].index(gamma), f"{gamma:g}") for gamma in SHOWN]
        shares = [
            (text, statistics.fmean(fold["models"][i]["selected"][name] for fold in result["folds"]))
            for i, text in at
        ]
        rows.append({"name": name, **alone, "share": shares[1][1], "parts": shares})
    return picture(
        asked_features(rows, predicted="sex", width=1060),
        "Features of Adult, and what is asked",
        f"Bars are the shares at gamma {', '.join(f'{gamma:g}' for gamma in SHOWN)}, from pale to dark; the "
        "line across is that of the middle one. Age, education-num and capital-gain are asked at every "
        "gamma; relationship hardly ever.",
    )


def draw_loans(result: Mapping[str, Any]) -> str:
    """Share asked of each feature, the mean over drawings; X10 by the value of X9."""
    seeds = result["seeds"]
    aucs = {"classifier_auc": None, "adversary_auc": None}
    rows: list[dict[str, Any]] = [
        {"name": name, **aucs, "share": statistics.fmean(seed["selected"][name] for seed in seeds)}
        for name in seeds[0]["selected"]
    ]
    for row in rows:
        if row["name"] == "X10":
            by = [statistics.fmean(seed["x10_by_x9"][value] for seed in seeds) for value in range(3)]
            row["parts"] = [(f"{value}", share) for value, share in enumerate(by)]
    return picture(
        asked_features(rows, predicted="the group", width=900),
        "What is asked on the synthetic loans",
        "X1, X2, X3 and X9 are asked of nearly everybody, X5, X6 and X7 of nobody; X10 mostly where X9 is 0. "
        "The three bars of X10 are those where X9 is 0, 1 and 2.",
    )
