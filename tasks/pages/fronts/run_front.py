"""The front of a run's page: what was trained on what, whether it passes, and how groups are
treated.
"""

from __future__ import annotations

from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Cell, Documents, Front
from evenhand.tasks.pages.sections.champion_section import champion_sentence
from evenhand.tasks.pages.sections.proxy_section import proxy_sentences

# All but what a reader decides by is folded.
FOLDS = True
STATUS: dict[str, tuple[str, str]] = {
    "published": ("\u2713", "Published"),
    "gated": ("\u2715", "Not published: a gate refused"),
    "insufficient_evidence": ("?", "Not published: not enough evidence"),
    "failed": ("!", "Did not finish"),
}


def front(documents: Documents) -> Front:
    """Build the front; the first sentence of the headline says whether the model is published."""
    run = documents["run"]
    model = run["model"]
    table = run["table"]
    job = run["job"]
    contract = f"{table['contract_name']}, version {table['contract_version']}: what was checked"
    published = Cell("No version was published.")
    if model:
        published = Cell(texts.called(model), code=model["uri"])
    facts = [
        ("Model", published),
        ("Data contract", Cell(contract, href=table.get("contract_page"))),
    ]
    if job.get("description"):
        facts.append(("Purpose", Cell(job["description"])))
    status = run["status"]
    note = (documents.get("decision") or {}).get("note")
    badge = (status, *STATUS[status])
    if status == "published" and note in ("default gates", "no gates"):
        # no sign of approval where no gate of the job judged
        badge = ("insufficient_evidence", "\u2013", "Published: the job set no gates")
    elif status == "gated" and note == "default gates":
        badge = (
            status,
            STATUS[status][0],
            "Not published: no better than the majority-class baseline",
        )
    meta = [f"Job {job['name']}", f"run {run['id']}"]
    return Front(
        kind="run report",
        title=run["title"],
        meta=meta,
        headline=headline(documents),
        created=run["created"],
        badge=badge,
        facts=facts,
        verdict_place=0,
    )


def headline(documents: Documents) -> list[str]:
    """Write the headline: the verdict with its reason, how groups are treated, what changed, and
    what was done.
    """
    run = documents["run"]
    metrics = documents["metrics"]
    table = run["table"]
    sentences = _verdict(documents)
    if documents.get("balance"):
        sentences += proxy_sentences(documents)
    else:
        rates = texts.overall_rates(metrics)
        if rates:
            sentences.append(rates)
        sentences += texts.treatment(metrics)
    if documents.get("champion"):
        sentences.append(champion_sentence(documents))
    method = texts.summary_of(run["job"]["method"])
    done = (
        f"The model, {method}, was trained on {formats.count(table['train_rows'])} of the "
        f"{formats.count(table['rows'])} rows of the table {table['name']} and evaluated on "
        f"{formats.count(metrics['n'])} rows that it had not seen."
    )
    return [*sentences, done]


def _verdict(documents: Documents) -> list[str]:
    """Say whether the model is published, and why; then which gates did not pass."""
    run = documents["run"]
    model = run["model"]
    results = texts.gate_results(documents)
    if run["status"] == "failed":
        return ["The run did not finish, and nothing was published."]
    if run.get("refusal"):
        return [f"Not published: {run['refusal']}"]
    degenerate = (documents.get("decision") or {}).get("degenerate")
    if degenerate:
        return [f"Not published: {degenerate}"]
    if run["status"] != "published":
        return texts.gate_findings(results, "Not published, because")
    alias = f", its {model['alias']}" if model.get("alias") else ""
    published = f"Published as version {model['version']} of {model['name']}{alias}"
    if not results:
        return [f"{published}: no gate was set, so the model was not held to any limit."]
    if documents["decision"].get("note") == "default gates":
        return [
            f"{published}: the job sets no gates, so it was only checked that the model is of use."
        ]
    passed = texts.gates_passed(results)
    return [f"{published}, because {passed[:1].lower()}{passed[1:]}."]
