"""Write docs/benchmarks.md with its pages, docs/choose-a-method.md and their pictures.

``python -m benchmarks.page_generators.benchmark_pages`` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common import DOCS, read_result
from benchmarks.page_generators import (
    app_section,
    cases_section,
    choose_page,
    dadi_page,
    faias_page,
    operations_page,
    proxies_page,
    sensei_page,
    short_tuning,
    split_page,
    tuning_page,
    untuned_page,
)
from benchmarks.reproductions import proxies_curves
from benchmarks.reproductions.printed_tables import format_row, verdict
from benchmarks.studies import (
    alternative_bounds,
    alternative_search,
    judged_methods,
    membership_study,
    method_fronts,
    smoothed_thresholds,
    tune_first_answer,
    tune_interrupted,
    tune_under_load,
    tuned_jobs,
    tuned_limits,
    two_limits,
)

HEAD = """\
# Benchmarks

Measured figures, a page a method or topic. `make bench` makes all pages from `benchmarks/results/*.json`; each
result keeps its machine, versions, commit and command. Of a large result the repository has a summary: its command
measures the whole again, into `benchmarks/results/whole/`. *Plain* is the baseline without mitigation, *blind* the
baseline without sensitive features ([glossary](glossary.md#baselines-and-comparison)).
[The five papers](papers/index.md) has every printed table and figure
with ours next to it.
"""

PROTOCOL = """\
## Printed tables

Ten stratified splits 80/20 (the job's seed 0 to 9), the paper's hyperparameters, mean ± standard deviation
over the splits. In the last column a difference within one standard error of the difference is called so. Nothing was chosen here; methods with settings from
elsewhere are in the next section. Some rows differ from the paper's text:

- **project, consistency**: ours changes a person's raw row, encodes it and then projects it, as a deployed
  model would. The printed numbers result if the *projected* matrix is overwritten instead (rows
  `consistency_after_projection`). On German the values are .82 and .97; the job and the gates use the former.
- **compas-project**: the text puts the gender column into the subspace, so gender consistency is 1 by
  construction; the printed .873 results from another subspace.
- **German, consistency.status**: the fifth status of the paper, single women (A95), never occurs in the
  file, so a person has four copies here.
- **reweigh**: weights by sex on Adult and by race on COMPAS, 100 steps of XGBoost's defaults, no class
  weights.
"""

TABLES = {"german": "German credit", "adult": "Adult", "compas": "COMPAS"}


def main() -> None:
    """Write the pages and the pictures that they show."""
    tables = read_result("tables")
    speed = read_result("speed")
    budro = read_result("budro")
    sensei = read_result("sensei")
    others = {"judged": read_result("proxies_judged"), "filtering": read_result("filtering")}
    others["curves"] = proxies_curves.read_curves()
    proxies = read_result("proxies") | {name: found for name, found in others.items() if found}
    proxies_page.write(proxies, DOCS)
    dadi = read_result("dadi")
    dadi_page.write(dadi, DOCS)
    faias = read_result("faias")
    faias_page.write(faias, DOCS)
    untuned = untuned_page.understanding(
        read_result("init-corpus"), read_result("init-size"), _provenance
    )
    untuned += untuned_page.sections(read_result("untuned"), _provenance)
    untuned += membership_study.sections(read_result("membership"), _provenance)
    untuned += tuning_page.sections(read_result("tuning"), _provenance)
    for name in ("tuning_30s", "tuning_30s_wall", "tuning_120s"):
        untuned += short_tuning.short_sections(read_result(name), _provenance)
    untuned += smoothed_thresholds.sections(read_result("smoothed_thresholds"), _provenance)
    untuned += tuned_jobs.sections(read_result("tuned_jobs"), _provenance)
    untuned += tuned_limits.sections(read_result("tuned_limits"), _provenance)
    untuned += two_limits.sections(read_result("two_limits"), _provenance)
    first_answers = [read_result(tune_first_answer.NAME), read_result(tune_first_answer.SLOWER)]
    untuned += tune_first_answer.sections(first_answers, _provenance)
    untuned += tune_under_load.sections(read_result("tune_under_load"), _provenance)
    untuned += tune_interrupted.sections(read_result("tune_interrupted"), _provenance)
    untuned += alternative_bounds.sections(read_result("alternative_bounds"), _provenance)
    untuned += alternative_search.sections(read_result("alternative_search"), _provenance)
    operations = untuned + operations_page.sections(
        read_result("evaluate"), read_result("services"), read_result("latency"), _provenance
    )
    text = page(
        tables,
        speed,
        budro,
        sensei,
        proxies,
        dadi,
        faias,
        operations,
        read_result("judged"),
        read_result("mitigated_speed"),
        read_result("fronts"),
        read_result("nothing_new"),
        read_result("worker_nothing_new"),
    )
    split_page.write(text, DOCS)
    cases_section.write(read_result("case_files"), DOCS / "cases.md")
    app_section.write(read_result("app_speed"), DOCS / "how-to" / "app.md")
    needed = ("fronts", "dadi", "faias", "proxies_judged", "planted_worlds", "real_tables")
    kept = {name: read_result(name) for name in needed}
    if all(kept.values()):
        choose_page.write(DOCS / "choose-a-method.md", kept)


def page(
    tables: dict[str, Any],
    speed: dict[str, Any],
    budro: dict[str, Any],
    sensei: dict[str, Any] | None = None,
    proxies: dict[str, Any] | None = None,
    dadi: dict[str, Any] | None = None,
    faias: dict[str, Any] | None = None,
    operations: Sequence[str] = (),
    by_protocol: dict[str, Any] | None = None,
    mitigated: dict[str, Any] | None = None,
    fronts: dict[str, Any] | None = None,
    nothing_new: dict[str, Any] | None = None,
    on_worker: dict[str, Any] | None = None,
) -> str:
    """The text; missing parts, other than `tables` and `speed`, are left out."""
    parts = [HEAD]
    parts += [PROTOCOL, _provenance(tables)]
    for prefix, title in TABLES.items():
        parts.append(f"### {title}\n")
        for name, row in tables["rows"].items():
            if name.startswith(prefix):
                parts.append(_job(name, row))
    parts += method_fronts.sections(fronts or {}, _provenance)
    parts += judged_methods.sections(by_protocol or {}, _provenance)
    parts += [_speed(speed), _provenance(speed)]
    if "joined_columns" in speed:
        parts += [
            _joined(speed["joined_columns"]),
            _provenance(speed["joined_columns"]["measured"]),
        ]
    if mitigated:
        parts += [_mitigated(mitigated["results"]), _provenance(mitigated)]
    if nothing_new:
        parts += [_nothing_new(nothing_new), _provenance(nothing_new)]
    if on_worker:
        parts += [_on_worker(on_worker), _provenance(on_worker)]
    sections: dict[str, Callable[[Any], str]] = {
        "exact": _exact,
        "differences": _differences,
        "ratios": _ratios,
        "smooth": _smooth,
    }
    present = [name for name in sections if name in budro]
    if present:
        parts.append("## BuDRO at full scale\n")
    for name in present:
        parts += [sections[name](budro[name]["result"]), _provenance(budro[name])]
    parts += sensei_page.sections(sensei or {}, _provenance)
    parts += proxies_page.sections(proxies or {}, _provenance)
    parts += dadi_page.sections(dadi or {}, _provenance)
    parts += faias_page.sections(faias or {}, _provenance)
    parts += operations
    return "\n".join(parts)


def _on_worker(measured: dict[str, Any]) -> str:
    """The sentence on an unchanged retraining in a work pool."""
    seconds = f"{measured['unchanged_cpu_s']:.2f} and {measured['noop_cpu_s']:.2f}"
    ratio = f"{measured['ratio']:.2f}; at most {measured['target_ratio']:g} was asked"
    return f"""\
**An unchanged retraining on a worker**, CPU seconds of the run's process tree, and those of a flow that does nothing, in
turns in one process pool: {seconds}, medians of {measured["pairs"]}. The median ratio of a pair
is {ratio}.
"""


def _job(name: str, row: dict[str, Any]) -> str:
    lines = [
        f"**{name}** ({row['source']})\n",
        "| metric | ours | paper | |",
        "|---|---|---|---|",
    ]
    for metric, (mean, deviation) in row["ours"].items():
        printed = row["paper"].get(metric)
        cells = (
            ("", "")
            if printed is None
            else (format_row(printed), verdict(metric, (mean, deviation), printed))
        )
        lines.append(f"| {metric} | {mean:.3f} ± {deviation:.3f} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def _speed(speed: dict[str, Any]) -> str:
    step, overhead = speed["german_budro_step"], speed["overhead"]
    return f"""\
## Speed

**A boosting step of BuDRO on German** ({step["rows"]} rows, {step["features"]} features, transport
included, median of {step["repeats"]} trainings of {step["steps"]} steps): **{step["ms_per_step"]} ms**.
A plain implementation of the same algorithm in array operations, with a new training matrix and a full
prediction at every step, takes {step["plain_rendering_ms_per_step"]} ms in the same run: {step["ratio"]}
times as long.

**Whole commands** on German, wall time:

| command | seconds |
|---|---|
| `evenhand --help` | {overhead["help_s"]} |
| `evenhand run german-budro`, everything cached | {overhead["cached_german_budro_s"]} |
| the same, nothing cached | {overhead["cold_german_budro_s"]} |
| … of which outside training and evaluation | {overhead["cold_german_budro_outside_train_and_evaluate_s"]} |
| the same in a new store (databases are made) | {overhead["cold_german_budro_new_store_s"]} |
"""


def _joined(jobs: dict[str, Any]) -> str:
    rows = "".join(
        f"| `{job}` | {item['rows']:,} | {item['columns']} | {item['joined_columns']} "
        f"| {item['joined_cpu_s']} | {item['apart_cpu_s']} | {item['ratio']} "
        f"| {'yes' if item['same_model'] else 'no'} |\n"
        for job, item in jobs.items()
        if job != "measured"
    )
    return f"""\
**Trees with their one-hot columns joined** for XGBoost, default settings, one core, medians of five (`python
-m benchmarks.speed.pipeline_speed joined_columns`). Where that would not halve the columns they stay as they are, as
on COMPAS: both of its times are of the same training.

| job | rows | columns | joined | CPU seconds | columns as they are | ratio | same model |
|---|---|---|---|---|---|---|---|
{rows}"""


def _mitigated(results: dict[str, Any]) -> str:
    """A row for each method and number of rows: CPU seconds of a whole run, and of its steps."""
    lines = []
    for method, by_rows in results.items():
        if method in ("metric", "wide"):
            continue
        for rows, item in sorted(by_rows.items(), key=lambda pair: int(pair[0])):
            alone = results["metric"].get(rows, {}).get("cpu_seconds", "")
            lines.append(_mitigated_row(method, f"{int(rows):,}", item, str(alone)))
    loads = []
    for method, item in results.get("wide", {}).items():
        lines.append(_mitigated_row(method, "16,000 of Adult", item, ""))
        if "load" in item:
            loads.append(f"{item['load']:g} for `{method}`")
    shared = ""
    if loads:
        shared = (
            "Processes that ran or waited when its rows were begun (load average; other work on the\n"
            f"same cores makes CPU seconds longer): {', '.join(loads)}.\n"
        )
    return f"""\
**Runs with a learned fair metric**, CPU seconds of one core: `evenhand init` with the defaults for people of the planted
world *salaries*, then `evenhand run` in a store of its own. Training rows are 80 % of the table. The last column is the
metric alone, learned in a process of its own. Adult is wide: six columns of categories are 83 columns of the matrix. Its
sensitive column is no input, and so 46 directions are free.
{shared}
| method | training rows | whole run | metric | controls | training | evaluation | metric alone |
|---|---|---|---|---|---|---|---|
{"".join(lines)}"""


def _mitigated_row(method: str, rows: str, item: dict[str, Any], alone: str) -> str:
    """A line of the table of runs with a learned fair metric."""
    cells = [f"`{method}`", rows, f"{item['cpu_seconds']:.1f}"]
    for name in ("fair_metric", "controls", "train", "evaluate"):
        cells.append(f"{item['steps'][name]:.1f}")
    return f"| {' | '.join([*cells, alone])} |\n"


def _nothing_new(result: dict[str, Any]) -> str:
    """A row for each command: CPU seconds with all its work, and with nothing new."""
    first = result["first_cpu_s"]
    lines = []
    for name, seconds in result["nothing_new_cpu_s"].items():
        work = ""
        if name in first:
            work = f"{first[name]:.2f}"
        runs = ", ".join(f"{each:.2f}" for each in result["all_cpu_s"][name])
        target = ""
        if name in result["target"]:
            target = f"{result['target'][name]:g}"
        lines.append(f"| `{name}` | {work} | {seconds:.2f} | {runs} | {target} |\n")
    ratio = result["if_changed_to_cached_run"]
    limit = result["target"]["if_changed_to_cached_run"]
    return f"""\
**Commands that find nothing new**, CPU seconds of whole processes with the programs that they start: the job `bank-gbdt`,
the proxy `bank-proxy`, and 15,070 people who arrive in a file or in a table of SQLite. `run --if-changed` takes {ratio:.2f}
of a cached run; at most {limit:g} were asked.

| command | with all its work | nothing new, median | each run | target |
|---|---|---|---|---|
{"".join(lines)}"""


def _exact(found: dict[str, Any]) -> str:
    return f"""\
### Against a linear program

{found["instances"]} random transport problems of 2 to 60 rows, with ties and duplicates among them, against
{found["oracle"]}. The largest differences:

| | |
|---|---|
| adversarial loss, relative to the oracle's | {found["largest_relative_difference"]:.1e} |
| spent beyond the budget | {found["largest_overspending"]:.1e} |
| between the plan's loss and its own upper bound | {found["largest_duality_gap"]:.1e} |
"""


def _ratios(found: dict[str, Any]) -> str:
    return f"""\
### A step compared with others

Adult at the printed settings, {found["steps"]} steps, all timed in turn in one process with one thread,
in seconds of the CPU. Ratios of medians:

| | |
|---|---|
| a step of BuDRO over a step of plain XGBoost on the same doubled rows | {found["over_plain_xgboost"]} |
| the same of the means, from the second step on | {found["mean_over_plain_xgboost"]} |
| Algorithm 2 with all costs stored over a step of BuDRO | {found["stored_costs_over_budro"]} |

Algorithm 2 is rendered in array operations of single precision, as the authors store their costs: 100
batches of 200 columns and a pass over all, scaled from 2,000 columns. It is approximate, and its step
excludes the boosting. All costs take {found["stored_costs_bytes"] / 1e9:.1f} GB.
"""


def _smooth(found: dict[str, dict[str, Any]]) -> str:
    names = {"adult": "Adult", "two_features": "generated rows of two features, ε = 0.01"}
    lines = [
        f"| {names[name]} | {case['rows']:,} | {case['over_plain_xgboost']} | "
        f"{case['mean_over_plain_xgboost']} |"
        for name, case in found.items()
    ]
    return "\n".join(
        [
            "### A step compared with unmitigated boosting where losses are smooth\n",
            "As above, with trees of depth 2: a step of BuDRO over one of plain XGBoost.\n",
            "| | rows | medians | means |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )


def _differences(found: dict[str, list[dict[str, float]]]) -> str:
    """One row for every variant and split."""
    columns: tuple[str, ...] = (
        "balanced_accuracy",
        "consistency.spouse",
        "consistency.gender_race",
    )
    columns += ("gap_max.sex", "gap_rms.sex", "gap_max.race", "gap_rms.race")
    printed = (0.815, 0.944, 0.957, 0.146, 0.114, 0.083, 0.072)
    lines = [
        "| printed (mean of ten splits) | | "
        + " | ".join(f"{value:.3f}" for value in printed)
        + " |"
    ]
    for name, splits in found.items():
        for number, row in enumerate(splits):
            values = " | ".join(f"{row[column]:.3f}" for column in columns)
            lines.append(f"| {name} | {number} | {values} |")
    table = "\n".join(lines)
    return f"""\
### One difference from the printed setting at a time

Adult at the printed parameters; every row has the one change that it names. Nothing is chosen.
[The notes on BuDRO](research/budro.md#adult-how-the-printed-row-is-reached) say what follows.

| variant | split | balanced accuracy | spouse | sex and race | max sex | RMS sex | max race | RMS race |
|---|---|---|---|---|---|---|---|---|
{table}
"""


def _provenance(result: dict[str, Any]) -> str:
    machine = result["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in result["packages"].items())
    return (
        f"*{machine['cores']} cores, {machine['cpu']}, {machine['system']}; "
        f"Python {result['python']}; {packages}; {result['measured'][:10]}; "
        f"`{result['command']}`*\n"
    )


if __name__ == "__main__":
    main()
