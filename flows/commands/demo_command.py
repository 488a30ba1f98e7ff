"""``evenhand demo``: four models on a generated table, compared in the terminal and on one page."""

from __future__ import annotations

import json
from collections.abc import Sequence

from evenhand.flows import run as retraining
from evenhand.flows.commands.terminal import estimate, print_table
from evenhand.flows.engine import DirectEngine, Verdict, new_run_id
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.pages.fronts.demo_front import MEASURES

JOBS = {
    "hiring-gbdt": "trees",
    "hiring-blind": "trees that do not see the gender",
    "hiring-blind-club": "trees that see neither gender nor club",
    "hiring-budro": "individually fair trees",
}
# A proof needs kernels that take numba longer to compile than all the rest of the demonstration.
WITHOUT_PROOF = ["evaluate.proof_parts=none"]
HEAD = ["", "accuracy", "depends on gender or club", "gap between groups"]


def demo(store_url: str | None, as_json: bool = False) -> int:
    """Run the jobs, print the table, write the page; the exit code of the first run that gates
    refuse.
    """
    prepare_environment(store_url)
    store = Store(store_url)
    models = []
    codes = []
    rows = [HEAD]
    say = _silent if as_json else print
    say("Past hiring decisions that favoured men, and four models that learn from them:\n")
    for name, label in JOBS.items():
        say(f"  {name:17} ", end="", flush=True)
        verdict = run_quietly(name, WITHOUT_PROOF, store)
        run_id = verdict.run_id
        codes.append(verdict.exit_code)
        say(f"{sum(verdict.seconds.values()):6.1f} s")
        measured = json.loads(store.read_text("runs", run_id, "metrics.json") or "{}")
        model = {"name": name, "label": label, "href": f"{run_id}/report.html"}
        models.append({**model, "metrics": measured["metrics"]})
        rows.append(
            [label, *(estimate(of(measured["metrics"]), ".1%") for of in MEASURES.values())]
        )
    if not as_json:
        print()
        print_table(rows, "  ")
        print("\n  measured on held-out applicants; 95% intervals in brackets")
    documents = {"models": models, "run": {"rows": measured["n"], "created": now()}}
    page = store.write_text(write_page("demo", documents, store), "runs", "demo.html")
    if as_json:
        print(json.dumps({"page": page, "models": models}))
    say("  `evenhand run hiring-budro` also proves bounds for the last model")
    say(f"\npage      {page}")
    return next(filter(None, codes), 0)


def run_quietly(name: str, overrides: Sequence[str], store: Store) -> Verdict:
    """Run a job in this process, without a word."""
    resolved = resolve(*load_job(name, overrides))
    return retraining.execute(resolved, store, new_run_id(name), DirectEngine(store))


def _silent(*_: object, **__: object) -> None:
    """Print nothing, where only JSON is wanted."""
