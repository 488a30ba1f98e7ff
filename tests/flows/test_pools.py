"""Deployments and workers that do not fit their work pools: one line each, with both types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evenhand.flows.pools import Pool, deployment_fault, worker_faults
from tests.e2e.real_services import ROOT

PROCESS = Pool("evenhand", "process", {"command": None, "env": None}, [])
DOCKER = Pool(
    "boxes",
    "docker",
    {"command": None, "env": None, "image": None, "networks": None, "volumes": None},
    [],
)
KUBERNETES = Pool("cluster", "kubernetes", {"command": None, "image": "own", "namespace": ""}, [])
PLAIN = {"command": "python -m prefect.engine", "env": {}}


@pytest.mark.parametrize(
    ("variables", "pool", "words"),
    [
        (PLAIN, PROCESS, None),
        (PLAIN, KUBERNETES, None),
        (PLAIN | {"image": "one"}, DOCKER, None),
        (PLAIN, DOCKER, "type process (no image), and its pool 'boxes' is of type docker"),
        (PLAIN | {"image": "one", "networks": []}, PROCESS, "docker (networks), and its pool"),
        (PLAIN | {"namespace": "a"}, DOCKER, "type kubernetes (namespace), and its pool 'boxes'"),
    ],
)
def test_a_deployment_of_another_type_is_named(
    variables: dict[str, Any], pool: Pool, words: str | None
) -> None:
    fault = deployment_fault("retrain/campaign", variables, pool)
    if words is None:
        assert fault is None
    else:
        assert fault is not None
        assert words in fault
        assert "deploy it again" in fault
        assert "\n" not in fault


def test_the_shipped_deployments_fit_the_pools_that_they_name() -> None:
    content = yaml.safe_load((Path(ROOT) / "deploy" / "prefect.yaml").read_text())
    docker = content["definitions"]["pools"]["docker"]["job_variables"]
    whole = DOCKER._replace(variables=dict.fromkeys(docker))
    assert deployment_fault("scores", docker, whole) is None
    assert deployment_fault("scores", docker, PROCESS) is not None
    for deployment in content["deployments"]:
        variables = deployment["work_pool"]["job_variables"]
        assert deployment_fault(deployment["name"], variables, PROCESS) is None


def test_a_worker_of_another_type_is_named() -> None:
    pool = DOCKER._replace(workers=["ProcessWorker 1-2", "DockerWorker 3-4", "night shift"])
    (line,) = worker_faults(pool)
    assert "'ProcessWorker 1-2' is of type process, and its pool 'boxes' is of type docker" in line
    assert "prefect worker start --pool boxes --type docker" in line
