"""The store of ``evenhand app --demo``: the models of the demonstration, a challenger that waits
for a decision, and the case files of a few applicants.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evenhand.flows.case import CaseOptions, case_store, make_cases
from evenhand.flows.commands.demo_command import JOBS, WITHOUT_PROOF, run_quietly
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import published, registered, tracking_uri
from evenhand.tasks.registry.ledger import CHAIN

MODEL = "hiring-gbdt"
CHALLENGER = "hiring-blind-club"
# Applicants of the generated table whose adverse decisions become cases.
APPLICANTS = 6
SEED = 7
# What an applicant can raise, and how a letter says that it was a reason.
CHANGEABLE = {
    "test": {
        "en": "A low score of the written test",
        "de": "Ein niedriges Ergebnis der schriftlichen Prüfung",
    },
    "interview": {
        "en": "A low score of the interview",
        "de": "Ein niedriges Ergebnis des Gesprächs",
    },
    "experience": {"en": "Few years of work", "de": "Wenige Berufsjahre"},
}


def prepare(store: Store, say: Callable[[str], None]) -> bool:
    """Make what the store lacks; return whether it has the models of the demonstration alone.

    After `evenhand demo` only the challenger's publication and the cases are left to make, which
    takes a few seconds. Raises `InputError` where the store is not on this machine.
    """
    if not store.is_local:
        raise InputError(
            "--demo needs a store on this machine: leave out --store, or give a folder."
        )
    registry = tracking_uri(store)
    missing = [name for name in JOBS if published(registry, name, "champion") is None]
    for name in missing:
        say(f"trains {name}")
        run_quietly(name, WITHOUT_PROOF, store)
    if published(registry, MODEL, "challenger") is None:
        say(f"publishes {CHALLENGER} as a challenger of {MODEL}")
        publish = [f"publish.model={MODEL}", "publish.alias=challenger"]
        verdict = run_quietly(CHALLENGER, [*WITHOUT_PROOF, *publish], store)
        if verdict.error:
            raise NotCarriedOut(f"the challenger was not published: {verdict.error}")
    _add_cases(store, say)
    names = {name for name in registered(registry, MODEL)[0] if not name.startswith(CHAIN)}
    return names <= set(JOBS)


def _add_cases(store: Store, say: Callable[[str], None]) -> None:
    cases = case_store(store)
    if cases.log().last_of():
        return
    from evenhand.fairlib.datasets.generated import make_hiring

    say("writes case files of applicants")
    with store.workdir() as scratch:
        table = Path(scratch) / "applicants.parquet"
        make_hiring(APPLICANTS, seed=SEED).to_parquet(table)
        contract = Path(scratch) / "hiring.contract.yaml"
        contract.write_text(_contract_of_cases(), encoding="utf-8")
        options = CaseOptions(
            model=f"models:/{MODEL}/1", rows=str(table), contract=str(contract), with_letter=True
        )
        for _ in make_cases(options, store, cases):
            pass


def _contract_of_cases() -> str:
    """The shipped contract, which also says what an applicant can change, and names reasons."""
    import yaml

    from evenhand.data_contracts import odcs

    content = yaml.safe_load(Path(odcs.__file__).with_name("hiring.yaml").read_text("utf-8"))
    for column in content["schema"][0]["properties"]:
        if column["name"] in CHANGEABLE:
            changeable = {"property": "changeable", "value": "up"}
            reason = {"property": "adverseReason", "value": CHANGEABLE[column["name"]]}
            column["customProperties"] = [*column["customProperties"], changeable, reason]
    return str(yaml.safe_dump(content, sort_keys=False))
