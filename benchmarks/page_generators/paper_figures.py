"""Printed figures of a paper with ours next to them, as Markdown: statements, points, pictures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scipy.stats import spearmanr
from scipy.stats import t as students_t

from benchmarks.common import read_result
from benchmarks.page_generators import sensei_paper_tables
from benchmarks.page_generators.paper_tables import COMMAND, ours_text
from benchmarks.reproductions import (
    dadi_agents,
    dadi_curve,
    dadi_pretrained,
    measured_reasons,
    paper_claims,
    proxies_curves,
)
from benchmarks.reproductions.paper_cells import reason_of
from benchmarks.reproductions.paper_claims import TEXT_METHODS, Answer, decimal, text_rows
from benchmarks.reproductions.paper_results import measured_row, stored
from benchmarks.reproductions.paper_rows import FAIAS_SEEN, FAIAS_SEEN_WORDS
from benchmarks.reproductions.printed_values import Measured, measured

ABLATIONS = (
    *("faias", "faias, all selected", "faias, no sensitivity loss", "faias, neither"),
    *("faias, no class balance", "faias, chosen threshold", "reweighing, at one half"),
)


def statements(paper: str, item: Mapping[str, Any]) -> Iterator[str]:
    """Yield each statement of a figure, with what ours say of it."""
    if "bars" in item:
        yield from _bars(paper, item)
        return
    for statement in item.get("statements", ()):
        printed = ""
        if statement["value"] is not None:
            relation = {"=": "", ">=": "at least "}.get(statement["relation"], "")
            printed = f" Printed: {relation}{statement['value']:g}."
        yield f"- *{statement['text']}*{printed}"
        result = paper_claims.answer(statement["id"])
        reason = reason_of(paper, statement["id"])
        if result is None:
            yield f"  **No value of ours.** {reason}"
            continue
        yield f"  {verdict(result)}: {result.ours} ({result.basis}; `{result.command}`)."
        for words in (reason, _measured_words(paper, statement["id"], result)):
            if words:
                yield f"  {words}"
    yield ""
    labels = {row["id"]: row["text"].rstrip(".") for row in item.get("statements", ())}
    yield from measured_reasons.tables(paper, labels)


def _measured_words(paper: str, name: str, result: Answer) -> str:
    """What single differences do to a cell that is not true of ours."""
    found = None if result.holds else measured_reasons.trials_of(paper, name)
    return found.sentence if found else ""


def verdict(result: Answer) -> str:
    """Return in words whether a statement is true of ours."""
    if result.holds and result.is_better:
        return "**Better than printed**"
    if result.holds and result.only_within_errors:
        return "**True of ours within two standard errors, not by the means**"
    return "**True of ours**" if result.holds else "**Not true of ours**"


def _bars(paper: str, item: Mapping[str, Any]) -> Iterator[str]:
    """The values behind the bars, method by method, and whether FAIAS is the best."""
    for statement in item["statements"]:
        yield f"*{statement['text']}* A cell holds where no other method is better than FAIAS by more"
        yield "than two standard errors of the difference, paired by split.\n"
    for data in item["bars"]["data"]:
        metrics = item["bars"]["metrics"]
        yield f"**{data}** (the bars have no printed numbers)\n"
        if data in FAIAS_SEEN:
            yield f"**A choice has seen this table:** {FAIAS_SEEN_WORDS}, of FAIAS and its ablations.\n"
        yield f"| method | {' | '.join(metrics)} |"
        yield f"|---|{'---|' * len(metrics)}"
        values = {metric: paper_claims.faias_bars(data, metric) for metric in metrics}
        for method in item["bars"]["methods"]:
            texts = []
            for metric in metrics:
                runs = values[metric].get(method)
                texts.append(ours_text(measured(runs)) if runs else "not measured")
            yield f"| {method} | {' | '.join(texts)} |"
        yield ""
        for metric in metrics:
            result = paper_claims.faias_is_best(data, metric)
            yield f"- {metric}: {verdict(result).lower()}: {result.ours} ({result.basis})."
            name = f"{data} {metric}"
            for words in (reason_of(paper, name), _measured_words(paper, name, result)):
                if words:
                    yield f"  {words}"
        yield ""
        labels = {f"{data} {metric}": f"{metric} of {data}" for metric in metrics}
        yield from measured_reasons.tables(paper, labels)
    if item["id"] == "figure 20":
        yield from _ablations(item["bars"]["data"])
    else:
        yield "The ablations are under [figure 20](#figure-20), with these measures.\n"
    first = item["bars"]["data"][0]
    yield f"All rows: `{COMMAND} faias`. One row: `{COMMAND} faias --row '{first} faias'`, of the"
    yield f"ablations `--row '{first} faias, all selected, our job'`. The methods of AIF360:"
    yield "`python -m benchmarks.reproductions.faias_paper aif360 --environments FOLDER`.\n"


def _ablations(tables: Sequence[str]) -> Iterator[str]:
    """FAIAS without its parts."""
    yield "Ablations, balanced accuracy / average odds difference / Theil index:\n"
    yield "| method | " + " | ".join(tables) + " |"
    yield f"|---|{'---|' * len(tables)}"
    rows = stored("faias")["rows"]
    for method in ABLATIONS:
        texts = []
        for data in tables:
            key = f"{data} {method}" if method == "faias" else f"{data} {method}, our job"
            entry = rows.get(key, {})
            odds = f"average_odds_difference.{paper_claims.FAIAS_ATTRIBUTES[data]}"
            names = ("balanced_accuracy", odds, "theil_index")
            values = [measured_row(entry, name) for name in names] if entry else []
            parts = [decimal(value.mean) if value else "" for value in values]
            texts.append(" / ".join(parts) or "not measured")
        yield f"| {method} | {' | '.join(texts)} |"
    yield ""


# ------------------------------------------------------------------------------------------ curves


def budro_points(axis: str) -> Iterator[str]:
    """Yield the points of the trade-off on Adult.

    Parameters
    ----------
    axis
        ``budget``: of BuDRO over ε. ``weight``: of four methods over the weight of label 1.
    """
    names = ("balanced_accuracy", "consistency.spouse", "gap_rms.sex", "gap_rms.race")
    yield f"| point | splits | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    axis_key = "perturbation_budget" if axis == "budget" else "scale_pos_weight"
    last = ""
    for key, entry in stored("budro")["rows"].items():
        if not key.startswith("adult curve of ") or axis_key not in key:
            continue
        title = key.removeprefix("adult curve of ").replace("perturbation_budget", "ε =")
        values = [measured_row(entry, name) for name in names]
        texts = [decimal(value.mean) if value else "" for value in values]
        yield f"| {title} | {entry['splits']} | {' | '.join(texts)} |"
        last = key
    yield ""
    yield f"One point: `{COMMAND} budro --row '{last}'`.\n"


def german_differences() -> Iterator[str]:
    """Yield BuDRO on German, one difference from the printed settings at a time."""
    rows = read_result("papers_german")["rows"]
    first = next(iter(rows.values()))
    yield "**Why another page's row of BuDRO on German misses print.** The row [at one operating"
    yield "point](../benchmarks/operating-point.md) has .692, .928, .240 and .190 (seven splits), with no class weights and a"
    yield "chosen budget, rate and threshold. One difference from table 4 at a time, decisions at one half unless the name says"
    yield f"otherwise, {len(first['balanced_accuracy'])} splits, nothing chosen by these people:\n"
    yield f"| variant | {' | '.join(first)} |"
    yield f"|---|{'---|' * len(first)}"
    for name, columns in rows.items():
        texts = [ours_text(measured(values)) for values in columns.values()]
        yield f"| {name} | {' | '.join(texts)} |"
    yield ""
    later = read_result("papers_german").get("later", {})
    if later:
        yield f"The printed settings on {len(next(iter(later.values())))} later splits, mean ± standard error:"
        parts = []
        for name, values in later.items():
            value = measured(values)
            parts.append(f"{name} {decimal(value.mean)} ± {decimal(value.error or 0.0)}")
        yield f"{', '.join(parts)}. Both gaps are larger there than printed by more than two standard errors:"
        yield "the ten printed splits, by which the cells are counted, are kind to ours.\n"
    yield "`python -m benchmarks.reproductions.german_differences`\n"


def sensei_points() -> Iterator[str]:
    """Yield the points of our job on Adult over ρ."""
    yield from sensei_paper_tables.own_rows()
    yield from sensei_paper_tables.budget_table()
    names = ("balanced_accuracy", "consistency.spouse", "consistency.gender_race", "gap_rms.sex")
    yield "Adult, our job, over ρ (the paper has no such figure):\n"
    yield f"| point | splits | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    last = ""
    for key, entry in stored("sensei")["rows"].items():
        if key.startswith("adult curve of "):
            values = [measured_row(entry, name) for name in names]
            texts = [decimal(value.mean) if value else "" for value in values]
            title = key.rpartition(", ")[2].replace("rho", "ρ =")
            yield f"| {title} | {entry['splits']} | {' | '.join(texts)} |"
            last = key
    yield ""
    yield f"One point: `{COMMAND} sensei --row '{last}'`.\n"


def text_table(table: str) -> Callable[[], Iterator[str]]:
    """Return the maker of the table of methods on a stand-in of sentences."""

    def lines() -> Iterator[str]:
        rows = text_rows(table)
        names = list(next(iter(rows.values())))
        yield f"On {table}; the printed numbers are not in our copy:\n"
        yield f"| method | splits | {' | '.join(names)} |"
        yield f"|---|---|{'---|' * len(names)}"
        for method, row in rows.items():
            texts = [ours_text(row[name]) if name in row else "" for name in names]
            splits = next(iter(row.values())).splits
            yield f"| {TEXT_METHODS.get(method, method)} | {splits} | {' | '.join(texts)} |"
        yield ""
        yield f"`{paper_claims.TEXT_COMMAND} {table}`\n"

    return lines


def toxicity_tables() -> Iterator[str]:
    """Yield table 1 of SenSeI on its substitutes: as printed, then our jobs."""
    yield from sensei_paper_tables.models_table()
    yield "Our jobs, to which all 50 terms are known (of the 80 % of the sentences that train):\n"
    yield from text_table("tweets")()


def dadi_points() -> Iterator[str]:
    """Yield AUC and disparity by γ, with the half width of the 95 % interval over the folds."""
    yield f"Adult: {dadi_agents.basis()}. Mean ± half of the 95 % interval (Student's) over the folds:\n"
    yield "| γ | AUC | disparity | features asked | adversary's AUC | folds | settings |"
    yield "|---|---|---|---|---|---|---|"
    for gamma in dadi_agents.GAMMAS:
        texts = []
        for name in ("auc", "disparity", "asked", "adversary_auc"):
            value = dadi_agents.mean(gamma, name)
            interval = ""
            if value.error is not None:
                factor = float(students_t.ppf(0.975, value.splits - 1))
                interval = f" ± {factor * value.error:.3f}"
            texts.append(f"{value.mean:.3f}{interval}")
        setting = "printed" if dadi_agents.is_printed(gamma) else "shortened"
        texts += [f"{len(dadi_agents.agents_of(gamma))} of {dadi_agents.FOLDS}", setting]
        yield f"| {gamma} | {' | '.join(texts)} |"
    yield ""
    if not all(dadi_agents.is_printed(gamma) for gamma in dadi_agents.GAMMAS):
        yield f"Shortened: {dadi_agents.SHORT}."
    yield f"One row again: `{paper_claims.DADI_COMMAND} --gamma 0.05 --again`.\n"
    yield from _dadi_iterations()
    front = ", ".join(f"{x:.3f} / {y:.3f}" for x, y in _front())
    yield f"The Pareto front, disparity / AUC: {front}.\n"
    folds = dadi_pretrained.splits_of("adult")
    parts = [
        f"{name} {ours_text(measured([fold[name] for fold in folds]))}"
        for name in ("auc", "disparity")
    ]
    yield "The squares of the figure, the pretrained classifier with all features and without an agent:"
    yield f"{' and '.join(parts).replace('auc', 'AUC')} ({len(folds)} folds; `{dadi_pretrained.COMMAND}`).\n"
    yield from _households()


def _dadi_iterations() -> Iterator[str]:
    """Yield what 20,000 iterations change of agents that were measured with 8,000."""
    if dadi_agents.difference("auc") is None:
        yield "No agent is measured with both numbers of iterations yet: nothing says how far the shortened ones are off.\n"
        return
    yield "*What fewer iterations change*: agents of the same fold, γ and seed with 20,000 iterations less those"
    yield "with 8,000, which an earlier version of the code trained: mean difference ± its standard error over the pairs.\n"
    ranges = {"all γ": dadi_agents.GAMMAS}
    for gammas in (dadi_agents.EVEN_GAMMAS, dadi_agents.STEEP_GAMMAS):
        ranges[f"γ {gammas[0]:g} to {gammas[-1]:g}"] = gammas
    yield f"| | {' | '.join(ranges)} | largest of a pair |"
    yield "|---|---|---|---|---|"
    pairs = [_pairs_text(dadi_agents.difference("auc", gammas)) for gammas in ranges.values()]
    yield f"| pairs | {' | '.join(pairs)} | |"
    clear = []
    for name, words, digits in (
        ("auc", "AUC", 3),
        ("disparity", "disparity", 3),
        ("asked", "questions asked", 2),
    ):
        changes = [dadi_agents.difference(name, gammas) for gammas in ranges.values()]
        texts = [_change_text(change, digits) for change in changes]
        whole = changes[0]
        assert whole is not None
        largest = f"{whole.largest:+.{digits}f} at γ {whole.largest_gamma:g}"
        yield f"| {words} | {' | '.join(texts)} | {largest} |"
        if whole.value.error is not None and abs(whole.value.mean) > 2 * whole.value.error:
            clear.append(words)
    yield ""
    yield f"Over all γ beyond two standard errors: {', '.join(clear) or 'none'}. Pairs of one fold share its training"
    yield "and test people, so the standard errors are rather too small.\n"


def _pairs_text(change: dadi_agents.Difference | None) -> str:
    """Return the number of pairs and of their folds in words."""
    if change is None:
        return "none"
    folds = "1 fold" if change.folds == 1 else f"{change.folds} folds"
    return f"{change.value.splits} of {folds}"


def _change_text(change: dadi_agents.Difference | None, digits: int) -> str:
    """Return a mean difference with its standard error, if there are several pairs."""
    if change is None:
        return ""
    error = "" if change.value.error is None else f" ± {change.value.error:.{digits}f}"
    return f"{change.value.mean:+.{digits}f}{error}"


def _households() -> Iterator[str]:
    """The agents of the generated households."""
    total = len(dadi_curve.order())
    for table, words in (
        ("households", "printed settings"),
        (
            "households-short",
            f"{dadi_curve.SHORTER['households-short']:,} iterations of pretraining and of training",
        ),
    ):
        command = f"`{paper_claims.DADI_COMMAND} --table {table}`"
        folds = read_result(dadi_curve.TABLES[table][0]).get("folds", {})
        agents = [(int(fold), agent) for fold, found in folds.items() for agent in found.values()]
        yield f"The generated households, {words}: {len(agents)} of {total} agents are measured ({command})."
        yield ""
        if agents:
            yield from _households_rows(
                sorted(agents, key=lambda pair: (pair[0], pair[1]["gamma"]))
            )
        if len(agents) > 2:
            yield _households_ranks([agent for _, agent in agents])
    yield "1,000 is the estimator's own number of iterations for so many questions. Printed is the curve of another table, so"
    yield "no number is compared. *Asked* is the share of people who are asked, as a mean over the questions whose answers"
    yield "depend on wealth, on age (whether the head of the household is a senior), on both, or on neither.\n"


def _households_ranks(agents: Sequence[Mapping[str, Any]]) -> str:
    """Say how the measures of agents change with the trade-off, and how long one is trained."""
    gammas = [agent["gamma"] for agent in agents]
    ranks = []
    for name, words in (
        ("auc", "AUC"),
        ("disparity", "disparity"),
        ("asked", "questions asked"),
        ("adversary_auc", "adversary's AUC"),
    ):
        values = [agent[name] for agent in agents]
        ranks.append(f"{words} {spearmanr(gammas, values).statistic:+.2f}")
    minutes = statistics.median(agent["seconds"] for agent in agents) / 60
    return (
        f"Rank correlation with γ over these agents: {', '.join(ranks)}. The statements on rising AUC and\n"
        f"disparity below are of Adult alone. An agent takes {minutes:.1f} minutes of one core (median).\n"
    )


def _households_rows(agents: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    """Rows of agents, each with its fold, and what their questions tell."""
    yield "| fold | γ | AUC | disparity | questions asked of 99 | adversary's AUC | asked: wealth | both | age | nothing |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for fold, agent in agents:
        texts = [f"{agent[name]:.3f}" for name in ("auc", "disparity", "asked", "adversary_auc")]
        texts += [f"{agent['selected'][kind]:.0%}" for kind in ("wealth", "both", "age", "nothing")]
        yield f"| {fold + 1} | {agent['gamma']} | {' | '.join(texts)} |"
    yield ""


def _front() -> list[tuple[float, float]]:
    """The points that no other one beats in both."""
    points = []
    for gamma in dadi_agents.GAMMAS:
        disparity = dadi_agents.mean(gamma, "disparity").mean
        points.append((disparity, dadi_agents.mean(gamma, "auc").mean))
    front: list[tuple[float, float]] = []
    for disparity, auc in sorted(points):
        if not front or auc > front[-1][1]:
            front.append((disparity, auc))
    return front


def dadi_features() -> Iterator[str]:
    """Yield the AUC of each feature of Adult alone, and how often it is asked."""
    shown = dadi_agents.SHOWN_GAMMAS
    yield f"Adult. AUCs: {paper_claims.PRETRAINED_BASIS}. Questions: {dadi_agents.basis(shown)}:\n"
    yield "| feature | classifier's AUC | adversary's AUC | asked at γ .1 | .5 | .9 |"
    yield "|---|---|---|---|---|---|"
    for feature, aucs in _pretrained_aucs("adult"):
        shares = [""] * len(shown)
        if feature != ALL_FEATURES:
            shares = [f"{dadi_agents.selected(feature, gamma):.0%}" for gamma in shown]
        yield f"| {feature} | {' | '.join(aucs)} | {' | '.join(shares)} |"
    yield ""
    yield f"The AUCs: `{dadi_pretrained.COMMAND}`. The questions: `{paper_claims.DADI_COMMAND}`.\n"


ALL_FEATURES = "all features"


def _pretrained_aucs(table: str) -> Iterator[tuple[str, list[str]]]:
    """Yield both AUCs of all features, then of each alone, of the pretrained networks."""
    splits = dadi_pretrained.splits_of(table)
    kinds = ("classifier_auc", "adversary_auc")
    for feature in (ALL_FEATURES, *splits[0]["alone"]):
        texts = []
        for kind in kinds:
            values = []
            for split in splits:
                pair = split["all"] if feature == ALL_FEATURES else split["alone"][feature]
                values.append(pair[kind])
            texts.append(ours_text(measured(values)))
        yield feature, texts


def loans_table() -> Iterator[str]:
    """Yield what features of the loans tell alone, and which are asked, by margin."""
    yield f"AUC from all features and from each alone, {dadi_pretrained.SPLITS['loans']} samples, after"
    yield f"2,000 iterations of pretraining (`{dadi_pretrained.COMMAND}`):\n"
    yield "| feature | classifier's AUC | adversary's AUC |"
    yield "|---|---|---|"
    for feature, aucs in _pretrained_aucs("loans"):
        yield f"| {feature} | {' | '.join(aucs)} |"
    yield ""
    samples = read_result("dadi")["loans"]["result"]["seeds"]
    features = list(samples[0]["margins"][0]["selected"])
    yield f"Share of the test people who are asked, means of {len(samples)} samples:\n"
    yield f"| margin | {' | '.join(features)} | X10 by X9 = 0 / 1 / 2 |"
    yield f"|---|{'---|' * (len(features) + 1)}"
    for number, margin in enumerate(row["margin"] for row in samples[0]["margins"][:2]):
        rows = [sample["margins"][number] for sample in samples]
        mark = f"{margin:g}" if margin == 0 else f"{margin:g} (chosen on samples 0 to 2)"
        yield _loans_row(mark, rows, features)
    chosen = [sample for sample in samples if "chosen" in sample]
    if chosen:
        texts = ", ".join(f"{sample['chosen']:g}" for sample in chosen)
        mark = f"chosen on the training people: {texts}"
        if len(chosen) < len(samples):
            mark += " (sample 0)" if len(chosen) == 1 else f" (samples 0 to {len(chosen) - 1})"
        yield _loans_row(mark, [sample["margins"][2] for sample in chosen], features)
    yield ""
    if chosen:
        yield "The last margin is chosen for a sample by what the questions earn its training people, of"
        yield "0, −.001, −.002, −.003, −.005 and −.01; the test people have no part in it.\n"


def _loans_row(mark: str, rows: Sequence[Mapping[str, Any]], features: Sequence[str]) -> str:
    texts = []
    for name in features:
        texts.append(f"{statistics.fmean(row['selected'][name] for row in rows):.2f}")
    by_category = []
    for value in range(3):
        by_category.append(f"{statistics.fmean(row['x10_by_x9'][value] for row in rows):.2f}")
    return f"| {mark} | {' | '.join(texts)} | {' / '.join(by_category)} |"


def proxy_points(data: str) -> Callable[[], Iterator[str]]:
    """Return the maker of the table of the six proxies' least imbalance by disclosivity."""
    limits = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    methods = (
        *("relaxed-proxy", "proxy", "qp-tree"),
        *("qp-regression", "naive-tree", "naive-regression"),
    )

    def lines() -> Iterator[str]:
        splits = proxies_curves.read_curves()["result"][data]["paper"][0]["seeds"]
        yield f"Least mean imbalance of all points up to a disclosivity; {splits} of 20 splits:\n"
        yield f"| sample | proxy | {' | '.join(f'{limit:g}' for limit in limits)} |"
        yield f"|---|---|{'---|' * len(limits)}"
        for part, name in (("train", "in sample"), ("test", "out of sample")):
            for method in methods:
                points = paper_claims.proxy_curve(data, method, part)
                texts = [_least(points, limit) for limit in limits]
                yield f"| {name} | {method} | {' | '.join(texts)} |"
        yield ""

    return lines


def _least(points: Sequence[Sequence[float]], limit: float) -> str:
    reached = [imbalance for disclosivity, imbalance in points if disclosivity <= limit + 0.005]
    return decimal(min(reached)) if reached else ""


def proxy_shares() -> Iterator[str]:
    """Yield the groups' shares on Bank before and after filtering, in and out of sample."""
    shares = read_result("proxies")["shares"]["result"]
    limits = ("0.0", "0.1", "0.2")
    yield f"Relaxed proxy at the printed settings, means of {shares['splits']} splits:\n"
    yield "| job | in sample: before | α = 0 | 0.1 | 0.2 | out of sample: before | α = 0 | 0.1 | 0.2 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for number, group in enumerate(shares["groups"]):
        texts = []
        for part in ("train", "test"):
            texts.append(decimal(shares["0.0"][part]["before"][number]))
            texts += [decimal(shares[limit][part]["after"][number]) for limit in limits]
        yield f"| {group} | {' | '.join(texts)} |"
    yield ""


def proxy_compositions() -> Iterator[str]:
    """Yield the compositions of the largest proxy groups on Adult."""
    result = read_result("proxies")["compositions"]["result"]
    groups = result["groups"]
    yield "Shares of the races in each proxy group, and its share of the people:\n"
    yield f"| α | share of the people | {' | '.join(groups)} |"
    yield f"|---|---|{'---|' * len(groups)}"
    for alpha, part in result.items():
        if alpha == "groups":
            continue
        for mass, row in zip(part["masses"], part["compositions"], strict=True):
            texts = [decimal(share, 2) for share in row]
            yield f"| {alpha} | {mass:.4f} | {' | '.join(texts)} |"
    yield ""


FIGURES: dict[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("budro", "table 5"): german_differences,
    ("budro", "figure 2"): lambda: budro_points("budget"),
    ("budro", "figure 3"): lambda: budro_points("weight"),
    ("sensei", "table 1"): toxicity_tables,
    ("sensei", "table 2"): text_table("bios"),
    ("sensei", "table 3"): sensei_points,
    ("sensei", "figure 2"): lambda: sensei_paper_tables.terms_table("consistency"),
    ("sensei", "figure 4"): lambda: sensei_paper_tables.terms_table("deviation"),
    ("dadi", "figure 2"): dadi_points,
    ("dadi", "figure 3, loans"): loans_table,
    ("dadi", "figure 3, Adult"): dadi_features,
    ("proxies", "figure 1"): proxy_points("bank"),
    ("proxies", "figure 2"): proxy_points("adult"),
    ("proxies", "figure 3"): proxy_shares,
    ("proxies", "figure 4"): proxy_compositions,
}


def points(paper: str, item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values behind a figure, where ours are measured."""
    maker = FIGURES.get((paper, item["id"]))
    if maker is None:
        return
    try:
        yield from list(maker())
    except KeyError as error:
        yield f"Not measured yet ({error.args[0]}).\n"


def half_width(value: Measured) -> float:
    """Return half of the 95 % interval of a mean."""
    if value.splits < 2:
        return 0.0
    return 1.96 * value.deviation / math.sqrt(value.splits)
