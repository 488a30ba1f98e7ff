"""Tune: search methods and their parameters on folds of the training rows, and measure the winner once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import TOKEN_METRICS
from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.tuning.study import Aim, Limit, Trial, best, costs, front, nearest, settled, within
from evenhand.flows import classifier
from evenhand.flows.engine import Engine, RunFolder, Steps, Verdict, recorded_verdict
from evenhand.flows.run import prepare, run_to_gate
from evenhand.flows.tune_plan import LEAVE_OUT, TunePlan, decision_of, plan_of_rows, tuned_text
from evenhand.flows.workers import Pool, cores, make_pool
from evenhand.tasks.dataset import read_dataset
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.controls import CONTROLS
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.pages.fronts.tune import holds, label_of, trial_of
from evenhand.tasks.step import Report, Step, listen, report_progress, run_step, step_key
from evenhand.tasks.store import Artifact, Store
from evenhand.tasks.tuning.search import SCORES, Candidate, Plan, Rule, Study

JUDGE = Step("judge", home="tuning.judge")
# A page of the search is written after an improvement, at most so often.
PAGE_EVERY_S = 30.0


def execute(plan: TunePlan, store: Store, run_id: str, engine: Engine, *, prefect: bool = False) -> Verdict:
    """Search until the time is up, then train the winner on all training rows and measure it on test rows.

    The search gets the training rows, the fair metric and the encoder; the steps that read the test rows run
    after it. The tuned job is written only if a trial is within the limits. Raises `EvenhandError` after the
    verdict was written.
    """
    if not store.is_local:
        raise InputError(
            f"a study is kept in a folder, and the store {store.url} is remote: use --store FOLDER."
        )
    steps, started = Steps(store, engine), time.perf_counter()
    with recorded_verdict(store, run_id, steps) as verdict:
        # its processes start while the steps run that all trials share
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(_pool(plan)) if plan.searches(True) else None
            prepare(plan.resolved, steps)
            rows = Rows.read(plan, steps)
            default = f"{plan.resolved.job.name}-{rows.identity['search'][:10]}"
            study = Study(Path(store.local, STUDIES, plan.tune.study or default))
            with study.held():
                _open(study, rows)
                if plan.searches(bool(study.trials())):
                    pool = pool or stack.enter_context(_pool(plan))
                    search(plan, rows, study, store, report_progress("tune", prefect=prefect), pool)
                trials = study.trials()
        if all(trial.kind in CONTROLS for trial in trials):
            raise InputError(
                "there was no time for one trial beside the controls: give more --minutes or --trials; what "
                "is finished is kept."
            )
        document = tuning(rows.identity, plan.tune.prefer, study.folder.name, trials)
        verdict.status, verdict.exit_code = "evaluated", 0
        documents: dict[str, Any] = {"tuning": document}
        winner = best(plan.aim, trials, plan.tune.prefer)
        if winner is None:
            verdict.exit_code, verdict.error = 3, no_winner(plan.aim, trials)
        else:
            _measure(plan, winner, rows, document, verdict, engine, store)
            digest = hashlib.sha256(json.dumps([rows.identity, document["trials"]]).encode()).hexdigest()
            text = tuned_text(plan, winner, rows.count, {"study": study.folder.name, "digest": digest})
            plan.target.write_text(text, encoding="utf-8")
            verdict.artifacts["tuned"] = str(plan.target)
        document["seconds"] = round(time.perf_counter() - started, 1)
        document["notes"] = notes_of(document)
        folder = RunFolder(store, verdict)
        folder.write_json("tuning", "tuning.json", document, "the study as JSON")
        verdict.notes += document["notes"]
        folder.write_report("tune", documents, {"made": [["The search", facts(plan, document)]]})
    return verdict


@dataclass(frozen=True)
class Rows:
    """What the search works on: the plan, the training rows and their number, the inputs of each method."""

    plan: Plan
    count: int
    identity: dict[str, Any]
    training: Mapping[str, tuple[dict[str, Any], dict[str, Artifact]]]
    encoder: Artifact
    checked: Artifact
    train: Artifact
    folds: int

    @classmethod
    def read(cls, plan: TunePlan, steps: Steps) -> Rows:
        """Run the steps that all trials share, and check that the rows suffice for the folds."""
        # imported lazily: `--status` needs no numeric library
        from evenhand.tasks.tuning.judge import check_folds

        train, _ = classifier.training_rows(plan.resolved, steps)
        training = {
            name: classifier.training_step(variant, steps, train) for name, variant in plan.variants.items()
        }
        data = read_dataset(steps.store.fetch(train))
        folds = plan.folds(len(data.y))
        check_folds(data, folds)
        searched = plan_of_rows(plan, len(data.y))
        # the keys of the job that a judgement depends on beside the training rows
        kept = {"method", "calibration", "decision", "fair_metric", "sensitive", "evaluate"}
        judged_by = plan.resolved.job.model_dump(mode="json", include=kept)
        identity = {
            "job": plan.resolved.job.name,
            "table": steps.output("ingest", "raw").sha256,
            "contract": plan.resolved.table_contract.digest,
            "aim": asdict(plan.aim),
            "level": plan.resolved.job.evaluate.level,
            "methods": list(searched.methods),
            "decisions": list(dict.fromkeys(rule.decision for rule in searched.judged_under)),
            "halving": searched.halving,
            "search": _digest([train.sha256, folds, judged_by, describe_plan(searched)]),
        }
        encoder, checked = steps.output("preprocess", "encoder"), steps.output("contract", "checked")
        return cls(searched, len(data.y), identity, training, encoder, checked, train, folds)


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return what identifies a search, as plain JSON."""
    return {
        "aim": [str(plan.aim), plan.aim.bound],
        "methods": {
            name: {key: repr(item) for key, item in space.items()} for name, space in plan.methods.items()
        },
        "rules": [asdict(rule) for rule in plan.judged_under],
        "seed": plan.seed,
        "sampler": plan.sampler,
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _open(study: Study, rows: Rows) -> None:
    """Open the study, or begin it; an `InputError` if it is of another table, contract or search."""
    found = study.identity() if study.exists else None
    if found is None:
        study.clear()
        study.create(rows.plan, rows.identity)
        return
    for key in ("table", "contract", "search"):
        if found[key] != rows.identity[key]:
            raise InputError(
                f"the study {study.folder.name!r} is of another {key}: choose another name with --study, or "
                "leave it out."
            )


def search(
    plan: TunePlan, rows: Rows, study: Study, store: Store, report: Report, pool: Pool | None = None
) -> None:
    """Judge candidates until the time is up, in the `pool`'s workers or in this process.

    ``report(done, total, values)`` is called after each model.
    """
    most, started = plan.tune.trials or 10**9, time.monotonic()

    def judge(candidate: Candidate, rules: Sequence[Rule], first: bool) -> Sequence[Mapping[str, Any]]:
        parameters, inputs = judging(plan, rows, candidate, rules, first=first)
        spec = METHODS[candidate.method or plan.resolved.method]
        modules = list(dict.fromkeys([spec.module, METHODS[spec.plain].module]))
        given = (store.url, parameters, inputs, modules)
        found: Sequence[Mapping[str, Any]] = judged(*given) if pool is None else pool.run(judged, *given)
        return found

    shown: dict[str, Any] = {"winner": None, "at": started}

    def on_trial(trials: list[Trial]) -> None:
        found = best(plan.aim, trials, plan.tune.prefer)
        is_due = time.monotonic() - shown["at"] >= PAGE_EVERY_S
        if found is not None and found.number != shown["winner"] and is_due:
            shown.update(winner=found.number, at=time.monotonic())
            write_study_page(store, tuning(rows.identity, plan.tune.prefer, study.folder.name, trials))
        values: dict[str, float] = {"trials": len(trials)}
        if found is not None:
            values |= {plan.first: found.metrics[plan.first]["value"] or 0.0}
        if plan.tune.trials is not None:
            report(min(len({trial.model for trial in trials}), most), most, values)
        else:
            passed = min(time.monotonic() - started, plan.seconds)
            report(int(passed), max(int(plan.seconds), 1), values)

    study.search(
        rows.plan,
        judge,
        until=started + plan.seconds,
        most=most,
        workers=1 if pool is None else _workers(plan),
        on_trial=on_trial,
        interrupt=(lambda: None) if pool is None else lambda: pool.close(kill=True),
    )


def _workers(plan: TunePlan) -> int:
    return plan.tune.workers or len(cores())


def _pool(plan: TunePlan) -> Pool | contextlib.nullcontext[None]:
    """Return the workers that judge models, or a context without any where this process does."""
    alone = plan.tune.engine == "processes" and _workers(plan) == 1
    return contextlib.nullcontext() if alone else make_pool(plan.tune, _workers(plan))


def judged(
    store_url: str, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact], modules: Sequence[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the results of a candidate by rule, from the cache if it was judged before."""
    store = Store(store_url)
    with listen(None):
        record, _ = run_step(store, JUDGE, step_key(JUDGE, parameters, inputs, modules), parameters, inputs)
    content = json.loads(store.fetch(record.outputs["judged"]).read_text())
    found: Sequence[Mapping[str, Any]] = content["rules"]
    return found


def judging(
    plan: TunePlan, rows: Rows, candidate: Candidate, rules: Sequence[Rule], *, first: bool
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the step that judges a candidate: no test rows are among them."""
    resolved, job, own = plan.resolved, plan.resolved.job, plan.resolved.method
    is_control = candidate.kind in CONTROLS
    searched = dict(candidate.arguments)
    leave_out = searched.pop(LEAVE_OUT, ())
    if is_control:
        arguments = classifier.shared_arguments(own, resolved.arguments)
        parameters, inputs = {"method": own, "arguments": arguments, "seed": job.seed}, {"train": rows.train}
    else:
        given, artifacts = rows.training[candidate.method or own]
        parameters = {**given, "arguments": {**plan.base(candidate), **searched}}
        inputs = dict(artifacts)
    settings = job.evaluate
    kinds = ("consistency", *TOKEN_METRICS)
    named = {name.partition(".")[2] for name in plan.aim.metrics if name.partition(".")[0] in kinds}
    copies, terms = (
        {name: item for name, item in settings.model_dump()[key].items() if name in named}
        for key in ("counterfactuals", "terms")
    )
    if copies or terms:
        inputs["encoder"] = rows.encoder
    if terms:
        inputs["checked"] = rows.checked
    label = resolved.contract.label
    if label.classes:
        parameters["classes"] = list(map(str, label.classes))
    else:
        parameters["favourable"] = label.favourable_code
    parameters |= {
        "kind": "" if not is_control else candidate.kind,
        "leave_out": list(leave_out),
        "calibration": job.calibration,
        "rules": [_rule(plan, rule, is_control=is_control) for rule in rules],
        "min_cell": settings.min_cell,
        "folds": rows.folds,
        "fold_seed": job.seed,
        "first": first,
        "measure": {
            "counterfactuals": copies,
            "terms": terms,
            **settings.model_dump(include={"draws", "level", "min_cell", "intersections"}),
            "test_share": job.split.test,
            "predicted": plan.aim.metrics if plan.aim.bound in ("auto", "prediction") else [],
            "score_intervals": any(name.partition(".")[0] in SCORES for name in plan.aim.metrics),
        },
    }
    return parameters, inputs


def _rule(plan: TunePlan, rule: Rule, *, is_control: bool) -> dict[str, Any]:
    decision = decision_of(plan, rule.decision, rule.tolerance)
    if is_control:
        decision = decision.model_copy(update={"equal": None})
    if decision.equal is None:
        return {"decision": decision.model_dump()}
    changed = plan.resolved.job.model_copy(update={"decision": decision})
    attribute = classifier.attribute(plan.resolved.model_copy(update={"job": changed}))
    return {"decision": decision.model_dump(), "attribute": attribute}


def _measure(
    plan: TunePlan,
    winner: Trial,
    rows: Rows,
    document: dict[str, Any],
    verdict: Verdict,
    engine: Engine,
    store: Store,
) -> None:
    """Train the winner on all training rows, measure it on the test rows, and repeat that."""
    resolved = plan.tuned(winner, rows.count)
    steps = Steps(store, engine)
    decision = run_to_gate(resolved, steps).decision
    metrics = steps.read("evaluate", "metrics")["metrics"]
    document["test"] = _short(metrics)
    document["test_rows"] = steps.read("evaluate", "metrics")["n"]
    controls = steps.read("evaluate", "controls")["controls"]
    document["test_controls"] = {name: control["metrics"] for name, control in controls.items()}
    verdict.gates = decision
    document["gates"] = decision["verdict"]
    verdict.add_metrics(metrics)
    verdict.seconds |= {name: round(value, 3) for name, value in steps.seconds.items()}
    for number in range(1, plan.tune.repeats + 1):
        seed = resolved.job.seed + number
        other = resolved.model_copy(update={"job": resolved.job.model_copy(update={"seed": seed})})
        # the same split: rows that the search saw stay out of the measurement
        again = Steps(store, engine, dict(steps.finished))
        classifier.train_and_measure(other, again)
        found = again.read("evaluate", "metrics")["metrics"]
        document["repeats"].append({"seed": seed, "metrics": _short(found)})


def _short(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: {key: metric[key] for key in ("value", "low", "high")} for name, metric in metrics.items()}


# what the page shows beside the results


def facts(plan: TunePlan, document: Mapping[str, Any]) -> list[list[str]]:
    """Return what the page shows of this search beside its results, as names and values."""
    spaces = []
    for name, space in plan.methods.items():
        marks = {key: " (logarithmic)" if getattr(item, "log", False) else "" for key, item in space.items()}
        ranges = [f"{key}: {item}{marks[key]}" for key, item in space.items()]
        spaces.append([f"Space of {name}", "; ".join(ranges) or "nothing to search"])
    return [
        ["Job", document["job"]],
        ["Study", document["study"]],
        *spaces,
        ["Rules of decisions", ", ".join(document["decisions"])],
        ["Seed", str(plan.resolved.job.seed)],
        ["Seconds", f"{document['seconds']:.1f}"],
    ]


STUDIES = "studies"


def tuning(
    identity: Mapping[str, Any], prefer: str | None, study: str, trials: Sequence[Trial]
) -> dict[str, Any]:
    """Return the content of ``tuning.json``: plain JSON, with all trials.

    `identity` is what the study was begun with; `prefer` a metric to choose the winner by.
    """
    given = identity["aim"]
    limits = tuple(Limit(**limit) for limit in given["limits"])
    asked = Aim(tuple(given["objectives"]), limits, given["bound"])
    aim = settled(asked, trials)
    first = prefer or aim.objectives[0]
    winner, close = best(aim, trials, prefer), nearest(aim, trials)
    shown = list(dict.fromkeys([*aim.metrics, first]))
    rows = []
    for trial in trials:
        row = vars(trial) | {"metrics": {name: trial.metrics.get(name, {}) for name in shown}}
        row |= {"number": trial.number, "label": label_of(row)}
        rows.append(row | {"miss": aim.miss(trial.metrics) if trial.metrics else None})
    return {
        **{key: identity[key] for key in ("job", "level", "methods", "decisions", "halving")},
        "study": study,
        "aim": str(aim),
        "objectives": list(aim.objectives),
        "prefer": first,
        "limits": [asdict(limit) | {"text": str(limit)} for limit in aim.limits],
        "bound": aim.bound,
        "bound_asked": asked.bound,
        "trials": rows,
        "front": [trial.number for trial in front(aim, trials)],
        "winner": None if winner is None else winner.number,
        "nearest": None if close is None else close.number,
        "costs": costs(aim, trials, first),
        "test": None,
        "test_rows": None,
        "test_controls": {},
        "repeats": [],
        "gates": None,
        "notes": [],
        "seconds": round(sum(trial.seconds for trial in trials if trial.rule == 0), 1),
    }


def no_winner(aim: Aim, trials: Sequence[Trial]) -> str:
    """Say in one line that no trial is within the limits, and which is nearest."""
    aim, close = settled(aim, trials), nearest(aim, trials)
    if close is None:
        errors = [trial.error for trial in trials if trial.error]
        return f"no trial could be judged: {errors[0] if errors else 'the time was too short'}"
    misses = []
    for limit in aim.limits:
        if missed := aim.shortfall(limit, close.metrics):
            value, end = close.metrics.get(limit.metric, {}).get("value"), aim.found(limit, close.metrics)
            ends = f" (value {value:.3g}, end of the interval {end:.3g})" if end != value else ""
            misses.append(f"{limit} by {missed:.3g}{ends}")
    advice = ""
    if aim.bound != "point" and within(replace(aim, bound="point"), trials):
        advice = "; with --bound point, limits hold on values alone, and some trials are within them"
    return (
        f"none of {len(trials)} trials is within the limits: the nearest, number {close.number}, misses "
        f"{' and '.join(misses)}{advice}."
    )


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Say what the reader must know of the winner: no mitigation is needed, or a limit is missed."""
    winner = trial_of(document, document["winner"])
    if winner is None:
        return []
    notes = []
    if winner["kind"] == "plain":
        notes.append("no mitigation is needed: the control without it is the best within the limits")
    if winner["kind"] == "blind":
        notes.append(
            "leaving out the sensitive columns is enough: no method does better within the limits, and the "
            "tuned job has them under leave_out"
        )
    if document["limits"] and (document["bound_asked"], document["bound"]) == ("auto", "interval"):
        notes.append(
            "no trial keeps the limits with the margin that the test rows call for: the winner keeps them on "
            "the interval of the validation rows, and the test rows may miss them"
        )
    if document["gates"] not in (None, "passed"):
        notes.append("the job’s gates do not pass on the test rows: `evenhand run` would not publish it")
    for limit in document["limits"]:
        found = (document["test"] or {}).get(limit["metric"], {}).get("value")
        if found is not None and not holds(limit, document["test"]):
            notes.append(f"on the test rows {limit['metric']} is {found:.3f}, which misses {limit['text']}")
    return notes


def write_study_page(store: Store, document: dict[str, Any]) -> None:
    """Write the page of a study as far as it is, and its address as ``report`` into the document."""
    name = document["study"]
    run = {"id": name, "created": now(), "environment": environment(), "files": [], "made": []}
    page = write_page("tune", {"tuning": document, "run": run}, store)
    document["report"] = store.write_text(page, STUDIES, name, "report.html")


def status(job: str, named: str | None, store: Store) -> dict[str, Any]:
    """Read the newest study of a job, or the named one, and write its page; `InputError` if there is none."""
    root = Path(store.local, STUDIES)
    found = sorted(root.glob("*/journal.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        study = Study(path.parent)
        identity = study.identity()
        if identity is None or identity["job"] != job or named not in (None, path.parent.name):
            continue
        # its own aim: the command may have been given another
        document = tuning(identity, None, path.parent.name, study.trials())
        write_study_page(store, document)
        return document
    raise InputError(f"there is no study of {job!r} in this store: run without --status first.")
