"""The temporary Prefect server: a start that fails is tried again, and not for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evenhand.flows import runtime as server
from evenhand.tasks.errors import NotCarriedOut
from tests.e2e.real_services import free_ports


def test_a_server_that_keeps_ending_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def ends_at_once(self: server._Server) -> subprocess.Popen[bytes]:
        starts.append(self.port)
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process

    monkeypatch.setattr(server._Server, "_start", ends_at_once)
    monkeypatch.setattr(server.time, "sleep", lambda seconds: None)
    with pytest.raises(NotCarriedOut, match="--direct"):
        server._Server(free_ports(1)[0]).wait(60)
    assert len(starts) == server.MAX_STARTS
    assert len(set(starts)) == 1
