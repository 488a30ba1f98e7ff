"""What is missing or uncertain: warnings, groups that are too small, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.fairlib.catalogue import is_intersection, title
from evenhand.fairlib.evaluation.group_selection import left_out_notes
from evenhand.fairlib.evaluation.membership import WARNED_AUC, stronger_attack
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.group_outcomes import outcomes_by_attribute
from evenhand.tasks.pages.page_model import Documents, Items, Json, Section

PAGES = {"run": 4, "evaluation": 4}
FIRST = ("run", "evaluation")
NEEDS = ("metrics", "run")

# A wider interval of a group's share leaves open whether the group is treated differently.
WIDE = 0.2
MOST_NAMED = 4
NOT_MEASURED = {
    "consistency.": "counterfactual copies (`evaluate.counterfactuals`)",
    "certificate.": "certificates of comparable treatment (`evaluate.certificate`)",
    "membership": "what outputs disclose about training rows (`evaluate.membership`)",
}


def build(documents: Documents) -> Section | None:
    """A list of statements, the warnings first."""
    statements = [*_warnings(documents), *_small_groups(documents["metrics"])]
    statements += _without_evidence(documents["metrics"])
    statements += _unmeasured(documents)
    statements += [note for note in _notes(documents) if note not in statements]
    if documents.get("controls") is not None:
        statements.append("The model was trained once: another seed gives another model.")
    if not statements:
        return None
    return Section("missing", "What is missing or uncertain", [Items(statements)])


def _notes(documents: Documents) -> list[str]:
    """Notes of the run as sentences."""
    notes = documents["run"].get("notes") or []
    return [formats.sentence(f"{note.removesuffix('.')}.") for note in notes]


def _warnings(documents: Documents) -> Iterator[str]:
    """Suspected leaks, and memorised training rows."""
    suspected = (documents.get("leaks") or {}).get("columns", [])
    if suspected:
        names = formats.shortlist([f"`{item['name']}`" for item in suspected], MOST_NAMED)
        inputs = formats.plural(len(suspected), "model input")
        yield f"**{inputs} may leak the label or a sensitive column**: {names}."
    membership = documents.get("membership")
    if membership is not None:
        auc = stronger_attack(membership["attacks"])["auc"]["value"]
        if auc is not None and auc > WARNED_AUC:
            yield (
                "**Outputs of the model disclose training rows**: who was among them can be "
                f"guessed with an AUC of {formats.number(auc)}; 0.5 is chance."
            )
    outcome = documents["metrics"]["settings"].get("outcome")
    if outcome and not outcome["stated"]:
        yield (
            "**Which outcome is favourable was inferred from words**: state it in the contract "
            f"(`favourable` of the label `{outcome['column']}`)."
        )


def _small_groups(metrics: Json) -> Iterator[str]:
    """Groups that metrics leave out, and groups whose shares have wide intervals."""
    for note in left_out_notes(metrics):
        yield formats.sentence(f"{note}.")
    wide = []
    for groups in outcomes_by_attribute(metrics).values():
        for group in groups:
            low = group.predicted.low
            high = group.predicted.high
            if low is not None and high is not None and high - low > WIDE:
                wide.append(f"“{group.label}” ({formats.plural(group.n, 'row')})")
    if wide:
        yield (
            f"The share predicted for {formats.shortlist(wide, MOST_NAMED)} is uncertain by more "
            f"than {100 * WIDE:.0f} percentage points."
        )


def _without_evidence(metrics: Json) -> Iterator[str]:
    """Metrics without a value, by the reason for it."""
    by_reason: dict[str, list[str]] = {}
    for name, metric in metrics["metrics"].items():
        subject = name.partition(".")[2]
        if metric["value"] is None and not is_intersection(subject, metrics["counts"]):
            by_reason.setdefault(metric.get("reason") or "", []).append(title(name))
    for reason, names in by_reason.items():
        text = f"Not enough evidence for {formats.shortlist(names, MOST_NAMED)}"
        yield f"{text}: {reason.removesuffix('.')}." if reason else f"{text}."


def _unmeasured(documents: Documents) -> Iterator[str]:
    """What a job could measure, and this one does not."""
    if documents.get("balance") is not None:
        return
    if not documents["metrics"]["counts"]:
        yield "No groups were compared: the data has no sensitive attribute."
    if "job" not in documents["run"]:
        return
    measured = list(documents["metrics"]["metrics"])
    missing = []
    for name, text in NOT_MEASURED.items():
        is_measured = any(metric.startswith(name) for metric in measured)
        if not is_measured and documents.get(name) is None:
            missing.append(text)
    if missing:
        yield f"Not measured: {formats.join(missing)}."
    if documents.get("controls") is None:
        yield "The model was not compared with controls."
