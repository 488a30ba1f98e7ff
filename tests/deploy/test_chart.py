"""The chart deploy/helm keeps Kubernetes' schemas, closes its pods, and runs the services of
compose.yaml.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm"
VERSION = kubernetes_validate.latest_version()
TEMPLATES = sorted(CHART.glob("templates/*"))
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
HELM = shutil.which("helm")
PASSWORD = "${EVENHAND_DB_PASSWORD}"
# keys of the Secrets that deploy/helm/values.yaml and its templates name
SECRETS = {
    "evenhand": {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "PREFECT_API_AUTH_STRING",
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD",
    },
    "evenhand-notify": {"EVENHAND_WEBHOOK", "EVENHAND_EMAIL"},
}
FILTERS = {
    "quote": lambda value: json.dumps(str(value)),
    "toJson": lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")),
}

Manifest = dict[str, Any]


def values(trial: bool) -> dict[str, Any]:
    """Values of the chart, with those of a trial over them."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    for key, value in (yaml.safe_load((CHART / "trial.yaml").read_text()) if trial else {}).items():
        found[key] = {**found[key], **value} if isinstance(value, dict) else value
    return found


def value_at(given: dict[str, Any], path: str) -> Any:
    """The value at a path of names with dots between."""
    value: Any = given
    for name in path.split("."):
        value = value[name]
    return value


def render(trial: bool, **changes: dict[str, Any]) -> list[Manifest]:
    """The chart's manifests, without Helm: its templates have substitutions, and some are as a
    whole under a condition.
    """
    given, found = values(trial), []
    for key, change in changes.items():
        given[key] = {**given[key], **change}

    def substitute(match: re.Match[str]) -> str:
        value = value_at(given, match[1])
        for name in match[2].split(" | ")[1:]:
            value = FILTERS[name](value)
        return str(value)

    for path in TEMPLATES:
        text = path.read_text()
        condition = re.fullmatch(
            r"\{\{- if \.Values\.([\w.]+) \}\}\n(.*)\{\{- end \}\}\n", text, re.DOTALL
        )
        if condition is None or value_at(given, condition[1]):
            text = condition[2] if condition else text
            text = re.sub(r"\{\{ \.Values\.([\w.]+)((?: \| \w+)*) \}\}", substitute, text)
            assert "{{" not in text, path
            found += list(yaml.safe_load_all(text))
    return found


def by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    named = {(item["kind"], item["metadata"]["name"]): item for item in manifests}
    assert len(named) == len(manifests)
    return named


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Template of the pods of every Deployment and Job."""
    found = [item for item in manifests if item["kind"] in ("Deployment", "Job")]
    return {item["metadata"]["name"]: item["spec"]["template"] for item in found}


def container(pod: Manifest) -> Manifest:
    (found,) = pod["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(trial: bool) -> dict[str, dict[str, str | None]]:
    """Environment of every pod; None is a value from a Secret."""
    manifests = render(trial)
    shared = by_name(manifests)["ConfigMap", "evenhand"]["data"]
    found: dict[str, dict[str, str | None]] = {}
    for name, pod in pods(manifests).items():
        found[name] = {}
        for source in container(pod).get("envFrom", []):
            if "configMapRef" in source:
                assert source["configMapRef"] == {"name": "evenhand"}
                found[name] |= shared
            else:
                found[name] |= dict.fromkeys(SECRETS[source["secretRef"]["name"]])
        found[name] |= {item["name"]: item.get("value") for item in container(pod).get("env", [])}
    return found


def test_every_value_is_used_and_every_used_one_is_there() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    leaves = {
        f"{key}.{name}" if name else key
        for key, value in values(False).items()
        for name in (value if isinstance(value, dict) else [""])
    }
    assert used == leaves
    given = yaml.safe_load((CHART / "trial.yaml").read_text())
    for key, value in given.items():
        assert type(value) is type(values(False)[key])
        assert not isinstance(value, dict) or set(value) <= set(values(False)[key])


CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "as shipped": {},
    "everything": {
        "ingress": {
            "enabled": True,
            "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "0"},
        },
        "dask": {"enabled": True, "address": "tcp://dask-scheduler:8786"},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
        "pods": {
            # the pods' own labels, by which services find them, stay
            "labels": {"azure.workload.identity/use": "true", "app": "mine"},
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"pool": "batch"},
            "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "network": {
            "egress": [
                {
                    "to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}],
                    "ports": [{"port": 5432, "protocol": "TCP"}],
                }
            ]
        },
        "project": {"storageClass": "fast"},
    },
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_the_sdk_of_helm_renders_the_same(name: str) -> None:
    helm = pytest.importorskip("helm_python", reason="pip install helm-python-sdk")
    report = helm.lint(str(CHART), values=CHANGES[name], strict=True)
    faults = [item for item in report["messages"] if item["severity"] > 1]
    assert (faults, report["errors"]) == ([], []), report
    rendered = helm.Chart.load(str(CHART)).render(CHANGES[name], name="evenhand")
    manifests = []
    for text in rendered.values():
        manifests += [item for item in yaml.safe_load_all(text) if item]
    assert by_name(manifests) == by_name(render(False, **CHANGES[name]))


def test_every_value_of_the_chart_has_its_place() -> None:
    named = by_name(render(False, **CHANGES["everything"]))
    account = named["ServiceAccount", "evenhand"]["metadata"]["annotations"]
    assert account == CHANGES["everything"]["serviceAccount"]["annotations"]
    for manifest in named.values():
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    for name, pod in pods(list(named.values())).items():
        for key, value in CHANGES["everything"]["pods"].items():
            if key != "labels":
                assert pod["spec"][key] == value, name
        labels = pod["metadata"]["labels"]
        assert labels["azure.workload.identity/use"] == "true", name
        assert labels["app"] == name
    assert named["PersistentVolumeClaim", "evenhand-project"]["spec"]["storageClassName"] == "fast"
    rule = named["NetworkPolicy", "evenhand-runs-outside"]["spec"]["egress"]
    assert rule == CHANGES["everything"]["network"]["egress"]
    ingress = named["Ingress", "evenhand"]["spec"]
    hosts = [rule["host"] for rule in ingress["rules"]]
    assert ingress["tls"] == [{"hosts": hosts, "secretName": "evenhand-tls"}]
    # none of this without being asked for
    shipped = {kind for kind, _ in by_name(render(False))}
    assert "Ingress" not in shipped
    assert ("Deployment", "dask-worker") not in by_name(render(False))


def test_every_pod_of_ours_has_probes_and_the_worker_drains() -> None:
    for name, pod in pods(render(False, dask={"enabled": True})).items():
        if name != "deploy":
            assert "livenessProbe" in container(pod), name
    worker = pods(render(False))["worker"]["spec"]
    assert worker["terminationGracePeriodSeconds"] == 3600
    script = container({"spec": worker})["lifecycle"]["preStop"]["exec"]["command"][-1]
    compile(script, "preStop", "exec")
    (migrate,) = pods(render(False))["mlflow"]["spec"]["initContainers"]
    # no password in an argument
    assert "PASSWORD" not in json.dumps(migrate["args"])
    assert ":$(" not in json.dumps(migrate["env"])


@pytest.mark.skipif(HELM is None, reason="helm is not on the PATH")
@pytest.mark.parametrize("trial", [False, True])
def test_helm_takes_the_chart_and_renders_the_same(trial: bool) -> None:
    options = [str(CHART), *(["--values", str(CHART / "trial.yaml")] if trial else [])]
    lint = subprocess.run([str(HELM), "lint", "--strict", *options], capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    done = subprocess.run(
        [str(HELM), "template", "evenhand", *options], check=True, capture_output=True, text=True
    )
    assert by_name(list(yaml.safe_load_all(done.stdout))) == by_name(render(trial))


@pytest.mark.parametrize("trial", [False, True])
def test_the_manifests_keep_the_schemas_of_kubernetes(trial: bool) -> None:
    for manifest in render(trial):
        kubernetes_validate.validate(manifest, VERSION, strict=True)
        # that of the release, and no key
        assert "namespace" not in manifest["metadata"]
        assert manifest["kind"] != "Secret"


def test_a_trial_adds_a_database_and_an_s3_server() -> None:
    with_dask = render(False, dask={"enabled": True})
    assert set(by_name(render(True))) - set(by_name(with_dask)) == {
        ("Deployment", "database"), ("Service", "database"), ("ConfigMap", "second-database"),
        ("Deployment", "s3"), ("Service", "s3"),
    }  # fmt: skip


def test_every_pod_is_closed_and_has_limits() -> None:
    manifests = render(True)
    for name, pod in pods(manifests).items():
        spec, one = pod["spec"], container(pod)
        # what the namespace's standard "restricted" asks for, and more
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for item in (one, *spec.get("initContainers", [])):
            assert item["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
        assert spec["serviceAccountName"] == "evenhand"
        assert spec["automountServiceAccountToken"] is False
        # a Service's variables such as MLFLOW_PORT are options of the programs
        assert spec["enableServiceLinks"] is False
        assert {"cpu", "memory"} == set(one["resources"]["requests"])
        assert one["resources"]["limits"]["memory"]
        mounts = {item["name"]: item["mountPath"] for item in one["volumeMounts"]}
        assert {item["name"] for item in spec["volumes"]} == set(mounts)
        assert mounts["scratch"] == "/tmp"
        assert one["name"] == pod["metadata"]["labels"]["app"] == name
    claims = {
        item["persistentVolumeClaim"]["claimName"]
        for pod in pods(manifests).values()
        for item in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in item
    }
    assert claims == {name for kind, name in by_name(manifests) if kind == "PersistentVolumeClaim"}


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    rules = {
        "In": lambda a, b: a in b,
        "NotIn": lambda a, b: a not in b,
        "Exists": lambda a, _: a is not None,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        rules[rule["operator"]](labels.get(rule["key"]), rule.get("values"))
        for rule in selector.get("matchExpressions", [])
    )


def test_pods_connect_only_to_what_they_need() -> None:
    manifests = render(True)
    policies = [item["spec"] for item in manifests if item["kind"] == "NetworkPolicy"]
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}
    # a run that is a Job of the pool evenhand-kubernetes, and a pod of somebody else in the
    # namespace
    labels |= {"run": {"prefect.io/flow-run-id": "1"}, "other": {"app": "other"}}

    def accepts(target: str, source: str) -> bool:
        rules = [item for item in policies if selects(item["podSelector"], labels[target])]
        assert rules, f"no policy for {target}"
        peers = [
            peer for item in rules for rule in item.get("ingress", []) for peer in rule["from"]
        ]
        assert all(set(peer) == {"podSelector"} for peer in peers), "another namespace"
        return any(selects(peer["podSelector"], labels[source]) for peer in peers)

    dask = {"dask-scheduler", "dask-worker"}
    for target in labels:
        sources = {source for source in labels if accepts(target, source)}
        if target in dask:
            assert sources == {*dask, "worker", "run"}
        else:
            assert sources == (
                set(labels) if target in {"prefect", "mlflow", "database", "s3"} else set()
            )
    leaving, outside = [item for item in policies if "Egress" in item["policyTypes"]]
    # nothing more than is asked for
    assert (outside["podSelector"], outside["egress"]) == (leaving["podSelector"], [])
    closed = {name for name in labels if selects(leaving["podSelector"], labels[name])}
    assert closed == {*dask, "worker", "deploy", "run", "other"}
    names, services, bucket = leaving["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert all("ipBlock" not in peer for peer in services["to"])
    assert bucket == {
        "to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}],
        "ports": [{"port": 443, "protocol": "TCP"}],
    }


def test_every_address_is_that_of_a_service_with_pods() -> None:
    manifests = render(True)
    services = {
        name: item["spec"] for (kind, name), item in by_name(manifests).items() if kind == "Service"
    }
    for name, service in services.items():
        chosen = {"matchLabels": service["selector"]}
        made = pods(manifests)
        assert [pod for pod in made if selects(chosen, made[pod]["metadata"]["labels"])] == [name]
        (port,) = service["ports"]
        ready = container(made[name])["readinessProbe"]
        # PostgreSQL's probe is a program
        assert [probe["port"] for probe in ready.values() if "port" in probe] in (
            [port["port"]],
            [],
        )
        published = [int(item.rpartition(":")[2]) for item in SERVICES[name].get("ports", [])]
        assert published in ([port["port"]], [])
    text = json.dumps(manifests)
    found = re.findall(r"(?:tcp|http)://([a-z][\w-]*):(\d+)|@([\w-]+):(\d+)/", text)
    assert len(found) >= 6
    for host, port, database, its in found:
        assert services[host or database]["ports"] == [{"port": int(port or its)}]


def words(command: str | list[str]) -> list[str]:
    """Words of a command, in which `--option=value` is two and Kubernetes puts in the password."""
    text = command if isinstance(command, str) else " ".join(command)
    return text.replace(PASSWORD, "$(EVENHAND_DB_PASSWORD)").replace("=", " ").split()


def test_the_trial_runs_what_compose_runs() -> None:
    found = pods(render(True))
    assert set(found) == set(SERVICES)
    for name, service in SERVICES.items():
        one = container(found[name])
        assert one["image"] == service["image"]
        mounts = {item["mountPath"] for item in one["volumeMounts"]}
        targets = {item.rpartition(":")[2] for item in service.get("volumes", [])}
        assert targets <= mounts
        if name == "s3":
            continue
        # the image's entrypoint stays
        assert "command" not in one
        expected = words(service.get("command", []))
        # and the host of the ingress
        given = [word.removesuffix(",mlflow.example.org") for word in words(one.get("args", []))]
        assert given[: len(expected)] == expected


def test_the_trial_s3_server_has_the_options_of_compose() -> None:
    """Its keys are those of compose, too."""
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    script = container(pods(render(True))["s3"])["command"][-1]
    assert SERVICES["s3"]["command"].replace("/etc/seaweedfs", "/tmp") in script
    keys = content["configs"]["s3-keys"]["content"]
    keys = keys.replace("${EVENHAND_S3_KEY}", "$AWS_ACCESS_KEY_ID")
    keys = keys.replace("${EVENHAND_S3_SECRET}", "$AWS_SECRET_ACCESS_KEY")
    assert keys in script
    assert by_name(render(True))["ConfigMap", "second-database"]["data"] == {
        "mlflow.sql": content["configs"]["second-database"]["content"]
    }


def test_the_pods_have_the_variables_of_compose() -> None:
    found = variables(True)
    more = {
        "prefect": {"EVENHAND_DB_PASSWORD"},
        # not used, but in the Secret
        "mlflow": {
            "EVENHAND_DB_PASSWORD",
            "PREFECT_API_AUTH_STRING",
            "MLFLOW_TRACKING_USERNAME",
            "MLFLOW_TRACKING_PASSWORD",
        },
        "worker": {"PREFECT_WORKER_WEBSERVER_HOST", "PREFECT_WORKER_WEBSERVER_PORT"},
        "database": {"PGDATA"},
        "s3": SECRETS["evenhand"],
    }
    for name, service in SERVICES.items():
        composed = service.get("environment", {})
        assert set(found[name]) - set(composed) == more.get(name, set())
        assert set(composed) <= set(found[name])
        for key, value in composed.items():
            value = value.replace(PASSWORD, "$(EVENHAND_DB_PASSWORD)")
            if key == "DASK_SCHEDULER_ADDRESS":
                assert found[name][key] == "tcp://dask-scheduler:8786"
            else:
                assert found[name][key] == (None if value.startswith("${") else value), key
    # of another bucket: its address and name everywhere
    assert variables(False)["worker"]["AWS_ENDPOINT_URL"] == "https://s3.example.org"
    assert variables(False)["mlflow"]["MLFLOW_S3_ENDPOINT_URL"] == "https://s3.example.org"


def test_prefect_servers_ask_for_the_password_of_their_clients() -> None:
    password = SERVICES["worker"]["environment"]["PREFECT_API_AUTH_STRING"]
    assert re.fullmatch(r"\$\{PREFECT_API_AUTH_STRING:\?[^}]+\}", password)
    server = SERVICES["prefect"]["environment"]
    assert server["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_API_AUTH_STRING}"
    assert server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4200"
    secret = {"secretKeyRef": {"name": "evenhand", "key": "PREFECT_API_AUTH_STRING"}}
    made = pods(render(False))
    variables_of_server = {item["name"]: item for item in container(made["prefect"])["env"]}
    assert variables_of_server["PREFECT_SERVER_API_AUTH_STRING"]["valueFrom"] == secret
    for name in ("worker", "deploy"):
        assert {"secretRef": {"name": "evenhand"}} in container(made[name])["envFrom"]


def test_mlflow_asks_for_the_password_of_its_clients() -> None:
    server = SERVICES["mlflow"]["environment"]
    assert "--app-name=basic-auth" in SERVICES["mlflow"]["command"]
    made = pods(render(False))
    in_pod = {item["name"]: item for item in container(made["mlflow"])["env"]}
    for end in ("USERNAME", "PASSWORD"):
        name = f"MLFLOW_TRACKING_{end}"
        required = f"${{{name}:?set {name}}}"
        assert SERVICES["worker"]["environment"][name] == required
        assert server[f"MLFLOW_AUTH_ADMIN_{end}"] == f"${{{name}}}"
        secret = {"secretKeyRef": {"name": "evenhand", "key": name}}
        assert in_pod[f"MLFLOW_AUTH_ADMIN_{end}"]["valueFrom"] == secret
    # a run cannot forge what protects the forms
    assert "MLFLOW_FLASK_SERVER_SECRET_KEY" not in SERVICES["worker"]["environment"]
    key = in_pod["MLFLOW_FLASK_SERVER_SECRET_KEY"]["valueFrom"]["secretKeyRef"]
    assert key == {"name": "evenhand-mlflow", "key": "key"}


def test_mlflows_users_are_in_its_database() -> None:
    """The settings of compose are those of the chart, at the place that the server looks at."""
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["configs"]["mlflow-auth"]
    text = by_name(render(True))["ConfigMap", "mlflow-auth"]["data"]["mlflow-auth.ini"]
    assert text == composed["content"]
    settings = configparser.ConfigParser()
    settings.read_string(text)
    backend = SERVICES["mlflow"]["environment"]["MLFLOW_BACKEND_STORE_URI"]
    assert settings["mlflow"]["database_uri"] == backend.replace(f":{PASSWORD}", "")
    assert settings["mlflow"]["default_permission"] == "READ"
    place = SERVICES["mlflow"]["environment"]["MLFLOW_AUTH_CONFIG_PATH"]
    assert SERVICES["mlflow"]["configs"] == [{"source": "mlflow-auth", "target": place}]
    mounts = container(pods(render(True))["mlflow"])["volumeMounts"]
    assert {"name": "auth", "mountPath": "/etc/evenhand"} in mounts
    # the server needs what only its extra `auth` brings
    assert "\nFlask-WTF==" in (DEPLOY / "hashes.txt").read_text()


def test_no_password_is_an_argument() -> None:
    for name, pod in pods(render(True)).items():
        assert "PASSWORD" not in " ".join(container(pod).get("args", [])), name
    for name, service in SERVICES.items():
        assert "PASSWORD" not in " ".join(service.get("command", [])), name


def dask_commands() -> list[list[str]]:
    """What deploy/ starts Dask with, in Kubernetes and with compose."""
    made = [container(pod)["args"] for name, pod in pods(render(False)).items() if "dask" in name]
    return made + [item["command"].split() for name, item in SERVICES.items() if "dask" in name]


@pytest.mark.parametrize("command", dask_commands(), ids=" ".join)
def test_dask_knows_the_options_that_it_is_started_with(command: list[str]) -> None:
    from distributed.cli import dask_scheduler, dask_worker

    known = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}
    assert command[0] == "dask"
    # parsed, and not started
    known[command[1]].make_context(command[1], command[2:])
