"""Which rows are kept: the same ones whatever the files, the order, the format; and as many as
promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from evenhand.fairlib.proxies.hash_uniform import hash_uniforms
from evenhand.fairlib.proxies.raw import RawAcceptance
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering import reading
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle, key_columns
from evenhand.tasks.filtering.filter_engine import plan_units
from evenhand.tasks.filtering.filter_inputs import list_inputs
from evenhand.tasks.filtering.reading import select_columns
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
Kept = Callable[[Path], pa.Table]
FEATURES = ["age", "income", "job", "member", "since", "region"]
SETTINGS = FilterSettings(seed=3, key=("id",), rows_per_unit=2500)


def ids(table: pa.Table) -> list[int]:
    return [int(value) for value in table["id"].to_pylist()]


@pytest.fixture(scope="module")
def rows(people: Make) -> pa.Table:
    return people(6000)


@pytest.fixture(scope="module")
def chosen(rows: pa.Table, bundle: ProxyBundle) -> list[int]:
    """Ids of the rows to keep, by way of the encoder's matrix."""
    features = rows.select(list(bundle.features)).to_pandas()
    shares = bundle.raw.graph.shares(bundle.raw.encoder.transform(features))
    total = np.zeros(len(features))
    for group, probability in enumerate(bundle.raw.acceptance):
        total += shares[:, group] * probability
    return ids(rows.filter(pa.array(hash_uniforms(rows, ["id"], 3) < total)))


def test_one_file_keeps_the_chosen_rows_in_their_order(
    rows: pa.Table, chosen: list[int], bundle: ProxyBundle, put: Put, kept: Kept, tmp_path: Path
) -> None:
    put(rows, tmp_path / "in" / "a.parquet")
    summary = filter_files(
        bundle, str(tmp_path / "in" / "a.parquet"), str(tmp_path / "out"), SETTINGS
    )
    found = kept(tmp_path / "out")
    assert ids(found) == chosen
    assert found.equals(rows.drop_columns("sex").filter(pc.is_in(rows["id"], pa.array(chosen))))
    assert len(list((tmp_path / "out").glob("part-*"))) == 3, "row groups of 1000 in units of 2500"
    assert (summary.rows_in, summary.rows_out) == (6000, len(chosen))
    assert summary.left_out == ["sex"]
    assert [(file.name, file.status) for file in summary.files] == [("a.parquet", "done")]


def test_summary_expects_what_the_matrix_expects(
    rows: pa.Table, bundle: ProxyBundle, put: Put, tmp_path: Path
) -> None:
    put(rows, tmp_path / "in" / "a.parquet")
    summary = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    matrix = bundle.raw.encoder.transform(rows.select(list(bundle.features)).to_pandas())
    masses = bundle.raw.graph.shares(matrix).sum(axis=0)
    np.testing.assert_allclose(summary.masses, masses, rtol=1e-10)
    np.testing.assert_allclose(
        summary.expected_by_group, masses * bundle.raw.acceptance, rtol=1e-10
    )
    assert summary.expected_out == pytest.approx(float(masses @ bundle.raw.acceptance), rel=1e-10)
    assert abs(summary.rows_out - summary.expected_out) < 5 * np.sqrt(6000 / 4)
    assert summary.balance is not None
    compositions = np.array(bundle.balance["compositions"])  # type: ignore[index]
    weights = masses * bundle.raw.acceptance
    np.testing.assert_allclose(summary.balance["shares"], weights @ compositions / weights.sum())
    assert summary.proxies == {bundle.digest: {"version": "7", "files": 1}}


@pytest.mark.parametrize(
    "layout",
    [
        "shuffled",
        "many files",
        "other row groups",
        "one row group",
        "csv",
        "csv.gz",
        "mixed",
        "types",
    ],
)
def test_the_same_rows_are_kept_however_they_come(
    layout: str,
    rows: pa.Table,
    chosen: list[int],
    bundle: ProxyBundle,
    put: Put,
    kept: Kept,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "in"
    if layout == "shuffled":
        put(rows.take(np.random.default_rng(1).permutation(6000)), folder / "a.parquet")
    elif layout == "many files":
        for start in range(0, 6000, 900):
            put(rows.slice(start, 900), folder / f"day={start}" / "x.parquet")
    elif layout == "other row groups":
        put(rows, folder / "a.parquet", row_group=77)
    elif layout == "one row group":
        put(rows, folder / "a.parquet", row_group=6000)
    elif layout == "mixed":
        put(rows.slice(0, 2000), folder / "a.parquet")
        put(rows.slice(2000, 2000), folder / "b.csv")
        put(rows.slice(4000), folder / "c.csv.gz")
    elif layout == "types":
        other = rows.cast(
            pa.schema(
                [
                    ("id", pa.string()), ("age", pa.int64()), ("sex", pa.string()), ("income", pa.float64()),
                    ("job", pa.dictionary(pa.int8(), pa.string())), ("member", pa.bool_()),
                    ("since", pa.timestamp("us")), ("region", pa.large_string()), ("note", pa.string()),
                ]
            )
        )  # fmt: skip
        put(other, folder / "a.parquet")
    else:
        put(rows, folder / f"a.{layout}")
    summary = filter_files(bundle, str(folder), str(tmp_path / "out"), SETTINGS)
    assert summary.failed == []
    assert sorted(ids(kept(tmp_path / "out"))) == chosen
    assert summary.rows_in == 6000


def test_without_an_id_equal_rows_share_their_fate(
    people: Make, bundle: ProxyBundle, put: Put, kept: Kept, tmp_path: Path
) -> None:
    once = people(500).drop_columns(["id", "sex"])
    put(pa.concat_tables([once] * 4), tmp_path / "in" / "a.csv")
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), FilterSettings(seed=1))
    found = kept(tmp_path / "out")
    assert 0 < len(found) < 2000
    counts = (
        found.group_by(found.column_names).aggregate([([], "count_all")])["count_all"].to_pylist()
    )
    assert set(counts) == {4}


def test_another_seed_keeps_other_rows(
    rows: pa.Table, chosen: list[int], bundle: ProxyBundle, put: Put, kept: Kept, tmp_path: Path
) -> None:
    put(rows, tmp_path / "in" / "a.parquet")
    settings = FilterSettings(seed=4, key=("id",))
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)
    both = len(set(chosen) & set(ids(kept(tmp_path / "out"))))
    assert 0.3 < both / len(chosen) < 0.8


def test_a_million_rows_are_kept_as_their_probability_says(
    people: Make, bundle: ProxyBundle, put: Put, kept: Kept, tmp_path: Path
) -> None:
    some = people(2000)
    many = pa.concat_tables([some] * 500).combine_chunks()
    many = many.set_column(0, "id", pa.array(np.arange(len(many))))
    put(many, tmp_path / "in" / "a.parquet", row_group=200_000)
    settings = FilterSettings(key=("id",), probability=True)
    summary = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)
    rho = bundle.raw.evaluate(some).probabilities
    found = kept(tmp_path / "out")
    counts = np.bincount(found["id"].to_numpy() % 2000, minlength=2000)
    # each of 2000 people has 500 independent chances
    z = (counts - 500 * rho) / np.sqrt(np.maximum(500 * rho * (1 - rho), 1e-12))
    open_ = (rho > 0.01) & (rho < 0.99)
    assert open_.sum() > 1000
    assert abs(z[open_].mean()) < 4.5 / np.sqrt(open_.sum())
    assert 0.85 < z[open_].var() < 1.15
    deviation = np.sqrt(500 * (rho * (1 - rho)).sum())
    assert abs(summary.rows_out - 500 * rho.sum()) < 4.5 * deviation
    np.testing.assert_array_equal(
        found["acceptance_probability"].to_numpy(), rho[found["id"].to_numpy() % 2000]
    )


def test_types_of_the_output_are_those_of_the_input(
    rows: pa.Table, bundle: ProxyBundle, put: Put, tmp_path: Path
) -> None:
    wide = rows.append_column("tags", pa.array([["a", "b"]] * 6000)).append_column(
        "kind",
        pa.array(["x", "y"] * 3000).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    )
    wide = wide.append_column("at", pa.array([0] * 6000, pa.timestamp("ms", "Europe/Vienna")))
    wide = wide.append_column(
        "unique", pa.array([f"text {i}" for i in range(6000)], pa.string_view())
    )
    path = put(wide, tmp_path / "in" / "a.parquet")
    filter_files(bundle, str(path), str(tmp_path / "out"), SETTINGS)
    expected = pq.read_table(path).schema.remove_metadata()
    expected = expected.remove(expected.get_field_index("sex"))
    parts = list((tmp_path / "out").glob("part-*.parquet"))
    assert parts
    for part in parts:
        table = pq.read_table(part)
        assert table.schema.equals(expected)
        chosen = pc.is_in(wide["id"], table["id"])
        # Arrow cannot filter views
        source = wide.drop_columns(["sex", "unique"]).filter(chosen)
        assert table.drop_columns("unique").equals(source)
        texts = wide["unique"].cast(pa.string()).filter(chosen)
        assert table["unique"].cast(pa.string()).equals(texts)


def test_csv_columns_get_contract_types_and_others_stay_text(
    rows: pa.Table, bundle: ProxyBundle, put: Put, kept: Kept, tmp_path: Path
) -> None:
    put(rows.append_column("zip", pa.array(["01234"] * 6000)), tmp_path / "in" / "a.csv")
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    found = kept(tmp_path / "out")
    assert found.schema.types == [
        pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.string(),
        pa.string(), pa.string(),
    ]  # fmt: skip
    assert set(found["zip"].to_pylist()) == {"01234"}
    assert found["income"].null_count > 0, "missing numbers stay missing"


def test_sensitive_columns_are_never_read(
    rows: pa.Table, bundle: ProxyBundle, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(rows, tmp_path / "in" / "a.parquet")
    put(rows, tmp_path / "in" / "b.csv")
    seen: list[str] = []
    evaluate = RawAcceptance.evaluate
    asked: list[str] = []
    iter_batches = pq.ParquetFile.iter_batches

    def watched(*arguments: Any, **options: Any) -> Any:
        for batch in iter_batches(*arguments, **options):
            asked.extend(batch.schema.names)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)

    def spy(self: RawAcceptance, batch: pa.RecordBatch) -> object:
        seen.extend(batch.schema.names)
        return evaluate(self, batch)

    monkeypatch.setattr(RawAcceptance, "evaluate", spy)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    assert set(seen) == {*bundle.features, "id"}
    assert set(asked) == {*bundle.features, "id", "note"}
    text = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"sex" in text, "the records say that it was left out"
    parts = [pq.read_schema(path).names for path in (tmp_path / "out").glob("part-*")]
    assert parts
    assert not any("sex" in names for names in parts)


def test_a_sensitive_column_is_refused_where_the_settings_say_so(
    rows: pa.Table, bundle: ProxyBundle, put: Put, tmp_path: Path
) -> None:
    put(rows, tmp_path / "in" / "a.parquet")
    settings = FilterSettings(key=("id",), sensitive="refuse")
    summary = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)
    assert "holds the sensitive column 'sex'" in str(summary.failed[0].reason)
    assert list((tmp_path / "out").glob("part-*")) == []


def test_a_sensitive_column_is_never_part_of_the_key(bundle: ProxyBundle, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="may not hold the sensitive column 'sex'"):
        filter_files(
            bundle, str(tmp_path), str(tmp_path / "out"), FilterSettings(key=("id", "sex"))
        )
    assert not (tmp_path / "out").exists()


def test_a_sensitive_feature_is_kept_outside_the_usual_key(bundle: ProxyBundle) -> None:
    other = replace(bundle, sensitive=frozenset({"sex", "region"}))
    assert key_columns(bundle, FilterSettings()) == (
        "age",
        "income",
        "job",
        "member",
        "region",
        "since",
    )
    assert key_columns(other, FilterSettings()) == ("age", "income", "job", "member", "since")
    assert select_columns(["sex", *FEATURES], RowFilter(other, FilterSettings()), "a")[1] == ["sex"]
    with pytest.raises(InputError, match="every model input is sensitive"):
        key_columns(replace(bundle, sensitive=frozenset(bundle.features)), FilterSettings())


def test_text_is_written_with_one_dictionary(
    people: Make, bundle: ProxyBundle, put: Put, tmp_path: Path
) -> None:
    """The row groups that were read had several."""
    parts = [
        people(500).set_column(4, "job", pa.array([job] * 500))
        for job in ("clerk", "smith", "baker")
    ]
    put(pa.concat_tables(parts), tmp_path / "in" / "a.parquet", row_group=500)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    (part,) = (tmp_path / "out").glob("part-*")
    groups = pq.read_metadata(part)
    assert groups.num_row_groups == 1
    (job,) = [c for c in map(groups.row_group(0).column, range(8)) if c.path_in_schema == "job"]
    # plain text takes four bytes and five letters a value
    assert job.total_uncompressed_size / job.num_values < 1.0
    assert set(pq.read_table(part)["job"].to_pylist()) == {"clerk", "smith", "baker"}


def test_blocks_and_parts_of_a_csv_file_need_not_end_together(
    people: Make,
    bundle: ProxyBundle,
    put: Put,
    kept: Kept,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(people(4000), tmp_path / "in" / "a.csv")
    settings = replace(SETTINGS, rows_per_unit=700)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), settings)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 9000)
    summary = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)
    assert summary.rows_in == 4000
    for part in sorted((tmp_path / "out").glob("part-*")):
        found = pq.read_table(part)
        assert found.equals(pq.read_table(tmp_path / "whole" / part.name))
        index = int(part.stem[-5:])
        assert {value // 700 for value in ids(found)} == {index}


def test_row_groups_are_gathered_into_units_but_never_divided(
    people: Make, put: Put, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    table = people(2000)
    with pq.ParquetWriter(path, table.schema) as writer:
        start = 0
        for size in (900, 50, 50, 60, 500, 440):
            writer.write_table(table.slice(start, size))
            start += size
    (file,) = list_inputs(str(path)).files
    units = plan_units(file, "out", FilterSettings(rows_per_unit=500))
    assert [unit.groups for unit in units] == [(0, 1), (1, 4), (4, 5), (5, 6)]
    assert [(unit.index, unit.last) for unit in units] == [
        (0, False),
        (1, False),
        (2, False),
        (3, True),
    ]
    (whole,) = plan_units(file, "out", FilterSettings(rows_per_unit=2000))
    assert (whole.groups, whole.last) == ((0, 6), True)


def test_progress_ends_with_every_row_and_unit(
    rows: pa.Table, bundle: ProxyBundle, put: Put, tmp_path: Path
) -> None:
    for start in (0, 3000):
        put(rows.slice(start, 3000), tmp_path / "in" / f"{start}.parquet")
    reports: list[tuple[int, int, Mapping[str, float]]] = []
    source, out = str(tmp_path / "in"), str(tmp_path / "out")
    filter_files(bundle, source, out, SETTINGS, lambda *report: reports.append(report))
    # row groups of 1000 in units of 2500
    assert [report[:2] for report in reports] == [(done, 4) for done in range(5)]
    rows_in = [values["rows"] for _, _, values in reports]
    assert (rows_in[0], rows_in[-1]) == (0, 6000)
    assert rows_in == sorted(rows_in)


def test_two_proxies_of_one_seed_decide_independently() -> None:
    """Finding 2.12: they shared their uniform numbers, so A then B kept min(a, b) of the rows, not
    a b.
    """
    from types import SimpleNamespace

    rows = pa.table({"id": list(range(4000))})

    def kept(salt: str) -> Any:
        return ProxyBundle.uniforms(SimpleNamespace(salt=salt), rows, ["id"], 3) < 0.5  # type: ignore[arg-type]

    both = (kept("one") & kept("two")).mean()
    assert abs(both - 0.25) < 0.03
    assert (kept("one") == kept("one")).all()
    # a proxy of an older version has no salt, and keeps the rows that it kept
    assert (kept("") == (hash_uniforms(rows, ["id"], 3) < 0.5)).all()
