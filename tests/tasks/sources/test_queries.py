"""Queries of jobs: one statement that reads, in every dialect that a database may have."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.queries import MOST_CHARACTERS, check_query

WRITING = [
    # comments that a database executes, or that end elsewhere than they seem to
    "select 1 /*! INTO OUTFILE '/tmp/x' */",
    "select 1 /*!50000 into outfile '/tmp/x' */ from people",
    "select 1 /*M! into outfile '/tmp/x' */",
    "select 1 /*M!100100 into dumpfile '/tmp/x' */",
    "select 1 --1 into outfile '/tmp/x'",
    "select 1 # into x\n from people; drop table people",
    "select a # b into stolen from people",
    "select 1 /* /* */ into stolen from people -- */",
    "select 1 /* a */ into stolen from people /* b */",
    "select 'a' -- ' \n into stolen from people",
    "select 1 // 'x\n into stolen from people --'",
    "select 1 -- a\n; delete from people",
    "/* select */ delete from people",
    "-- select 1\ndelete from people",
    # quotes
    r"select '\'' INTO OUTFILE '/tmp/x' -- '",
    r"select '\'' INTO OUTFILE '/tmp/x' from people where a = '\''",
    r"select '\\' into outfile '/tmp/x'",
    r"""select "\"" into outfile '/tmp/x' -- " """,
    r"select E'\'' into stolen from people --'",
    "select [a'] INTO stolen FROM people --'",
    'select [a"] into stolen from people --"',
    "select [a--] into stolen from people",
    "select [a/*] into stolen from people --*/",
    "select [a]]'] into stolen from people --'",
    "select $$'$$ into stolen from people --'",
    "select $a$ $$ ' $a$ into stolen from people -- '",
    "select q'[']' into stolen from dual --'",
    "select '''a' into stolen from people --'''",
    "select 'it''s' into stolen from people",
    "select `a'` into outfile '/tmp/x' -- '",
    "select `a\\`` into stolen from people -- `",
    "select \"a'\" into stolen from people --'",
    "select '''' into stolen from people",
    # words that stand close to others
    "select 1INTO stolen from people",
    "select 1.INTO stolen from people",
    "select 1e0INTO stolen from people",
    "select 0x1INTO stolen from people",
    "select $INTO stolen from people",
    "select 'a'INTO stolen from people",
    "select*INTO[stolen]from people",
    "select 1 INTO@x",
    "select 1 into#x\n outfile '/tmp/x'",
    "select a into/**/stolen from people",
    "select a\ninto\tstolen from people",
    "SeLeCt a InTo stolen from people",
    # statements without a semicolon, and functions
    "select 1 exec('drop table people')",
    "select 1 execute ('drop table people')",
    "select 1 exec xp_cmdshell 'dir'",
    "select 1 drop table people",
    "select 1 delete people",
    "select 1 delete(people)",
    "select 1 insert people values (1)",
    "select 1 truncate table people",
    "select 1 backup database people to disk = 'x'",
    "select 1 shutdown",
    "select 1 kill 52",
    "select 1 deny select on people to x",
    "select 1 disable trigger a on people",
    "with a as (insert into people values (1) returning 1) select * from a",
    "with a as (select 1) insert into people select * from a",
    "with a as (select 1) merge into people using a on 1 = 1 when matched then delete",
    "select * from people for update",
    "select * from people for no key update",
    "select * from people for share",
    "select * from people lock in share mode",
    "select lo_export(1, '/tmp/x')",
    "select \"lo_export\"(1, '/tmp/x')",
    "select pg_catalog.lo_export /* */ (1, '/tmp/x')",
    "select U&\"lo\\005fexport\"(1, '/tmp/x')",
    "select [lo_export](1, '/tmp/x')",
    "select setval('a', 1)",
    "select pg_terminate_backend(1)",
    "select query_to_xml('delete from people', true, true, '')",
    "select dblink_exec('x', 'drop table people')",
    "select load_extension('x')",
    "select * from openrowset('x', 'y', 'delete from people')",
    "select * from openquery(x, 'delete people')",
    "select sleep(1000)",
    # several statements, and none that reads
    "select 1; select 2",
    "select 1;;drop table people",
    "select 1; /*! drop table people */",
    "select 1;\ncopy people to '/tmp/x'",
    "copy (select 1) to '/tmp/x'",
    "explain analyze delete from people",
    "pragma writable_schema = 1",
    "attach 'x' as y",
    "call x()",
    "do $$ begin delete from people; end $$",
    "table people",
    "selct 1",
    "",
    "select 1 \0 into x",
    "select 1 -- a\r into stolen from people",
]

READING = [
    "select * from people",
    "SELECT a, b FROM people WHERE a > 1 ORDER BY b LIMIT 10",
    "select * from people;",
    "select * from people ; -- all of them\n",
    "select 1 /* insert */",
    "select 1 -- insert into a",
    "-- people who were updated\nselect * from people",
    "/* delete */ select * from people",
    "(select 1) union all (select 2)",
    "( select 1 )",
    "with a as (select 1 as x) select x from a",
    "with recursive a(n) as (select 1 union all select n + 1 from a where n < 9) select n from a",
    "values (1, 'a'), (2, 'b')",
    "select 'insert into a; drop table b' as text",
    "select 'it''s' as a, 'delete' as b",
    'select "update" from people',
    "select `insert` from people",
    "select [update] from people",
    "select p.[into] from people p",
    "select p.update, p.delete from people p",
    'select "p".update from "people" as "p"',
    "select insert('abc', 1, 1, 'x'), truncate(1.5, 0), replace(a, 'x', 'y') from people",
    "select updated_at, created, into_account, deleted from people",
    "select case when a = 1 then 'drop' else 'alter' end from people",
    "select cast(a as char character set utf8mb4) from people",
    "select a::text, b::int[] from people",
    "select tags[1], tags[1:2], m['into'] from people",
    "select array['a', 'b'], [1, 2] from people",
    "select array[['a'], ['b']] from people",
    "select data->>'into', data #>> '{a,into}' from people",
    "select a // 2, a % 2, a - -1 from people",
    "select a from people where b like '50\\%' escape '\\'",
    "select 'C:\\temp\\' as folder from people",
    r"select regexp_replace(a, '\s+', ' ') from people",
    r"select 'it\'s' as a from people",
    "select $$it's$$ as a",
    "select q'[it's]' as a from dual",
    "select e'a\\nb' from people",
    "select date '2020-01-01', timestamp '2020-01-01 00:00:00', interval '1' day",
    "select count(*) filter (where a > 1) over (partition by b order by c) from people",
    "select grouping(a), sum(b) from people group by grouping sets ((a), ())",
    "select * from people p join jobs j using (id) left join lateral (select 1) x on true",
    "select * from read_parquet('s3://bucket/*.parquet')",
    "select * from people tablesample bernoulli (10)",
    "select * from people where name in ('Ann', 'Bob') and not exists (select 1 from left_out)",
    "select top 10 * from dbo.people with (nolock)",
    "select * from `project.dataset.people` where _table_suffix between '1' and '2'",
    "select 1e3, 0xff, .5, 1., 1_000",
    'select a as "größe", b as 年齢 from menschen',
    "select /*+ parallel(4) */ * from people",
    "select * from people where a = @a and b = $1 or c = #c",
    "select a\r\nfrom people\r\nwhere b = 1",
    "select 'a;b' as x, \"c;d\" from people",
    "select a from people where note = 'see /* not a comment */ -- nor this'",
    "select sleep, 'sleep (hours)' as a, avg(benchmark) as b from people",
    "select password, code, token from people where token is not null",
    "select '' as nothing, '''' as quote, '''a''' as quoted from people",
]

# the text of a literal or a name as each dialect writes it
WRAPPED = [
    lambda text: "'" + text.replace("'", "''") + "'",
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'",
    lambda text: '"' + text.replace('"', '""') + '"',
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',
    lambda text: "`" + text.replace("`", "``") + "`",
    lambda text: "[" + text.replace("]", "]]") + "]",
    lambda text: "$z$" + text.replace("$", "") + "$z$",
    lambda text: "q'[" + text.replace("]", "") + "]'",
    lambda text: "/* " + text.replace("*", "").replace("/", "") + " */ 1",
    lambda text: "1 -- " + text.replace("\n", "") + "\n",
    lambda text: "1 # " + text.replace("\n", "") + "\n",
    lambda text: "1 // " + text.replace("\n", "") + "\n",
    lambda text: "'''" + text.replace("\\", "\\\\").replace("'", "\\'") + "'''",
]
PIECES = st.text(alphabet="'\"`[]\\$-#/*;! aIq\n\t1.", max_size=12)


@pytest.mark.parametrize("sql", WRITING)
def test_a_query_that_some_database_writes_with_is_refused(sql: str) -> None:
    with pytest.raises(InputError) as caught:
        check_query(sql)
    assert str(caught.value).startswith("table.sql ")


@pytest.mark.parametrize("sql", READING)
def test_a_query_that_only_reads_is_taken(sql: str) -> None:
    check_query(sql)


def test_there_are_enough_of_both() -> None:
    assert len(set(WRITING)) >= 40
    assert len(set(READING)) >= 40


@given(st.sampled_from(WRAPPED), PIECES, st.sampled_from(WRAPPED), PIECES)
@example(WRAPPED[1], "'", WRAPPED[0], "")
@example(WRAPPED[6], "a'", WRAPPED[10], "'")
def test_nothing_that_is_quoted_hides_an_into_behind_it(first, text, second, more) -> None:
    sql = f"select {first(text)} into stolen from people where a = {second(more)}"
    with pytest.raises(InputError):
        check_query(sql)


@given(st.text(alphabet="abc ÄÖ_.,:()<>=+0123456789", max_size=30))
def test_ordinary_text_in_quotes_is_taken(text: str) -> None:
    for word in ("into", "drop table", ""):
        check_query(f"select '{text} {word}' as \"{text} {word}\" from people -- {text} {word}")


@given(PIECES)
def test_what_sqlite_writes_with_is_refused(text: str) -> None:
    """An independent reader: SQLite itself says whether a statement writes."""
    with sqlite3.connect(":memory:") as opened:
        opened.execute("create table people (a)")
        opened.execute("insert into people values (1)")
        for sql in (f"select {text}; delete from people", f"select 1 {text} delete from people"):
            try:
                check_query(sql)
            except InputError:
                continue
            with contextlib.suppress(sqlite3.Error):
                opened.executescript(f"{sql};")
            assert opened.execute("select count(*) from people").fetchone() == (1,), sql


def test_a_very_long_query_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="make a view"):
        check_query("select " + "'" * MOST_CHARACTERS)
