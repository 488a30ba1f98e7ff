"""The part of docs/benchmarks.md on DADI, and its pictures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import picture
from benchmarks.page_generators.asked_chart import asked_features

LOANS = "dadi-loans.svg"
JUDGED = """\
### Agents compared with a fixed set of features

By `benchmarks/protocol.py`: for each judged seed gamma and margin are chosen among the training people of
another seed who are not judged, by the AUC on held-out people among those whose adversary has at most .60 for
sex (Adult) and age (Bank) or .70 for age (German), or else by the least adversary. AUC of the prediction, of
the network alone, and of trees that see the answers of the same people and nothing else; the adversary is the
strongest of three, cross-fitted on the test people. *Everybody*: trees on the same features of all people,
added one by one on the same held-out people within the same limit. *Blind*: trees on all features but the
sensitive one. Last, the seconds of the CPU to train the agent (2,000 iterations of each kind, one step of
attention).
"""


def sections(found: Mapping[str, Any], provenance: Callable[[dict[str, Any]], str]) -> list[str]:
    """Text of the parts that were measured."""
    makers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "loans": loans,
        "judged": judged,
        "speed": speed,
    }
    present = [name for name in makers if name in found]
    parts = ["## DADI\n"] if present else []
    for name in present:
        parts += [makers[name](found[name]["result"]), provenance(found[name])]
    return parts


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Draw what was measured."""
    if "loans" in found:
        (folder / LOANS).write_text(draw_loans(found["loans"]["result"]))


# -----------------------------------------------------------------------------------------------
# the text


def loans(result: Mapping[str, Any]) -> str:
    """Selection on the synthetic loans."""
    seeds = result["seeds"]
    names = list(seeds[0]["margins"][0]["selected"])
    lines = [
        "### Synthetic loans\n",
        f"Appendix D: 100,000 people, gamma = .5, {len(seeds)} samples; share of the test people "
        "who are "
        "asked for a feature. Each agent is trained once and measured with several margins. Expected: "
        "at least "
        "95% for X1, X2, X3 and X9, at most 5% for X5, X6 and X7, and for X10 a decrease of at "
        "least .3 as "
        "X9 goes from 0 to 2. The margin of -.005 was chosen on the samples 0 to 2, a third one on the "
        "training people of its sample. The adversary is the "
        "strongest of three, cross-fitted on the test people. Last, the seconds of the CPU of a "
        "training.\n",
        f"| sample | margin | {' | '.join(names)} | X10, by X9 = 0 / 1 / 2 "
        "| AUC | disparity | adversary | s |",
        "|---" * (len(names) + 7) + "|",
    ]
    for number, seed in enumerate(seeds):
        for position, row in enumerate(seed["margins"]):
            chosen = " (chosen on training people)" if position > 1 else ""
            shares = " | ".join(f"{share:.2f}" for share in row["selected"].values())
            by = " / ".join(f"{share:.2f}" for share in row["x10_by_x9"])
            performance = f"{row['auc']:.3f} | {row['disparity']:.3f} | {row['adversary']:.3f}"
            start = f"| {number} | {row['margin']:g}{chosen} | {shares} | {by}"
            lines.append(f"{start} | {performance} | {seed['seconds']:.0f} |")
    lines.append(
        "\n![Share of people who are asked for each feature; for X10 by the value of "
        f"X9]({LOANS})\n"
    )
    return "\n".join(lines)


def judged(result: Mapping[str, Any]) -> str:
    """Agents and their controls, by the protocol."""
    lines = [
        JUDGED,
        "| table, seed | gamma, margin | | AUC | network | trees | asked | adversary (95% "
        "interval) | s |",
        "|---" * 9 + "|",
    ]
    for job, runs in result.items():
        for run in runs:
            chosen = run["chosen"]
            settings = f"{chosen['gamma']:g}, {chosen['margin']:g}"
            for name in ("agent", "everybody", "blind"):
                row = run[name]
                value, low, high = row["adversary"]
                of_agent = [f"{row[key]:.3f}" if key in row else "" for key in ("network", "trees")]
                about = settings if name == "agent" else ", ".join(row.get("features", []))
                cells = [
                    f"{job.partition('-')[0].title()}, {run['seed']}",
                    about,
                    name,
                    f"{row['own']:.3f}",
                    *of_agent,
                ]
                cells += [f"{row['asked']:.1f}", f"{value:.3f} ({low:.3f} to {high:.3f})"]
                cells.append(f"{run['seconds']:.0f}" if name == "agent" else "")
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def speed(result: Mapping[str, Any]) -> str:
    """Iterations and steps a second."""
    lines = [
        "### Speed of joint training\n",
        "Adult, 64 agents and 4 steps an iteration, medians of five, taken in turns on one core, "
        "by CPU seconds. The plain implementation is the same loop in PyTorch: one-hot products, "
        "no memory vector that people share, all columns in every set.\n",
        "| steps of attention | | ms an iteration | steps a second | minutes for 20,000 iterations | "
        "plain to this project |",
        "|---" * 6 + "|",
    ]
    for steps, row in result["by_steps"].items():
        for name, words in (("own", "this project"), ("plain", "plain")):
            milliseconds = row["milliseconds_per_iteration"][name]
            steps_a_second = 1e3 * row["steps_an_iteration"] / milliseconds
            minutes = 20_000 * milliseconds / 6e4
            ratio = f"{row['plain_to_own']:.1f}" if name == "own" else ""
            lines.append(
                f"| {steps} | {words} | {milliseconds:.1f} | {steps_a_second:,.0f} | "
                f"{minutes:.1f} | {ratio} |"
            )
    lines.append("")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------- the
# pictures


def draw_loans(result: Mapping[str, Any]) -> str:
    """Share asked of each feature with the margin of -.005, the mean over samples.

    That of X10 is by the value of X9.
    """
    seeds = [seed["margins"][1] for seed in result["seeds"]]
    aucs = {"classifier_auc": None, "adversary_auc": None}
    rows: list[dict[str, Any]] = [
        {"name": name, **aucs, "share": statistics.fmean(seed["selected"][name] for seed in seeds)}
        for name in seeds[0]["selected"]
    ]
    for row in rows:
        if row["name"] == "X10":
            by = [
                statistics.fmean(seed["x10_by_x9"][value] for seed in seeds) for value in range(3)
            ]
            row["parts"] = [(f"{value}", share) for value, share in enumerate(by)]
    return picture(
        asked_features(rows, predicted="the group", width=900),
        "What is asked on the synthetic loans",
        f"With a margin of {seeds[0]['margin']:g}: X1, X2, X3 and X9 are asked of nearly "
        "everybody, X5, X6 "
        "and X7 of nobody. The three bars of X10 are those where X9 is 0, 1 and 2.",
    )
