"""The action, the GitLab component and the release: their schemas, and their shell steps run here.

What only GitHub and GitLab themselves can run is not run: steps with `uses:`, the installation from
the network, `rules:` and the upload of artifacts. The tests put in the values of `${{ }}` and `$[[
]]`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "deploy" / "ci"
ACTION: dict[str, Any] = yaml.safe_load((CI / "action" / "action.yml").read_text())
TRAIN: dict[str, Any] = yaml.safe_load((CI / "train" / "action.yml").read_text())
_, TRAIN_COMPONENT = (CI / "gitlab-component" / "train.yml").read_text().split("\n---\n")
HEADER, COMPONENT = (CI / "gitlab-component" / "template.yml").read_text().split("\n---\n")
REPORT = CI / "report.py"
JUNIT = """<testsuites><testsuite>
<testcase name="auc min 0.8 (point)"/>
<testcase name="gap_max.sex max 0.1 (interval)"><failure message="gap is 0.2, 100%&#10;lines"/></testcase>
<testcase name="gap_max.age max 0.2 (point)"><error message="too few rows"/></testcase>
</testsuite></testsuites>"""


class Api:
    """Comments of a pull request, as the APIs of GitHub and GitLab serve them."""

    def __init__(self, comments: int = 0) -> None:
        self.comments = [
            {"id": number, "body": f"by someone, {number}"} for number in range(comments)
        ]
        self.calls: list[tuple[str, str]] = []
        self.headers: list[Any] = []
        self.status = 200

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        self.calls.append((method, path.partition("?")[0]))
        if method == "GET":
            found = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", path)}
            start = found["per_page"] * (found["page"] - 1)
            return self.comments[start : start + found["per_page"]]
        if method == "POST":
            self.comments.append({"id": 1000 + len(self.comments), **body})
            return self.comments[-1]
        (changed,) = [item for item in self.comments if path.endswith(f"/{item['id']}")]
        changed |= body
        return changed


@pytest.fixture
def api() -> Iterator[tuple[Api, str]]:
    """The comments, and the address of a server with them."""
    known = Api(comments=130)  # more than one page

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            known.headers.append(self.headers)
            content = json.dumps(known.answer(self.command, self.path, body)).encode()
            self.send_response(known.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_PUT = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield known, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment without the variables of the CI system that runs these tests."""
    given = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "CI_", "GITLAB_"))
    }
    return {**given, "no_proxy": "127.0.0.1", "HOME": str(folder), **more}


def github(folder: Path, url: str) -> dict[str, str]:
    (folder / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    return environment(
        folder,
        GITHUB_API_URL=url,
        GITHUB_REPOSITORY="acme/people",
        GITHUB_EVENT_PATH=str(folder / "event.json"),
        GITHUB_TOKEN="a-token",
    )


def report(action: str, path: Path, given: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, str(REPORT), action, str(path)], env=given, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_gate_that_did_not_pass_is_annotated(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(JUNIT)
    assert report("annotate", tmp_path / "x.xml", environment(tmp_path)).splitlines() == [
        "::error title=gate gap_max.sex max 0.1 (interval)::gap is 0.2, 100%25%0Alines",
        "::error title=gate gap_max.age max 0.2 (point)::too few rows",
    ]


def test_a_pull_request_has_one_comment_that_is_changed(
    tmp_path: Path, api: tuple[Api, str]
) -> None:
    known, url = api
    (tmp_path / "x.md").write_text("**refused**")
    given = github(tmp_path, url)
    report("comment", tmp_path / "x.md", given)
    (tmp_path / "x.md").write_text("**passed** ✅")
    report("comment", tmp_path / "x.md", given)
    ours = [item for item in known.comments if "evenhand" in item["body"]]
    assert [item["body"] for item in ours] == ["<!-- evenhand -->\n**passed** ✅"]
    path = "/repos/acme/people/issues"
    listed = ("GET", f"{path}/7/comments")  # of two pages
    assert known.calls == [
        *(listed, listed, ("POST", f"{path}/7/comments")),
        *(listed, listed, ("PATCH", f"{path}/comments/{ours[0]['id']}")),
    ]
    assert {headers["Authorization"] for headers in known.headers} == {"Bearer a-token"}


def test_a_merge_request_has_one_comment_that_is_changed(
    tmp_path: Path, api: tuple[Api, str]
) -> None:
    known, url = api
    given = environment(
        tmp_path,
        CI_API_V4_URL=url,
        CI_PROJECT_ID="3",
        CI_MERGE_REQUEST_IID="7",
        GITLAB_TOKEN="a-token",
    )
    for text in ("one", "two"):
        (tmp_path / "x.md").write_text(text)
        report("comment", tmp_path / "x.md", given)
    ours = [item for item in known.comments if "evenhand" in item["body"]]
    assert [item["body"] for item in ours] == ["<!-- evenhand -->\ntwo"]
    notes = "/projects/3/merge_requests/7/notes"
    assert [call for call in known.calls if call[0] != "GET"] == [
        ("POST", notes), ("PUT", f"{notes}/{ours[0]['id']}"),
    ]  # fmt: skip
    assert {headers["PRIVATE-TOKEN"] for headers in known.headers} == {"a-token"}


def test_a_comment_that_cannot_be_written_is_a_warning(
    tmp_path: Path, api: tuple[Api, str]
) -> None:
    known, url = api
    known.status = 403  # such as that of a fork's token
    (tmp_path / "x.md").write_text("text")
    said = report("comment", tmp_path / "x.md", github(tmp_path, url))
    assert said == "::warning title=evenhand::the comment could not be written (HTTP 403).\n"
    assert "nothing to comment on" in report("comment", tmp_path / "x.md", environment(tmp_path))


def component(**inputs: str) -> dict[str, Any]:
    """The component's jobs, with its inputs put in as GitLab does."""
    known = yaml.safe_load(HEADER)["spec"]["inputs"]
    assert set(inputs) <= set(known)
    values = {name: item.get("default") for name, item in known.items()} | inputs
    assert None not in values.values()
    jobs: dict[str, Any] = yaml.safe_load(
        re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: json.dumps(values[found[1]]), COMPONENT)
    )
    return jobs


def check_schema(name: str, *files: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", name, *files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_action_and_component_keep_their_published_schemas(tmp_path: Path) -> None:
    check_schema("vendor.github-actions", CI / "action" / "action.yml", CI / "train" / "action.yml")
    check_schema("vendor.github-workflows", CI / "github.yaml")
    (included,) = yaml.safe_load((CI / "gitlab.yaml").read_text())["include"]
    assert (ROOT / included["local"].lstrip("/")).samefile(CI / "gitlab-component" / "template.yml")
    (tmp_path / "jobs.yml").write_text(yaml.safe_dump(component(**included["inputs"])))
    (tmp_path / "header.yml").write_text(HEADER)
    (tmp_path / "train.yml").write_text(
        TRAIN_COMPONENT.replace("$[[ inputs.", "$").replace(" ]]", "")
    )
    files = [tmp_path / name for name in ("jobs.yml", "header.yml", "train.yml")]
    check_schema("vendor.gitlab-ci", *files)


@pytest.mark.parametrize(("name", "action"), [("evaluate", ACTION), ("train", TRAIN)])
def test_the_workflow_gives_each_action_its_inputs(name: str, action: dict[str, Any]) -> None:
    job = yaml.safe_load((CI / "github.yaml").read_text())["jobs"][name]
    (step,) = [step for step in job["steps"] if step["uses"].startswith("./")]
    assert (ROOT / step["uses"] / "action.yml").is_file()
    required = {name for name, item in action["inputs"].items() if item.get("required")}
    assert required <= set(step["with"]) <= set(action["inputs"])
    # what an event holds is never pasted into a script
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"
    # both install alike
    assert action["runs"]["steps"][:3] == ACTION["runs"]["steps"][:3]
    cache = action["runs"]["steps"][1]
    assert cache["uses"].startswith("actions/cache@")
    # packages, and nothing of a store
    assert cache["with"]["path"] == "~/.cache/pip"


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}


def test_a_wheel_of_another_digest_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "evenhand-1-py3-none-any.whl").write_bytes(b"other bytes")
    given = environment(
        tmp_path,
        RUNNER_TEMP=str(tmp_path / "temp"),
        SOURCE=str(ROOT),
        WHEEL="evenhand-1-py3-none-any.whl",
    )
    (tmp_path / "temp").mkdir()
    for digest, words in (("", "needs wheel-sha256"), ("0" * 64, "did NOT match")):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", steps()["Install"]["run"]],
            cwd=tmp_path,
            env=given | {"WHEEL_SHA256": digest},
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert words in done.stdout + done.stderr


@pytest.mark.parametrize(("remeasure", "key"), [("true", "a key"), ("true", ""), ("false", "")])
def test_the_promotion_of_the_action_measures_again(
    remeasure: str, key: str, tmp_path: Path
) -> None:
    """That is the default; the secret key is in a file of its own while the command runs."""
    assert ACTION["inputs"]["remeasure"]["default"] == "true"
    step = steps()["Promote"]
    assert step["if"] == "inputs.promote != '' && inputs.record == 'true'"
    done = promoted(tmp_path, step["run"], REMEASURE=remeasure, SIGNING_KEY=key)
    expected = ["promote models:/people@challenger --alias champion"]
    if remeasure == "true":
        expected[0] += " --remeasure"
    if key:
        expected[0] += " --key FILE"
        expected.append("a key")
    assert done == expected


def promoted(folder: Path, script: str, **more: str) -> list[str]:
    """The arguments of `evenhand` in a script, and the content of its key's file."""
    program = folder / "bin" / "evenhand"
    program.parent.mkdir(parents=True)
    program.write_text(
        'test -z "$SIGNING_KEY" || exit 9\n'
        'key=\nfor word in "$@"; do case $word in /*) key=$word ;; esac; done\n'
        'echo "$*" | sed "s| /.*| FILE|"\n'
        'test -z "$key" || cat "$key"\n'
    )
    program.write_text("#!/bin/sh\n" + program.read_text())
    program.chmod(0o755)
    given = {"MODEL": "models:/people@challenger", "PROMOTE": "champion", "RECORD": "true"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        env=job_environment(folder, **{**given, **more}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_promotion_of_the_component_measures_again(tmp_path: Path) -> None:
    """That is the default; without an alias, and without a record, nothing is promoted."""
    inputs = {"image": "i", "model": "m", "data": "d"}
    job = component(**inputs)["evaluate"]
    assert (job["variables"]["PROMOTE"], job["variables"]["REMEASURE"]) == ("", "true")
    script = job["script"][2]
    done = promoted(tmp_path / "a", script, REMEASURE="true")
    assert done == ["promote models:/people@challenger --alias champion --remeasure"]
    assert promoted(tmp_path / "b", script, REMEASURE="true", PROMOTE="") == []
    assert promoted(tmp_path / "c", script, REMEASURE="true", RECORD="false") == []


PROGRAM = """#!/bin/sh
echo "$*" >> "$CALLS"
case $1 in
  export)
    while [ $# -gt 1 ]; do [ "$1" != --output ] || printf %s "$REGISTERED" > "$2"; shift; done
    echo '{"model": "models:/people/7", "sha256": "abc"}' ;;
  run) env | grep -E '^EVENHAND_(KEY|OVERLAP_KEY|POLICY)=' | sed 's|=/.*|=FILE|' | sort >> "$CALLS" ;;
esac
"""


def in_shell(folder: Path, shell: list[str], script: str, **more: str) -> tuple[int, list[str]]:
    """Exit code of a script, and what it calls of a program that plays `evenhand`."""
    program = folder / "bin" / "evenhand"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (folder / "calls").write_text("")
    (folder / "model.zip").write_text("the archive")
    outputs = {"GITHUB_OUTPUT": str(folder / "output"), "CALLS": str(folder / "calls")}
    inputs = {"MODEL": "models:/people@challenger", "RECORD": "true", "REGISTERED": "the archive"}
    given = job_environment(folder, **{**inputs, **outputs, **more})
    done = subprocess.run([*shell, script], cwd=folder, env=given, capture_output=True, text=True)
    return done.returncode, (folder / "calls").read_text().splitlines()


ARCHIVE = hashlib.sha256(b"the archive").hexdigest()
BASH = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c"]


@pytest.mark.parametrize(
    ("changes", "code", "model"),
    [
        ({}, 0, "models:/people/7"),
        ({"RECORD": "false"}, 0, f"model.zip@sha256:{ARCHIVE}"),
        ({"BUNDLE": "", "BUNDLE_SHA256": ""}, 0, "models:/people@challenger"),
        ({"BUNDLE_SHA256": "0" * 64}, 1, ""),
        ({"BUNDLE_SHA256": "0" * 64, "RECORD": "false"}, 1, ""),
        ({"BUNDLE_SHA256": ""}, 2, ""),
        ({"REGISTERED": "another model"}, 1, ""),
    ],
)
def test_only_the_archive_that_was_trained_is_judged(
    changes: dict[str, str], code: int, model: str, tmp_path: Path
) -> None:
    given = {"BUNDLE": "model.zip", "BUNDLE_SHA256": ARCHIVE, **changes}
    done, _ = in_shell(tmp_path, BASH, steps()["Bundle"]["run"], **given)
    assert done == code
    if code == 0:
        assert (tmp_path / "output").read_text() == f"model={model}\n"
    job = component(image="i", model="m", data="d")["evaluate"]
    script = "\n".join(job["script"][:2])
    pin = {"POLICY_DIGEST": "f" * 64, "OVERLAP_KEY": "", "DATA": "d", "GATES": "g"}
    done, calls = in_shell(tmp_path, ["sh", "-e", "-c"], script, **given, **pin)
    assert done == code
    evaluated = [call for call in calls if call.startswith("evaluate")]
    assert len(evaluated) == (code == 0)
    if code == 0:
        assert evaluated[0].startswith(f"evaluate {model} --data d")
        pinned = f"--policy-digest {'f' * 64}" in evaluated[0]
        assert pinned == (given.get("RECORD") != "false")


def test_the_action_gives_the_pin_and_the_key_of_overlap(tmp_path: Path) -> None:
    given = {"POLICY_DIGEST": "f" * 64, "OVERLAP_KEY": "a" * 64, "SIGNING_KEY": "", "PROMOTE": "x"}
    given["TMPDIR"] = str(tmp_path)
    for name in ("Evaluate", "Promote"):
        script = steps()[name]["run"].replace(
            "evenhand ", 'test -s "$EVENHAND_OVERLAP_KEY"; evenhand ', 1
        )
        code, calls = in_shell(
            tmp_path, BASH, script, **given, DATA="d", GATES="g", REMEASURE="true"
        )
        assert code == 0
        assert f"--policy-digest {'f' * 64}" in calls[0]
        assert list(tmp_path.glob("tmp*")) == []


def test_training_hands_over_an_archive_and_its_digest(tmp_path: Path) -> None:
    script = next(step for step in TRAIN["runs"]["steps"] if step.get("name") == "Train")["run"]
    keys = {"SIGNING_KEY": "a key", "OVERLAP_KEY": "a" * 64, "EVENHAND_POLICY": "f" * 64}
    code, calls = in_shell(tmp_path, BASH, script, JOB="people.yaml", **keys)
    assert code == 0
    assert calls[0] == "run people.yaml --direct"
    assert calls[1:4] == [
        "EVENHAND_KEY=FILE",
        "EVENHAND_OVERLAP_KEY=FILE",
        f"EVENHAND_POLICY={'f' * 64}",
    ]
    assert calls[4].startswith("export models:/people@challenger --to bundle --output model.zip")
    assert (tmp_path / "output").read_text() == "model=models:/people/7\nsha256=abc\n"
    job = yaml.safe_load(TRAIN_COMPONENT.replace("$[[ inputs.", "$").replace(" ]]", ""))["train"]
    code, calls = in_shell(tmp_path, ["sh", "-e", "-c"], job["script"][0], JOB="people.yaml")
    assert (code, len(calls)) == (0, 2)
    assert (tmp_path / "bundle.env").read_text() == "EVENHAND_BUNDLE_SHA256=abc\n"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `evenhand`, a small published model, and gates that pass and that
    refuse.
    """
    folder = tmp_path_factory.mktemp("ci")
    (folder / "bin").mkdir()
    program = folder / "bin" / "evenhand"
    program.write_text(f"#!{sys.executable}\nfrom evenhand.flows.cli import main\nmain()\n")
    program.chmod(0o755)
    small = ("table.rows=2000", "method.n_steps=20", "evaluate.draws=50", "gates={}")
    done = subprocess.run(
        [program, "run", "loans-gbdt", "--direct", *(f"--set={item}" for item in small)],
        cwd=folder,
        env=job_environment(folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (folder / "good.yaml").write_text("balanced_accuracy: {min: 0.4}\n")
    (folder / "bad.yaml").write_text("balanced_accuracy: {min: 0.99}\nauc: {min: 0.1}\n")
    return folder


def job_environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    python = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *sys.path])
    store = str(folder / "evenhand-store")
    ours = {"PATH": path, "PYTHONPATH": python, "EVENHAND_STORE": store}
    return {**environment(folder), **more, **ours}


@pytest.mark.long  # trains and publishes a model, and evaluates it three times
@pytest.mark.parametrize(
    ("gates", "verdict", "code"),
    [("good", "passed", 0), ("bad", "refused", 1), ("none", "failed", 2)],
)
def test_the_steps_of_the_action(
    gates: str, verdict: str, code: int, published: Path, tmp_path: Path, api: tuple[Api, str]
) -> None:
    known, url = api
    work = tmp_path / "work"
    work.mkdir()
    for path in published.glob("*.yaml"):
        shutil.copy(path, work)
    inputs = {name: str(item.get("default", "")) for name, item in ACTION["inputs"].items()}
    inputs |= {"model": "models:/loans-gbdt@champion", "data": "loans", "gates": f"{gates}.yaml"}
    inputs |= {"record": "false", "token": "a-token"}
    outputs: dict[str, str] = {}

    def put_in(text: str) -> str:
        text = text.replace("${{ github.action_path }}", str(CI / "action"))
        text = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)
        return re.sub(
            r"\$\{\{ steps\.\w+\.outputs\.(\w+) \}\}", lambda found: outputs[found[1]], text
        )

    codes, said = [], ""
    for name in ("Bundle", "Evaluate", "Report", "Verdict"):
        step = steps()[name]
        given = job_environment(
            published,
            **github(tmp_path, url),
            GITHUB_OUTPUT=str(tmp_path / "output"),
            GITHUB_STEP_SUMMARY=str(tmp_path / "summary"),
            **{key: put_in(value) for key, value in step["env"].items() if key != "GITHUB_TOKEN"},
        )
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=work,
            env=given,
            capture_output=True,
            text=True,
        )
        codes.append(done.returncode)
        said += done.stdout
        outputs |= dict(line.split("=") for line in (tmp_path / "output").read_text().splitlines())
    expected = {"model": inputs["model"], "verdict": verdict, "code": str(code)}
    assert outputs == expected, said
    assert codes == [0, 0, 0, code]
    errors = [line for line in said.splitlines() if line.startswith("::error")]
    assert len(errors) == (code != 0)
    if code == 1:
        assert errors[0].startswith(
            "::error title=gate balanced_accuracy min 0.99 (point)::balanced_accuracy is"
        )
    (ours,) = [item["body"] for item in known.comments if "evenhand" in item["body"]]
    assert (tmp_path / "summary").read_text() in ours


@pytest.mark.long  # as above
def test_the_script_of_the_component(published: Path, tmp_path: Path, api: tuple[Api, str]) -> None:
    known, url = api
    shutil.copy(published / "bad.yaml", tmp_path / "gates.yaml")
    job = component(image="x", model="models:/loans-gbdt@champion", data="loans")["evaluate"]
    variables = {
        name: value for name, value in job["variables"].items() if name != "EVENHAND_STORE"
    }
    given = job_environment(
        published, CI_API_V4_URL=url, CI_PROJECT_ID="3", CI_MERGE_REQUEST_IID="7", GITLAB_TOKEN="a-token",
        EVENHAND_REPORT=str(REPORT), **{**variables, "RECORD": "false"},
    )  # fmt: skip
    codes = []
    for part in ("script", "after_script"):
        done = subprocess.run(["sh", "-e", "-c", "\n".join(job[part])], cwd=tmp_path, env=given)
        codes.append(done.returncode)
    assert codes == [1, 0]
    assert (tmp_path / "evaluation.xml").is_file()
    (ours,) = [item["body"] for item in known.comments if "evenhand" in item["body"]]
    assert "refused" in ours
