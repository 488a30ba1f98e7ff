"""Every shipped job ends with 0, or with the exit code that is announced."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.flows.job_file import shipped_jobs
from tests.e2e.shipped_jobs import ANNOUNCED, ordered_jobs, proxy_of, run_job


def test_what_is_announced_is_in_the_description() -> None:
    described = shipped_jobs()
    for name, (code, reason) in ANNOUNCED.items():
        assert code in (1, 3)
        assert reason in described[name]


def test_a_proxy_is_published_before_the_jobs_that_need_it() -> None:
    names = ordered_jobs()
    assert sorted(names) == sorted(shipped_jobs())
    needed = {name: proxy_of(name) for name in names if proxy_of(name)}
    assert needed
    for name, proxy in needed.items():
        assert names.index(str(proxy)) < names.index(name)


@pytest.mark.long  # some jobs take minutes
@pytest.mark.data
@pytest.mark.parametrize("name", ordered_jobs())
def test_a_shipped_job_ends_as_announced(name: str, tmp_path: Path) -> None:
    proxy = proxy_of(name)
    if proxy is not None:
        assert run_job(proxy, tmp_path / "store").code == 0
    ending = run_job(name, tmp_path / "store")
    if ending.lacking is not None:
        pytest.skip(f"{name}: {ending.lacking}")
    assert ending.is_announced, ending.line()
