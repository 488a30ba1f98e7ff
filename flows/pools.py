"""Whether deployments fit their work pools.

Prefect accepts a deployment that was written for another type of pool, and its runs then start
without their image, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TAG = "evenhand"
# Variables of one type of pool alone, by which a deployment shows what it was written for.
OF_TYPE = {
    "docker": ("container_create_kwargs", "networks", "network_mode", "volumes", "mem_limit"),
    "kubernetes": ("namespace", "service_account_name", "finished_job_ttl", "memory_request"),
}
# How Prefect names a worker that was given no name.
WORKERS = {"ProcessWorker": "process", "DockerWorker": "docker", "KubernetesWorker": "kubernetes"}


class Pool(NamedTuple):
    """A work pool: its type, its variables with their defaults, and the names of its workers."""

    name: str
    type: str
    variables: Mapping[str, Any]
    workers: Sequence[str]


def read_faults() -> list[str]:
    """Ask the server of ``PREFECT_API_URL`` for pools and deployments; return a line a fault."""
    from prefect.client.orchestration import get_client

    lines = []
    pools = {}
    with get_client(sync_client=True) as client:
        for pool in client.read_work_pools():
            properties = pool.base_job_template.get("variables", {}).get("properties", {})
            defaults = {name: item.get("default") for name, item in properties.items()}
            workers = [item.name for item in client.read_workers_for_work_pool(pool.name)]
            pools[pool.name] = Pool(pool.name, pool.type, defaults, workers)
        deployments = client.read_deployments()
    names = set()
    for deployment in deployments:
        if TAG not in deployment.tags or deployment.work_pool_name not in pools:
            continue
        names.add(deployment.work_pool_name)
        of_deployment = pools[deployment.work_pool_name]
        fault = deployment_fault(deployment.name, deployment.job_variables or {}, of_deployment)
        if fault:
            lines.append(fault)
    for name in sorted(names):
        lines += worker_faults(pools[name])
    return lines


def deployment_fault(name: str, variables: Mapping[str, Any], pool: Pool) -> str | None:
    """Say why a deployment does not fit its pool; None if it does."""
    unknown = [key for key in variables if key not in pool.variables]
    cure = "name a pool of that type in its work_pool, and deploy it again"
    for kind, keys in OF_TYPE.items():
        if kind != pool.type and set(keys) & set(unknown):
            misplaced = ", ".join(key for key in unknown if key in keys)
            return (
                f"the deployment {name} is for a pool of type {kind} ({misplaced}), and its pool "
                f"{pool.name!r} is of type {pool.type}: {cure} (`prefect work-pool create NAME "
                f"--type {kind}`)."
            )
    needs_image = "image" in pool.variables
    if needs_image and not (variables.get("image") or pool.variables["image"]):
        return (
            f"the deployment {name} is for a pool of type process (no image), and its pool "
            f"{pool.name!r} is of type {pool.type}, which would take Prefect's image without "
            f"evenhand: set image in its job_variables, or {cure}."
        )
    return None


def worker_faults(pool: Pool) -> list[str]:
    """Name the workers of another type than their pool's, as far as their names say it."""
    lines = []
    for worker in pool.workers:
        kind = WORKERS.get(worker.partition(" ")[0])
        if kind is not None and kind != pool.type:
            lines.append(
                f"the worker {worker!r} is of type {kind}, and its pool {pool.name!r} is of type "
                f"{pool.type}: stop it, and start `prefect worker start --pool {pool.name} --type "
                f"{pool.type}`."
            )
    return lines
