"""The front of an evaluation's page: does the model pass, and is it better than the baseline."""

from __future__ import annotations

from evenhand.fairlib.catalogue import without_intersections
from evenhand.fairlib.evaluation.audit_verdict import NOT_COMPARED
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Cell, Documents, Front, Json
from evenhand.tasks.pages.sections.controls_section import verdict
from evenhand.tasks.pages.sections.metrics_section import finding

# All but what a reader decides by is folded.
FOLDS = True
STATUS: dict[str, tuple[str, str]] = {
    "passed": ("\u2713", "Passes its gates"),
    "refused": ("\u2715", "Refused by a gate"),
    "insufficient_evidence": ("?", "Not enough evidence"),
    "no_gates": ("\u2022", "Evaluated without gates"),
}
# Of an evaluation that a policy will not count, whatever its gates say.
NOT_ACCEPTED = ("\u2715", "Not accepted by the policy")


def front(documents: Documents) -> Front:
    """Build the front; the first sentence of the headline says whether the model passes,
    or what an audit found.
    """
    run = documents["run"]
    data = run["data"]
    label = run["data"]["label"]
    model = run["judged"]
    facts = [
        (
            "Model" if model["contract"] else "Predictions",
            Cell(texts.called(model), code=model["uri"]),
        )
    ]
    if run["baseline"]:
        facts.append(("Baseline", Cell(texts.called(run["baseline"]), code=run["baseline"]["uri"])))
    contract = model["contract"]
    facts.append(("Data", Cell(data["shown"])))
    if label and "classes" in label:
        facts.append(("Label", Cell(f"{label['name']}: one of {len(label['classes'])} classes")))
    else:
        settings = documents["metrics"]["settings"]
        facts.append(_label_fact(label, settings))
        if "outcome" in settings:
            facts.append(("Favourable outcome", Cell(texts.outcome_value(settings))))
    if contract:
        facts.append(("Data contract", Cell(f"{contract['name']}, version {contract['version']}")))
    kind = "audit"
    title = f"{model['name']}, audited"
    if contract:
        kind = "evaluation"
        title = f"{model['name']}, evaluated"
    meta = [f"{kind.capitalize()} {run['id']}"]
    badge = (run["status"], *STATUS[run["status"]])
    if run.get("unmet"):
        badge = ("refused", *NOT_ACCEPTED)
    return Front(
        kind=f"{kind} report",
        title=title,
        meta=meta,
        headline=headline(documents),
        created=run["created"],
        badge=badge,
        facts=facts,
        verdict_place=0,
    )


def _label_fact(label: Json | None, settings: Json) -> tuple[str, Cell]:
    """The label, and which of its two values is positive."""
    if label and "positive" not in label:
        return "Label", Cell(f"{label['name']}: {settings.get('kind', 'classes')}")
    if not label:
        return "Positive label", Cell("not known")
    return "Positive label", Cell(f"{label['name']}: {label['positive']}")


def headline(documents: Documents) -> list[str]:
    """Write the headline: whether the model passes, groups, the baseline, and what was evaluated
    on what.
    """
    run = documents["run"]
    metrics = documents["metrics"]
    results = texts.gate_results(documents)
    data = run["data"]
    model = run["judged"]
    who = f"The model {texts.called(model)}, {texts.summary_of(model['method'])}, was evaluated on"
    if not model["contract"]:
        who = f"The predictions of {model['name']} were audited on"
    text = f"{who} {formats.plural(metrics['n'], 'row')} of {data['shown']}"
    if run["baseline"]:
        text += f", compared with the baseline {texts.called(run['baseline'])}"
    if data["rows_set_aside"]:
        text += (
            f"; {formats.plural(data['rows_set_aside'], 'row')} outside the data contract set aside"
        )
    outcome = ["No gate was set, so the model was not held to any limit."]
    if results and run["status"] == "passed":
        outcome = [f"{texts.gates_passed(results)}."]
    elif results and run["status"] != "no_gates":
        outcome = texts.gate_findings(results, "It does not pass, because")
    if run.get("unmet"):
        reason = run["unmet"].rstrip(".")
        outcome.insert(0, f"The policy does not accept this evaluation: {reason}.")
    if "audit" in documents:
        # of an audit the verdict comes first, and after it what it is about
        consistency = texts.consistency_sentences(metrics)
        return [*_findings(documents), f"{text}.", *outcome, *consistency]
    rates = texts.overall_rates(metrics)
    outcome += [rates] if rates else []
    return [*outcome, *texts.treatment(metrics), *compared(documents), f"{text}."]


def _findings(documents: Documents) -> list[str]:
    """Sentences of an audit's verdict, without those that notes repeat."""
    sentences: list[str] = documents["audit"]["verdict"]
    if not documents["metrics"]["groups"]:
        return sentences
    return [sentence for sentence in sentences if not sentence.startswith(NOT_COMPARED)]


def compared(documents: Documents) -> list[str]:
    """Say in what the model is better or worse than the baseline: only what the paired intervals
    show.
    """
    if not documents["run"]["baseline"]:
        return []
    differences = (documents.get("comparison") or {"differences": {}})["differences"]
    if not differences:
        return ["The model and the baseline were not compared."]
    names = without_intersections(differences, documents["metrics"]["counts"])
    if {finding(name, differences[name]) for name in names} == {"same"}:
        return ["The model and the baseline have the same value of every metric."]
    return [f"Compared with the baseline: {verdict(differences, names).replace('**', '')}."]
