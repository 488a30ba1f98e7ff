"""The worker processes of a sweep: a core and a thread each, and a new one for one that died."""

from __future__ import annotations

import os

import pytest
from threadpoolctl import threadpool_info

from evenhand.flows.workers import WorkerPool
from evenhand.tasks.errors import NotCarriedOut

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin")


def test_workers_have_a_core_and_a_thread_each_and_a_dead_one_is_replaced() -> None:
    mine = os.sched_getaffinity(0)
    pool = WorkerPool(2)
    try:
        assert len(pool.run(os.sched_getaffinity, 0)) == 1
        assert {info["num_threads"] for info in pool.run(threadpool_info)} == {1}
        assert pool.run(os.getenv, "OMP_NUM_THREADS") == "1"
        one, other = (pool.run(os.getpid) for _ in range(2))
        assert one != other
        with pytest.raises(NotCarriedOut, match="worker process died"):
            pool.run(os._exit, 1)
        assert pool.run(os.getpid) == other, "a death concerns no other worker"
        assert pool.run(os.getpid) not in (one, other)
        assert len(pool.run(os.sched_getaffinity, 0)) == 1
    finally:
        pool.close()
    assert os.sched_getaffinity(0) == mine
    with pytest.raises(NotCarriedOut, match="stopped"):
        pool.run(os.getpid)


def test_a_worker_alone_keeps_all_cores() -> None:
    pool = WorkerPool(1)
    try:
        assert pool.run(os.sched_getaffinity, 0) == os.sched_getaffinity(0)
    finally:
        pool.close()
