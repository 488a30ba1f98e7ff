"""Report an evaluation to the CI system, from the files that `evenhand evaluate` wrote.

    python report.py annotate evaluation.xml    GitHub: one annotation for each gate that did not
    pass python report.py comment evaluation.md      comment on the pull or merge request, once

On GitHub `comment` reads GITHUB_TOKEN (permission pull-requests: write) and GITHUB_EVENT_PATH. On
GitLab it reads GITLAB_TOKEN, a project access token with the scope `api`, and CI_MERGE_REQUEST_IID.
It changes the comment of an earlier run. A comment that cannot be written is a warning: the gates
alone decide how the job ends. Only the standard library is needed.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

MARK = "<!-- evenhand -->"
MAX_CHARACTERS = 60_000  # GitHub takes 65,536
PER_PAGE = 100
TIMEOUT_S = 30


def escaped(text: str, *more: str) -> str:
    """Text for a workflow command, whose lines and properties end at these characters."""
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def annotate(path: Path) -> None:
    """Print one `::error` command for every failure and error of a JUnit file."""
    for case in ElementTree.parse(path).iter("testcase"):
        for fault in (*case.findall("failure"), *case.findall("error")):
            title = escaped(f"gate {case.get('name')}", ":", ",")
            print(f"::error title={title}::{escaped(fault.get('message') or '')}")


def request(
    url: str, headers: dict[str, str], method: str = "GET", body: dict[str, str] | None = None
) -> Any:
    """JSON that the API answers."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(
        url, data, {**headers, "Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(sent, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def places() -> tuple[str, str, dict[str, str], str] | None:
    """URL of the request's comments, URL of one comment, headers, and the method that changes a
    comment.
    """
    given = os.environ
    if given.get("CI_MERGE_REQUEST_IID"):
        merge = f"{given['CI_API_V4_URL']}/projects/{given['CI_PROJECT_ID']}/merge_requests"
        notes = f"{merge}/{given['CI_MERGE_REQUEST_IID']}/notes"
        return notes, notes, {"PRIVATE-TOKEN": given.get("GITLAB_TOKEN", "")}, "PUT"
    event = json.loads(Path(given.get("GITHUB_EVENT_PATH") or os.devnull).read_text() or "{}")
    if "pull_request" not in event:
        return None
    issues = f"{given['GITHUB_API_URL']}/repos/{given['GITHUB_REPOSITORY']}/issues"
    headers = {
        "Authorization": f"Bearer {given.get('GITHUB_TOKEN', '')}",
        "Accept": "application/vnd.github+json",
    }
    return (
        f"{issues}/{event['pull_request']['number']}/comments",
        f"{issues}/comments",
        headers,
        "PATCH",
    )


def comment(path: Path) -> None:
    """Write a comment with the content of a file, or change the one that an earlier run wrote."""
    found = places()
    if found is None:
        print("no pull or merge request: nothing to comment on.")
        return
    listed, single, headers, change = found
    text = {"body": f"{MARK}\n{path.read_text(encoding='utf-8')[:MAX_CHARACTERS]}"}
    for page in range(1, 100):
        comments = request(f"{listed}?per_page={PER_PAGE}&page={page}", headers)
        for item in comments:
            if (item.get("body") or "").startswith(MARK):
                request(f"{single}/{item['id']}", headers, change, text)
                return
        if len(comments) < PER_PAGE:
            break
    request(listed, headers, "POST", text)


def main(action: str, path: str) -> int:
    """Run one of the two; 2 for a wrong call."""
    if action == "annotate":
        annotate(Path(path))
    elif action == "comment":
        try:
            comment(Path(path))
        except (urllib.error.URLError, OSError, KeyError, ValueError) as error:
            reason = (
                f"HTTP {error.code}"
                if isinstance(error, urllib.error.HTTPError)
                else type(error).__name__
            )
            print(f"::warning title=evenhand::the comment could not be written ({reason}).")
    else:
        print("usage: report.py annotate|comment FILE", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else main("", ""))
