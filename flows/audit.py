"""An audit: predictions of a file, or of a model that others trained, are measured and judged by
gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import group_metrics, names_of
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.flows.data_source import DataSource, parse_data
from evenhand.flows.engine import Engine, Steps, Verdict, recorded_verdict
from evenhand.flows.evaluate import fill_verdict, write_reports
from evenhand.flows.run import ingest, reading_notes
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.evaluating.limits import OF_RUNS, check_metric, judge, read_limits
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sources.model_fetching import fetch_model
from evenhand.tasks.written_input import (
    as_number,
    check_columns,
    parse_yaml,
    refuse_credentials,
)

SETTINGS = {"draws": 1000, "level": 0.95, "min_cell": 5, "intersections": True}

MAY_HAVE_BEEN_TRAINED = (
    "an audit does not compare these rows with the model's training rows, on which figures are too "
    "good; `evenhand evaluate` does"
)


@dataclass(frozen=True)
class AuditPlan:
    """Checked options of an audit; either `prediction`, a column, or `model` is given."""

    data: DataSource
    prediction: str | None
    model: str | None
    label: str | None
    positive: str | None
    favourable: str | None
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    threshold: float | str | None  # None: a model's own, else a half
    gates: dict[str, Any]
    limits: tuple[Gate, ...]
    weight: str | None = None
    person: str | None = None
    control: tuple[str, ...] = ()
    value_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    at_least: float | None = None  # threshold of a label of numbers
    # columns of predictions that the same command audits: all must be in the table before one is
    together_with: tuple[str, ...] = ()
    # whether values of a sensitive column that seem to be one are read as one
    join_spellings: bool = False

    @property
    def columns(self) -> list[str]:
        """All columns of the table that the options name."""
        single = [self.label, self.weight, self.person]
        names = [*self.together_with, *self.sensitive, *self.features, *self.control]
        return [*names, *(name for name in single if name is not None)]

    @property
    def is_plain(self) -> bool:
        """Whether every row is a person of its own, of weight 1, without control features."""
        return self.weight is None and self.person is None and not self.control

    @property
    def shown(self) -> str:
        """Whose predictions they are."""
        return self.prediction or without_secrets(str(self.model))


@dataclass(frozen=True)
class AuditOptions:
    """The options of `evenhand audit` for one column of predictions, or one model, as written."""

    data: str
    sensitive: Sequence[str]
    prediction: str | None = None
    model: str | None = None
    label: str | None = None
    positive: str | None = None
    favourable: str | None = None
    features: Sequence[str] | None = None
    threshold: str | None = None
    control: Sequence[str] | None = None
    weight: str | None = None
    person: str | None = None
    value_names: Sequence[str] | None = None
    at_least: float | None = None
    join_spellings: bool = False
    gates: Mapping[str, Any] | str | None = None
    overrides: Sequence[str] = ()


def plan_audit(options: AuditOptions) -> AuditPlan:
    """Check the options, before anything is read.

    Raises `InputError` with one line that names what is wrong and the cure.
    """
    if (options.prediction is None) == (options.model is None):
        raise InputError(
            "give either --prediction, a column of the table, or --model, which predicts its rows."
        )
    refuse_credentials(options.model or "", "--model")
    names = _listed(options.sensitive)
    compared = _listed(options.features or ())
    if compared and options.label is None:
        raise InputError("--features needs --label: the certificate is of errors too.")
    if options.at_least is not None and options.label is None:
        raise InputError("--at-least needs --label: it is the threshold of a label of numbers.")
    if not names:
        raise InputError(
            "--sensitive is missing: name the columns whose groups are to be compared."
        )
    controls = _listed(options.control or ())
    _check_roles(options, (*names, *controls), compared)
    chosen, limits = read_limits(options.gates, baseline=False)
    source = parse_data(options.data, options.overrides)
    plan = AuditPlan(
        data=source,
        prediction=options.prediction,
        model=options.model,
        label=options.label,
        positive=options.positive,
        favourable=options.favourable,
        sensitive=names,
        features=compared,
        threshold=_parse_threshold(options.threshold),
        gates=chosen or {},
        limits=limits,
        weight=options.weight,
        person=options.person,
        control=controls,
        value_names=_parse_names(options.value_names or (), names),
        at_least=options.at_least,
        join_spellings=options.join_spellings,
    )
    _check_gates(plan, {**SETTINGS, **source.evaluate}["intersections"])
    return plan


def _check_roles(options: AuditOptions, groups: Sequence[str], features: Sequence[str]) -> None:
    """Refuse a column that has two roles; only a feature may be a sensitive one too."""
    single = [options.prediction, options.label, options.weight, options.person]
    roles = [name for name in (*single, *groups) if name is not None]
    repeated = [name for name in roles if roles.count(name) > 1]
    repeated += [name for name in single if name is not None and name in features]
    if repeated:
        raise InputError(
            f"the column {min(map(str, repeated))!r} has two roles: name another for one of them."
        )


def _parse_threshold(text: str | None) -> float | str | None:
    """Parse a threshold: a number from 0 to 1, or ``median``; None if none is stated."""
    if text is None:
        return None
    threshold = as_number(parse_yaml(text, "--threshold"))
    if threshold == "median":
        return "median"
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:
        raise InputError(f"--threshold is {text!r}: give a number from 0 to 1, or median.")
    return threshold


def _parse_names(texts: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse names of values, each ``COLUMN:VALUE=NAME``."""
    names: dict[str, dict[str, str]] = {}
    for text in texts:
        place, separator, name = text.partition("=")
        column, colon, value = place.partition(":")
        if not (separator and colon and name):
            raise InputError(
                f"--value-name is {text!r}: write COLUMN:VALUE=NAME, such as sex:1=women."
            )
        if column not in columns:
            raise InputError(
                f"--value-name {text!r}: {column!r} is no column of --sensitive "
                f"({', '.join(columns)})."
            )
        names.setdefault(column, {})[value] = name
    return names


def _listed(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names in texts with commas between names, each once."""
    names: list[str] = []
    for text in texts:
        names += [name for name in text.split(",") if name]
    return tuple(dict.fromkeys(names))


def _check_gates(plan: AuditPlan, intersections: bool) -> None:
    """Refuse a gate on a metric that no audit of these columns has."""
    metrics = []
    if plan.features:
        metrics += ["certificate.drf", "certificate.flips"]
    metrics += [name for name in names_of("classifier") if "." not in name and name not in OF_RUNS]
    for kind in (*group_metrics(), "consistency"):
        metrics += [f"{kind}.{name}" for name in plan.sensitive]
    for gate in plan.limits:
        is_of_groups = gate.metric.partition(".")[0] in group_metrics()
        if intersections and is_of_groups and "&" in gate.metric:
            continue
        check_metric(gate, metrics, "this audit")


def execute(plan: AuditPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Measure, decide, and write a verdict and a page; errors are as those of an evaluation."""
    from evenhand.tasks.sources.row_group_blocks import columns_of_raw

    steps = Steps(store, engine)
    source = plan.data
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        ingest(source.source, source.seed or 0, steps, infer=True)
        _refuse_repeated(plan, steps.facts("ingest").get("repeated", []))
        check_columns(plan.columns, columns_of_raw(store.fetch(steps.output("ingest", "raw"))))
        spelling_notes = _read_spellings(plan, steps)
        raw = steps.output("ingest", "raw")
        inputs = {"raw": raw}
        if plan.model:
            inputs["model"] = fetch_model(plan.model, store, scratch, verdict.notes)
        parameters = {
            "prediction": plan.prediction,
            "label": plan.label,
            "positive": plan.positive,
            "favourable": plan.favourable,
            "sensitive": list(plan.sensitive),
            "features": list(plan.features),
            "weight": plan.weight,
            "person": plan.person,
            "control": list(plan.control),
            "value_names": plan.value_names,
            "compared_with": [name for name in plan.together_with if name != plan.prediction],
            "threshold": plan.threshold,
            "evaluate": {**SETTINGS, **source.evaluate},
            "seed": source.seed or 0,
        }
        if plan.at_least is not None:
            parameters["at_least"] = plan.at_least
        steps("measure_predictions", parameters, inputs)
        documents = steps.documents()
        facts = steps.facts("measure_predictions")
        decision = judge(documents["metrics"], plan.gates).to_json()
        judged = _described(plan, inputs.get("model", raw).sha256)
        fill_verdict(verdict, documents, decision, judged)
        verdict.findings = documents["audit"]["verdict"]
        verdict.notes += spelling_notes
        verdict.notes += reading_notes(steps)
        if facts.get("own_decisions"):
            verdict.notes.append(facts["own_decisions"])
            verdict.notes.append(MAY_HAVE_BEEN_TRAINED)
        if facts["outcome"] is not None:
            verdict.notes.append(_favourable_note(facts["outcome"]))
        data: dict[str, Any] = {
            "shown": source.shown,
            "rows": facts["rows"],
            "rows_set_aside": 0,
            "fingerprint": raw.sha256,
            "label": None,
        }
        if plan.label:
            data["label"] = {"name": plan.label, **facts["label"]}
        page_facts = {"judged": judged, "baseline": None, "data": data, "value_names": {}}
        if plan.gates:
            documents |= {"decision": decision}
        kind = "evaluation"
        if facts["outcome"] is None or not plan.is_plain:
            # the sections of an evaluation are of two labels, and of rows of one weight
            kind = "group_audit"
        write_reports(verdict, steps, page_facts, documents, decision, kind=kind)
    return verdict


def _read_spellings(plan: AuditPlan, steps: Steps) -> list[str]:
    """Say which groups seem to be one; read them as one, if the options ask for it."""
    from evenhand.flows.init_forms import described_spellings
    from evenhand.tasks.sources.row_group_blocks import spellings_of_raw

    source = plan.data
    if source.source.get("spellings"):
        return []
    raw = steps.store.fetch(steps.output("ingest", "raw"))
    spellings = spellings_of_raw(raw, plan.sensitive)
    if not spellings:
        return []
    described = described_spellings(spellings)
    if not plan.join_spellings:
        return [
            f"groups that seem to be one, and are compared as they stand: {described}; to compare "
            "them as one, give --join-spellings"
        ]
    joined = {column: dict(values) for column, values in spellings.items()}
    ingest({**source.source, "spellings": joined}, source.seed or 0, steps, infer=True)
    return [f"read as one value each: {described}"]


def _refuse_repeated(plan: AuditPlan, repeated: Sequence[str]) -> None:
    """Raise `InputError` where an option names a column whose name the header has twice."""
    columns = [plan.prediction, plan.label, *plan.sensitive, *plan.features]
    for name in columns:
        if name in repeated:
            raise InputError(
                f"the column name {name!r} occurs more than once in the table: rename all but one."
            )


def _described(plan: AuditPlan, content: str) -> dict[str, Any]:
    """Describe the audited model, or the column of predictions, as a bundle is described."""
    if plan.model is None:
        name = f"{plan.shown} in {Path(plan.data.shown).name}"
        uri = plan.data.shown
        method = "audit of predictions"
    else:
        name = plan.shown
        uri = plan.shown
        method = "audit of a model"
    return {
        "name": name,
        "version": None,
        "uri": uri,
        "method": method,
        "contract": None,
        "content": content,
    }


def _favourable_note(outcome: Mapping[str, Any]) -> str:
    """Say which outcome selection rates are of, and why."""
    if outcome["favourable"] is None:
        adverse = outcome_in_words(outcome["column"], outcome["adverse"])
        favourable = f"any but {adverse}"
    else:
        favourable = outcome_in_words(outcome["column"], outcome["favourable"])
    if outcome["stated"]:
        return f"the favourable outcome is {favourable} ({outcome['reason']})"
    return f"{outcome['reason']}, so {favourable} was taken; to state another, give --favourable"
