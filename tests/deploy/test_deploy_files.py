"""What lies in deploy/ keeps the published schemas, Prefect's own models, and the flows that it
names.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenhand.flows.services import read_deployments
from evenhand.tasks.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PREFECT_YAML = (DEPLOY / "prefect.yaml").read_text()


def with_kubernetes(text: str) -> dict[str, Any]:
    """The file with its commented example switched on, and one deployment in that pool."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("    # kubernetes: &kubernetes"):
            inside = True
        inside = inside and line.startswith("    #")
        lines.append(line.replace("    # ", "    ", 1) if inside else line)
    content: dict[str, Any] = yaml.safe_load("\n".join(lines))
    return content


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.compose-spec", "deploy/compose.yaml"),
        ("vendor.github-workflows", "deploy/ci/github*.yaml"),
        ("vendor.github-workflows", ".github/workflows/*.yaml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/*.yaml"),
        ("vendor.citation-file-format", "CITATION.cff"),
        ("vendor.gitlab-ci", "deploy/ci/gitlab*.yaml"),
    ],
)
def test_the_files_keep_their_published_schema(schema: str, file: str) -> None:
    files = sorted(map(str, ROOT.glob(file)))
    assert files
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_all_tests_run_nightly_and_before_a_release() -> None:
    # YAML 1.1 reads the key `on` as true
    github = yaml.safe_load((ROOT / ".github/workflows/nightly.yaml").read_text())
    assert {"schedule", "push"} <= set(github[True])
    assert github[True]["push"]["tags"]
    assert "make test-all" in [step.get("run") for step in github["jobs"]["test-all"]["steps"]]
    gitlab = yaml.safe_load((DEPLOY / "ci/gitlab-tests.yaml").read_text())["test-all"]
    conditions = " ".join(rule.get("if", "") for rule in gitlab["rules"])
    assert "schedule" in conditions
    assert "CI_COMMIT_TAG" in conditions
    assert "make test-all" in gitlab["script"]


def test_make_has_the_commands_that_the_readme_and_ci_name() -> None:
    recipes = dict(
        re.findall(
            r"^([\w-]+):[^\n]*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
        )
    )
    assert "evenhand demo" in recipes["demo"]
    ran = re.findall(r"-m (benchmarks[\w.]+)", recipes["bench"])
    assert len(ran) == len(set(ran)) > 5
    for name in ran:
        assert (ROOT / f"{name.replace('.', '/')}.py").is_file(), name
    ci = re.findall(r"^make (\w+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert ci == ["lint", "test", "docs"]
    assert set(ci) | {"test-all"} <= set(recipes)


def test_prefect_takes_every_deployment() -> None:
    from prefect.cli.deploy._models import PrefectYamlModel

    content = yaml.safe_load(PREFECT_YAML)
    checked = PrefectYamlModel.model_validate(content)
    assert [item.name for item in checked.deployments] == [
        item["name"] for item in content["deployments"]
    ]
    for item in content["deployments"]:
        assert "evenhand" in item["tags"], "automations go by the tag"
        for schedule in item.get("schedules", []):
            assert schedule["slug"]
            assert item["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}


def test_every_deployments_parameters_fit_its_flow() -> None:
    """Names and types, by the flow's own validation, of all flows that run on a schedule."""
    from prefect.flows import load_flow_from_entrypoint

    flows = set()
    for item in read_deployments(DEPLOY / "prefect.yaml"):
        flow: Any = load_flow_from_entrypoint(item.entrypoint)
        flow.validate_parameters(item.parameters)
        flows.add(flow.name)
    assert flows == {"retrain", "tune", "filter", "predict", "evaluate", "monitor"}


@pytest.mark.parametrize("pool", ["process", "docker", "kubernetes"])
def test_what_a_pool_is_given_its_worker_knows(pool: str) -> None:
    from prefect.workers.process import ProcessJobConfiguration
    from prefect_docker.worker import DockerWorkerJobConfiguration
    from prefect_kubernetes.worker import KubernetesWorker

    given = with_kubernetes(PREFECT_YAML)["definitions"]["pools"][pool]
    known = {
        "process": set(ProcessJobConfiguration.model_fields),
        "docker": set(DockerWorkerJobConfiguration.model_fields),
        "kubernetes": set(
            KubernetesWorker.get_default_base_job_template()["variables"]["properties"]
        ),
    }[pool]
    assert given["name"].startswith("evenhand")
    assert set(given["job_variables"]) <= known
    environment = given["job_variables"]["env"]
    assert environment
    assert all(isinstance(value, str) for value in environment.values())


def test_the_image_is_slim_pinned_and_not_roots() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases
    assert all(
        re.fullmatch(r"python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base) for base in bases
    )
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users[-1].partition(":")[0] not in ("root", "0")
    assert "https://download.pytorch.org/whl/cpu" in "\n".join(lines)
    commands = re.findall(r"pip install [^\n\\&]*", "\n".join(lines))
    # what others wrote, by its digests; then ours, of which nothing is downloaded
    dependencies, ours = commands
    assert "--require-hashes --no-deps" in dependencies
    assert "--no-index --no-deps" in ours
    copied = [
        part for line in lines if re.match(r"COPY (?!--from)", line) for part in line.split()[1:-1]
    ]
    # a line with an option, such as --chown, would need another pattern
    assert {"flows", "tasks", "fairlib", "data_contracts"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_composed_services_are_pinned_and_closed() -> None:
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    text = (DEPLOY / "compose.yaml").read_text()
    for name, service in content["services"].items():
        ours = service["image"] == "evenhand:latest"  # which is built here
        assert ours or re.search(r":[\d.]+[\w-]*@sha256:[0-9a-f]{64}$", service["image"]), name
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
    # no password stands in the file
    secrets = re.findall(r"(\w*(?:PASSWORD|SECRET|KEY)\w*): (\S+)", text)
    assert len(secrets) >= 5
    assert [key for key, value in secrets if not value.startswith("${")] == []


def test_serve_reads_what_deploy_reads() -> None:
    found = {item.name: item for item in read_deployments(DEPLOY / "prefect.yaml")}
    assert found["campaign"].concurrency_limit == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert found["campaign"].schedules[0].cron == "15 2 * * *"
    assert found["arrivals"].schedules[0].build().interval.total_seconds() == 300
    assert found["challenger"].schedules == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("deployments: []", "names no deployments"),
        ("deployments: [{name: a}]", "entrypoint"),
        (
            "deployments: [{name: a, entrypoint: b.c, schedules: [{slug: x}]}]",
            "one of cron and interval",
        ),
        (
            "deployments: [{name: a, entrypoint: b.c, schedules: [{cron: '* * * * *', every: 3}]}]",
            "every",
        ),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_of_deployments_gets_one_line(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_deployments(path)


def test_the_examples_jobs_and_gates_can_be_read(tmp_path: Path) -> None:
    from evenhand.fairlib.evaluation.gates import parse_gates
    from evenhand.flows.job_file import load_job
    from evenhand.flows.resolved_job import resolve

    for name in ("campaign", "campaign-proxy"):
        assert resolve(*load_job(str(DEPLOY / "example" / f"{name}.yaml"))).job.name == name
    gates = yaml.safe_load((DEPLOY / "example" / "gates.yaml").read_text())
    assert [gate.metric for gate in parse_gates(gates)] == [
        "auc",
        "balanced_accuracy",
        "gap_max.age",
    ]
