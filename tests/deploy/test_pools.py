"""The jobs that the docker and kubernetes pools start, made by Prefect's workers from files of
deploy/.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_chart import by_name, render
from tests.deploy.test_deploy_files import PREFECT_YAML, with_kubernetes

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
VERSION = kubernetes_validate.latest_version()
IMAGE = "registry.example.org/evenhand@sha256:" + "0" * 64


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `prefect deploy` finds in its environment."""
    monkeypatch.setenv("EVENHAND_IMAGE", IMAGE)
    monkeypatch.setenv("EVENHAND_PROJECT", "/srv/project")
    monkeypatch.setenv("EVENHAND_SECRETS", "/srv/secrets")


def pool(name: str) -> dict[str, Any]:
    """Variables of a pool, with the environment's put in as `prefect deploy` does."""
    from prefect.utilities.templating import apply_values

    given = with_kubernetes(PREFECT_YAML)["definitions"]["pools"][name]["job_variables"]
    found: dict[str, Any] = apply_values(given, os.environ)
    return found


def job(**size: Any) -> dict[str, Any]:
    """The manifest of a run, from the pool's template, as a worker makes it; needs no server."""
    from prefect.utilities.templating import apply_values
    from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration as Configuration

    template = json.loads((DEPLOY / "kubernetes-pool.json").read_text())
    values = {
        **pool("kubernetes"),
        **size,
        "name": "run",
        "command": "prefect flow-run execute",
        "image": IMAGE,
    }
    values = Configuration._get_base_config_defaults(template["variables"]["properties"]) | values
    made = Configuration(**apply_values(template["job_configuration"], values))
    made._populate_image_if_not_present()
    made._populate_command_if_not_present()
    made._populate_env_in_manifest()
    manifest: dict[str, Any] = made.job_manifest
    return manifest


def without_prefects_fields(manifest: dict[str, Any]) -> dict[str, Any]:
    """The Job without two fields that Prefect requires in the pod, where Kubernetes ignores
    them.
    """
    for name in ("parallelism", "completions"):
        del manifest["spec"]["template"]["spec"][name]
    return manifest


def test_the_job_keeps_the_schema_of_kubernetes() -> None:
    kubernetes_validate.validate(without_prefects_fields(job()), VERSION, strict=True)


def test_a_wrong_manifest_does_not_keep_it() -> None:
    manifest = without_prefects_fields(job())
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = "tmp"
    with pytest.raises(kubernetes_validate.ValidationError, match="tmp"):
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_a_run_in_kubernetes_is_closed_and_has_its_secrets() -> None:
    """It has its volumes, too."""
    pod = job()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert pod["serviceAccountName"] == "evenhand"
    # what the namespace's standard "restricted" asks for
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["envFrom"] == [
        {"configMapRef": {"name": "evenhand"}},
        {"secretRef": {"name": "evenhand"}},
    ]
    env = {item["name"]: item["value"] for item in container["env"]}
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & set(env)
    claims = {item["name"] for item in pod["volumes"]}
    assert claims == {item["name"] for item in container["volumeMounts"]}
    names = by_name(render(trial=False))
    # the chart's variables are not overridden
    assert not set(env) & set(names["ConfigMap", "evenhand"]["data"])
    volumes = {item["name"]: item for item in pod["volumes"]}
    assert (
        "PersistentVolumeClaim",
        volumes["project"]["persistentVolumeClaim"]["claimName"],
    ) in names
    assert ("ServiceAccount", "evenhand") in names


# what the table of docs/how-to/schedule.md says too
SIZES = {"small": ("500m", "2Gi"), "medium": ("2", "8Gi"), "large": ("8", "32Gi")}
LARGE = """
  - name: large
    work_pool: {<<: *kubernetes, job_variables: {<<: [*large, *pod]}}
  - name: unsized
    work_pool: *kubernetes
"""


@pytest.mark.parametrize("name", SIZES)
def test_a_jobs_size_is_the_resources_of_its_pod(name: str) -> None:
    sizes = with_kubernetes(PREFECT_YAML)["definitions"]["sizes"]
    assert list(sizes) == list(SIZES)
    cpu, memory = SIZES[name]
    manifest = job(**sizes[name])
    kubernetes_validate.validate(without_prefects_fields(manifest), VERSION, strict=True)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"memory": memory},
    }
    assert manifest["metadata"]["labels"]["evenhand-size"] == name
    page = (DEPLOY.parent / "docs" / "how-to" / "schedule.md").read_text()
    assert f"| `{name}` | {cpu} | {memory} |" in page


def test_a_deployment_names_its_size_in_its_work_pool() -> None:
    """By the line of the comment in deploy/prefect.yaml, over the size of the pool."""
    assert LARGE.splitlines()[2].strip() in PREFECT_YAML
    entries = with_kubernetes(PREFECT_YAML + LARGE)["deployments"]
    pools = {item["name"]: item["work_pool"] for item in entries}
    large, unsized = pools["large"], pools["unsized"]
    assert large["name"] == unsized["name"] == "evenhand-kubernetes"
    assert large["job_variables"]["memory_limit"] == "32Gi"
    assert unsized["job_variables"]["memory_limit"] == "8Gi"
    for key in ("image", "namespace", "service_account_name", "env"):
        assert large["job_variables"][key] == unsized["job_variables"][key]


def test_a_run_without_a_size_has_limits_too() -> None:
    """The template's defaults are those of a medium job, for whoever writes other variables."""
    template = json.loads((DEPLOY / "kubernetes-pool.json").read_text())
    properties = template["variables"]["properties"]
    medium = with_kubernetes(PREFECT_YAML)["definitions"]["sizes"]["medium"]
    for key in ("cpu_request", "memory_request", "memory_limit"):
        assert properties[key]["default"] == medium[key]


def test_the_pools_template_is_that_of_prefect_with_ours_added() -> None:
    from prefect_kubernetes.worker import KubernetesWorker

    ours = json.loads((DEPLOY / "kubernetes-pool.json").read_text())
    theirs = KubernetesWorker.get_default_base_job_template()
    pod = ours["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    for key in ("automountServiceAccountToken", "securityContext", "volumes"):
        del pod[key]
    for key in ("envFrom", "securityContext", "volumeMounts"):
        del pod["containers"][0][key]
    del ours["variables"]["properties"]["tmp_size"]
    for key in ("cpu_request", "memory_request", "memory_limit"):
        ours["variables"]["properties"][key]["default"] = None
    assert ours == theirs, (
        "Prefect's default has changed: add deploy/kubernetes-pool.json's additions to the new one"
    )


def test_a_run_in_docker_has_its_network_volumes_and_secrets() -> None:
    from prefect_docker.worker import DockerWorkerJobConfiguration

    made = DockerWorkerJobConfiguration(command="x", **pool("docker"))
    assert made.image == IMAGE
    assert made.volumes == [
        "/srv/project:/srv/project",
        "/srv/secrets:/run/secrets/evenhand:ro",
        "/srv/secrets/mlflow:/home/evenhand/.mlflow:ro",
    ]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert made.networks == [f"{compose['name']}_default"]
    # the services of that network that the variables name
    hosts = re.findall(r"http://([\w-]+):\d+", json.dumps(made.env))
    assert hosts
    assert set(hosts) <= set(compose["services"])
    assert made.env["AWS_SHARED_CREDENTIALS_FILE"].startswith("/run/secrets/evenhand/")
    assert not [key for key in made.env if re.search("SECRET|KEY|PASSWORD|TOKEN", key)]
