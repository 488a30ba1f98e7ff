"""Look for a published model with the provenance that a run would have now."""

from __future__ import annotations

from evenhand.flows.engine import Engine, Steps, Verdict, recorded_verdict
from evenhand.flows.resolved_job import ResolvedJob, provenance
from evenhand.tasks.audit import history
from evenhand.tasks.outages import waits_for_service
from evenhand.tasks.registry import (
    ABSENT,
    PROVENANCE_TAG,
    damaged_files,
    published,
    registry_client,
    tracking_uri,
)
from evenhand.tasks.store import Store


def up_to_date(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict | None:
    """Write the verdict ``up_to_date`` if the registry has a model with the provenance that a run would have.

    Returns None if a run is needed; nothing is written then. Raises `EvenhandError` if the table or the
    registry cannot be read; the verdict of a failed run was written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id) as verdict:
        started = steps.clock()
        sources = {name: item.sha256 for name, item in engine.fetch(resolved.source()).items()}
        digest = provenance(resolved, sources, _proxy_content(resolved, store))
        found = find_equal_version(resolved, store, digest)
        if found is None:
            return None
        version, current = found
        name, alias = resolved.model_name, resolved.job.publish.alias
        note = f"up to date: {name} version {version} was made from the same data, job and code"
        if current == version:
            note += f", and is {alias}."
        else:
            holder = "no version is" if current is None else f"version {current} is"
            note += f"; {holder} {alias} by a later decision (`evenhand history {name}`)."
        verdict.seconds = {"compare": round(steps.clock() - started, 3)}
        verdict.status, verdict.exit_code, verdict.notes = "up_to_date", 0, [note]
        verdict.model = {
            "name": name,
            "version": version,
            "alias": alias if current == version else None,
            "uri": f"models:/{name}/{version}",
        }
    return verdict


def _proxy_content(resolved: ResolvedJob, store: Store) -> str | None:
    """Return the content digest of the published proxy that selects the job's training rows."""
    wanted = resolved.job.balance
    if wanted is None:
        return None
    found = published(tracking_uri(store), wanted.proxy, wanted.alias)
    return None if found is None else found.content


@waits_for_service
def find_equal_version(resolved: ResolvedJob, store: Store, digest: str) -> tuple[str, str | None] | None:
    """Find a version with this provenance that makes a run unnecessary, and the version that has the alias.

    The first is a version which has the job's alias; or which had it until a person gave the alias to another
    version, because a schedule must not undo that. The result is None if a run is needed: also if a later run
    replaced the version (data or job have changed back), or if the version never got the alias (its run ended
    before the last step).
    """
    uri, name, alias = tracking_uri(store), resolved.model_name, resolved.job.publish.alias
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            versions = client.search_model_versions(f"name = '{name}'")
        except MlflowException as error:
            if error.error_code in ABSENT:
                return None
            raise
    made = [str(v.version) for v in versions if v.tags.get(PROVENANCE_TAG) == digest and v.status == "READY"]
    if not made:
        return None
    chain = history(uri, name)
    current = chain.aliases.get(alias)
    if current in made:
        # a lost or damaged version is made again
        return None if damaged_files(uri, name, current) else (current, current)
    moves = [record.content for record in chain.moves(alias)]
    # the last move was a person's, or was made outside Evenhand
    decided = bool(moves) and (moves[-1]["reason"] == "promote" or moves[-1]["to_version"] != current)
    had = {move["from_version"] for move in moves}
    newest = max((version for version in made if version in had), key=int, default=None)
    return (newest, current) if decided and newest is not None else None
