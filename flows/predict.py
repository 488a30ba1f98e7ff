"""Predicting: a published classifier adds predictions to the rows of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evenhand.flows.data_source import checked_section, read_overrides
from evenhand.flows.engine import RunFolder, Verdict, recorded_verdict
from evenhand.flows.file_runs import fill_verdict, note_idle, on_dask
from evenhand.flows.job import FileSection
from evenhand.flows.workers import check_engine
from evenhand.tasks.bundle import Bundle, open_bundle, parse_address
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.filtering.engine import Report, process_files
from evenhand.tasks.filtering.predicting import PredictSettings, RowPredictor
from evenhand.tasks.filtering.summary import RunSummary
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.registry import tracking_uri
from evenhand.tasks.store import Store

# Regulation B advises against more than four principal reasons (12 CFR 1002.9, official interpretation).
MOST_ADVERSE = 4


class Predict(FileSection):
    """Keys of `evenhand predict --set predict.KEY=VALUE`."""

    sensitive: Literal["keep", "drop", "refuse"] = "keep"
    """Keep sensitive columns in the output, leave them out, or refuse a file that has one."""


@dataclass(frozen=True)
class PredictPlan:
    """Checked options of a prediction run."""

    model: str
    section: Predict
    settings: PredictSettings
    input: str
    output: str

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{parse_address(self.model).run_name}-predict"


def plan_prediction(
    model: str,
    input: str,
    output: str,
    overrides: Sequence[str] = (),
    reasons: int | None = None,
    *,
    adverse: bool = False,
) -> PredictPlan:
    """Check the options of a prediction run before anything is read.

    With `adverse` and no number of reasons there are four, as many as creditors state.

    Raises `InputError` with one line that names what is wrong and the cure.
    """
    parse_address(model)
    if reasons is not None and reasons < 1:
        raise InputError(f"--reasons is {reasons}: give a number of at least 1, or leave it out.")
    known = [f"predict.{key}" for key in Predict.model_fields]
    given = {key.removeprefix("predict."): value for key, value in read_overrides(overrides, known).items()}
    # as in a job, an empty key counts as absent
    keys = checked_section(
        Predict, "predict", {key: value for key, value in given.items() if value is not None}
    )
    section = Predict.model_validate(keys)
    check_engine(section, "predict")
    chosen = section.model_dump(exclude={"engine", "address"})
    settings = PredictSettings(reasons=reasons or (MOST_ADVERSE if adverse else 0), adverse=adverse, **chosen)
    return PredictPlan(model, section, settings, input, output)


def execute(
    plan: PredictPlan,
    store: Store,
    run_id: str,
    report: Report,
    *,
    keep_idle: bool = True,
) -> Verdict:
    """Predict, and write a verdict and a page; for a watched input without new files only the verdict.

    The verdict is ``predicted``, with exit code 2 if some files could not be predicted, or ``up_to_date`` if
    no file was new; then, without `keep_idle`, none is written. Raises `EvenhandError` after the verdict of a
    failed run was written.
    """
    with recorded_verdict(store, run_id, keep_idle=keep_idle) as verdict, store.workdir() as scratch:
        bundle, settings = open_bundle(plan.model, store, scratch), plan.settings
        if settings.reasons:
            named = sorted(
                (column, tuple(sorted(names.items()))) for column, names in bundle.value_names.items()
            )
            settings = replace(settings, value_names=tuple(named))
        version = f"{bundle.name}/{bundle.version}" if bundle.version else ""
        judge = RowPredictor.load(bundle.folder, settings, version)
        place = (str(bundle.folder), tracking_uri(store), bundle.name, version)
        workers = on_dask(plan.section, place, settings)
        summary = process_files(judge, plan.input, plan.output, report, workers)
        fill_verdict(verdict, summary, "predicted")
        verdict.model = bundle.described()
        verdict.seconds = {"predict": round(summary.seconds, 3)}
        rows = summary.rows_out
        verdict.metrics["positive"] = summary.expected_out / rows if rows else None
        if not note_idle(verdict, summary, settings, "predicted"):
            _write(store, verdict, plan, bundle, summary)
    return verdict


def _write(store: Store, verdict: Verdict, plan: PredictPlan, bundle: Bundle, summary: RunSummary) -> None:
    folder, (negative, positive) = RunFolder(store, verdict), bundle.inputs["label_values"]
    documents = {"predicted": summary.to_dict(), "settings": plan.settings.to_dict()}
    facts: dict[str, Any] = {
        "created": now(),
        "status": verdict.status,
        "judged": verdict.model,
        "input": without_secrets(plan.input),
        "output": without_secrets(plan.output),
        "label": {"name": bundle.contract.label.name, "positive": positive, "negative": negative},
        "tested": bundle.evaluation.get("tested"),
        "min_cell": bundle.evaluation["evaluate"]["min_cell"],
        "seconds": summary.seconds,
        "environment": environment(),
    }
    verdict.artifacts["output"] = str(facts["output"])
    folder.write_json("predict", "predict.json", {"run_id": verdict.run_id, **facts, **documents})
    made = [("The settings", [[key, str(value)] for key, value in plan.settings.to_dict().items()])]
    folder.write_report("predict", documents, facts | {"value_names": bundle.value_names, "made": made})
