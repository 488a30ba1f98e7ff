"""From a table to a table of PostgreSQL, killed five times: no row is missing, none is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from tests.flows.people import Done, make_people

pytestmark = pytest.mark.long  # starts PostgreSQL, and the command seven times

ROWS = 60_000
DAYS = 150  # so many that the quicker command is killed five times too
KILLS = 5


@pytest.mark.parametrize("options", [(), ("--in-database",)])
def test_kills_leave_every_row_once(
    options: tuple[str, ...], postgres: str, published: Done
) -> None:
    engine = sa.create_engine(postgres)
    people = make_people(ROWS, 1).to_pandas()
    people["key"] = [f"person-{number}" for number in range(ROWS)]
    people["day"] = [number % DAYS for number in range(ROWS)]
    people.to_sql("people", engine, index=False, chunksize=10_000, method="multi")
    command = [sys.executable, "-c", "from evenhand.flows.cli import main; main()", "predict"]
    command += ["people-gbdt", "--input", "$WAREHOUSE#public.people"]
    command += ["--output", "$WAREHOUSE#public.scored", "--set", "predict.partition_by=day"]
    command += ["--set", "predict.workers=1", "--direct", "--json"]
    command += ["--store", str(published.store), *options]
    environment = {**os.environ, "WAREHOUSE": postgres}

    def units() -> int:
        with engine.connect() as opened:
            if not sa.inspect(opened).has_table("scored_evenhand"):
                return 0
            return int(opened.scalar(sa.text("select count(*) from scored_evenhand")) or 0)

    moments = random.Random(5)
    killed = 0
    done_before = 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # around a batch: some more are done, and the next has begun
        while process.poll() is None and units() < done_before + 3:
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.3))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        done_before = units()
    assert killed == KILLS, "the command was too quick to be killed"
    last = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    with engine.connect() as opened:
        total, distinct = opened.execute(
            sa.text("select count(*), count(distinct key) from scored")
        ).one()
        missing = opened.scalar(
            sa.text("select count(*) from people where key not in (select key from scored)")
        )
    engine.dispose()
    assert (total, distinct, missing) == (ROWS, ROWS, 0)
