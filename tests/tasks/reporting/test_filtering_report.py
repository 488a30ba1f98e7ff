"""The report of a filter run: whole HTML, every number of a plot in a table, and sentences that hold."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from filter_example import ACCEPTANCE, BALANCE, FILES, TRAINING, filter_context
from html_tree import Node, read
from hypothesis import given
from hypothesis import strategies as st
from test_report_svg import assert_apart, boxes, parse

from evenhand.tasks.filtering.bundle import FilterSettings
from evenhand.tasks.filtering.summary import FileOutcome
from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.filter_files import MOST_FILES, TOP, by_folder
from evenhand.tasks.reporting.filter_numbers import ExpectedShare, ProxyGroup, distance, proxy_groups
from evenhand.tasks.reporting.filter_plots import expected_plot, proxy_group_bars
from evenhand.tasks.reporting.filter_words import badge, headline
from evenhand.tasks.reporting.filtering import render_filter

HOSTILE = '<script>alert("1")</script>\'&"><img src=x onerror=alert(1)>'
FINE = [file for file in FILES if file.status != "failed"]
DRIFTED = (0.55, 0.1, 0.15, 0.2)
OTHERS = {"a" * 64: {"version": "3", "files": 3}, "b" * 64: {"version": "2", "files": 4}}


def failing(count: int) -> list[FileOutcome]:
    return [FileOutcome(f"{i:03d}.csv", "failed", reason=f"reason {i}") for i in range(count)]


def many(count: int = 240) -> list[FileOutcome]:
    """More files than are listed, in folders three deep, one of them failed."""
    files = [
        FileOutcome(f"{i % 2}/{i % 8}/{i:04d}.csv", "done", rows_in=10 + i, rows_out=i) for i in range(count)
    ]
    return [*files, FileOutcome("1/3/bad.csv", "failed", reason="it is damaged")]


def two_attributes() -> dict[str, Any]:
    balance = copy.deepcopy(BALANCE)
    balance["attributes"]["sex"] = ["female", "male"]
    balance["groups"] += ["sex=female", "sex=male"]
    balance["target"] += [0.5, 0.5]
    balance["base_rates_train"] += [0.3, 0.7]
    for line, share in zip(balance["compositions"], (0.6, 0.2, 0.3, 0.5), strict=True):
        line += [share, 1 - share]
    return balance


def hidden() -> dict[str, Any]:
    """A group with too few rows to say anything of it."""
    context = filter_context(FINE)
    for name in ("shares", "low", "high"):
        context["summary"]["balance"][name][3] = None
    context["balance"]["base_rates_train"][3] = None
    return context


def hostile() -> dict[str, Any]:
    safe = {"status", "created", "version"}

    def spoil(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: value if key in safe else spoil(value) for key, value in item.items()}
        if isinstance(item, list):
            return [spoil(part) for part in item]
        return HOSTILE + item if isinstance(item, str) else item

    context: dict[str, Any] = spoil(filter_context(others=1, proxies=OTHERS))
    context["proxy"]["version"] = HOSTILE
    context["balance"]["attributes"] = {
        HOSTILE + name: groups for name, groups in context["balance"]["attributes"].items()
    }
    return context


EXAMPLES = {
    "one failed": filter_context,
    "all well": lambda: filter_context(FINE),
    "drifted": lambda: filter_context(FINE, DRIFTED),
    "no rows": lambda: filter_context([FileOutcome("empty.csv", "done")], left_out=[]),
    "all failed": lambda: filter_context(failing(3), left_out=[]),
    "all skipped": lambda: filter_context([FileOutcome("a.csv", "skipped", 50_000, 21_000)]),
    "another proxy": lambda: filter_context(FINE, others=4, proxies=OTHERS),
    "no balance": lambda: filter_context(FINE, balance=None),
    "no drift": lambda: filter_context(FINE, drift=None, masses=[0.0] * 4, expected_by_group=[0.0] * 4),
    "none expected": lambda: filter_context(FINE, balance=BALANCE, rows_out=0) | {"status": "failed"},
    "many files": lambda: filter_context(many()),
    "many failed": lambda: filter_context(failing(MOST_FILES + 1)),
    "two attributes": lambda: filter_context(FINE, balance=two_attributes()),
    "hidden": hidden,
    "no key": lambda: filter_context(FINE, settings=FilterSettings()),
    "hostile": hostile,
}


@pytest.fixture(params=sorted(EXAMPLES))
def any_html(request: pytest.FixtureRequest) -> str:
    return render_filter(EXAMPLES[request.param]())


def page(context: dict[str, Any]) -> Node:
    return read(render_filter(context))


def table(root: Node, caption: str) -> list[list[str]]:
    """Rows of the body of the table whose caption starts so."""
    (found,) = [t for t in root.all("table") if t.all("caption")[0].text().startswith(caption)]
    return [[cell.text() for cell in row.all("th", "td")] for row in found.all("tbody")[0].all("tr")]


def test_whole_html_that_speaks_and_loads_nothing(any_html: str) -> None:
    root = read(any_html)
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        assert not any(name.startswith("on") for name in node.attrs)
        for name in ("aria-labelledby", "href"):
            value = node.attrs.get(name) or ""
            targets = value.split() if name == "aria-labelledby" else [value[1:]] if value else []
            assert set(targets) <= set(ids), value
    assert not root.all("script", "img", "link", "iframe")
    assert [int(node.tag[1]) for node in root.all("h1", "h2", "h3")].count(1) == 1
    sections = {node.attrs["id"] for node in root.all("section") if "id" in node.attrs}
    assert {node.attrs["href"] for node in root.all("nav")[0].all("a")} == {f"#{name}" for name in sections}
    for found in root.all("table"):
        assert found.all("caption")
        assert all(head.attrs.get("scope") in ("row", "col") for head in found.all("th"))
        widths = {
            sum(int(cell.attrs.get("colspan") or 1) for cell in row.all("th", "td"))
            for row in found.all("tr")
        }
        assert len(widths) == 1
    for plot in root.all("svg"):
        assert plot.attrs["role"] == "img"
        assert plot.all("title")[0].text()
        assert plot.all("desc")[0].text()


def test_no_number_is_left_undefined(any_html: str) -> None:
    text = read(any_html).text()
    assert not re.search(r"\b(nan|inf|None|undefined)\b", text)


def test_the_headline_by_hand() -> None:
    said = headline(filter_context(FINE, (0.1, 0.5, 0.3, 0.1)))
    assert said[0] == (
        "The output holds 48,021 of 100,000 rows (48.0%), from 3 files. 1 of them was filtered in an earlier "
        "run."
    )
    # Accepted: 0.1, 0.125, 0.15 and 0.08 of the rows, together 0.455; students among them:
    # 0.1 * 0.4 + 0.125 * 0.02 + 0.15 * 0.03 + 0.08 * 0.05 = 0.051, which is 11.2%.
    assert said[1].startswith(
        "By job: the rarest group, “student”, is expected to go from 6.0% of the training rows to 11.2% of "
        "the kept rows (95% interval "
    )
    assert said[1].endswith("; wanted: 25.0%).")
    # Of the kept 0.455, the groups have 0.13225, 0.17275, 0.099 and 0.051.
    kept = sum((a - 0.25) ** 2 for a in (0.13225 / 0.455, 0.17275 / 0.455, 0.099 / 0.455, 0.051 / 0.455))
    assert said[2] == (
        f"Taken together, the expected shares lie {kept**0.5:.3f} from the wanted ones; those of the "
        "training rows lie 0.296 from them."
    )
    assert said[3].startswith("The rows fall into the proxy groups much as the training rows did")
    assert "index 0.000, limit 0.200" in said[3]
    assert len(said) == 4


def test_drift_is_told_before_the_balance_with_its_cure() -> None:
    context = filter_context(FINE, DRIFTED)
    said = headline(context)
    assert "not like the training rows" in said[1]
    assert f"index {context['summary']['drift']['psi']:.3f}, above the limit of 0.200" in said[1]
    assert "Retrain the proxy" in said[1]
    assert not any("much as the training rows" in sentence for sentence in said)
    assert badge(context)[0] == "insufficient_evidence"
    assert "drifted" in badge(context)[2]


def test_a_limit_that_is_just_passed_is_told_apart_from_the_index() -> None:
    context = filter_context(FINE)
    context["settings"]["max_drift"] = context["summary"]["drift"]["psi"] - 1e-5
    context["summary"]["drift"]["warning"] = True
    found = re.search(r"index ([\d.]+), above the limit of ([\d.]+)\)", headline(context)[1])
    assert found is not None
    assert float(found[1]) > float(found[2])


def test_groups_that_end_farther_from_the_wanted_share_are_named() -> None:
    balance = copy.deepcopy(BALANCE)
    balance["base_rates_train"] = [0.26, 0.45, 0.24, 0.05]
    context = filter_context(FINE, (0.1, 0.5, 0.3, 0.1), balance)
    # 29.1% and 21.8% are farther from 25% than 26% and 24% are
    assert "Expected to be farther from the wanted share than in training: “admin.” and “retired”." in (
        headline(context)
    )
    shares = {row[0]: row for row in table(page(context), "Expected shares by job")}
    assert {name for name in shares if "farther" in name} == {
        "admin. farther from the wanted share",
        "retired farther from the wanted share",
    }


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("one failed", "1 of 4 files failed", "The output holds 48,021 of 100,000 rows"),
        ("all failed", "3 of 3 files failed", "Nothing was filtered, and the output holds no row."),
        ("no rows", "No rows to filter", "There was nothing to filter: 1 file without a row."),
        ("all skipped", "Filtered", "The output holds 21,000 of 50,000 rows (42.0%), from 1 file."),
        ("none expected", "Did not finish", "The output holds 0 of 100,000 rows (0.0%)"),
    ],
)
def test_the_badge_and_the_first_sentence_say_how_it_ended(name: str, text: str, start: str) -> None:
    context = EXAMPLES[name]()
    assert badge(context)[2] == text
    assert headline(context)[0].startswith(start)


def test_nothing_to_do_is_told_only_if_all_files_were_done_before() -> None:
    assert "nothing was left to do" in headline(EXAMPLES["all skipped"]())[0]
    assert "nothing was left to do" not in headline(EXAMPLES["all well"]())[0]
    mixed = [FileOutcome("a.csv", "skipped", 50, 20), *failing(1)]
    assert "nothing was left to do" not in headline(filter_context(mixed))[0]


def test_failed_files_come_with_their_reasons_and_the_cure() -> None:
    context = filter_context(failing(3))
    assert headline(context)[1].startswith("All 3 files of the input failed, and none of their rows")
    assert "run the filter again" in headline(context)[1]
    rows = table(page(context), "Failed files")
    assert [row[0] for row in rows] == [f"00{i}.csv reason {i}" for i in range(3)]
    assert headline(filter_context())[1].startswith("1 of the 4 files of the input failed, and none of its")


def test_failed_files_stand_before_the_others() -> None:
    captions = [node.text() for node in page(filter_context()).all("caption")]
    assert captions.index("Failed files, and why") < captions.index(
        "Files of the input that are in the output"
    )
    rows = table(page(filter_context()), "Files of the input")
    assert rows[1] == ["2026/05/accounts.parquet", "filtered before", "35,000", "16,840", "40"]


def test_too_many_files_are_added_up_by_folder() -> None:
    files = many()
    root = page(filter_context(files))
    folders = table(root, "Files and rows of the input by folder")
    assert folders[0][:3] == ["1/3/", "31", "1"], "the folder with a failure first"
    inside = [file for file in files if file.name.startswith("1/3/") and file.status == "done"]
    assert folders[0][3] == f"{sum(file.rows_in for file in inside):,}"
    assert folders[0][4] == f"{sum(file.rows_out for file in inside):,}"
    assert sum(int(row[1]) for row in folders) == len(files)
    assert table(root, "Failed files")[0][0] == "1/3/bad.csv it is damaged"
    assert "0/0/0000.csv" not in root.text()


def test_of_very_many_failed_files_the_first_are_named_and_all_are_counted() -> None:
    root = page(EXAMPLES["many failed"]())
    assert len(table(root, f"The first {MOST_FILES} of {MOST_FILES + 1} failed files")) == MOST_FILES
    assert table(root, "Files and rows of the input by folder")[0][1:3] == ["201", "201"]


def test_folders_are_joined_no_farther_than_it_takes() -> None:
    def names(most: int) -> list[str]:
        return [folder.name for folder in by_folder(filter_context(many(16))["summary"]["files"], most)]

    assert len(names(8)) == 8
    assert names(7) == ["1/", "0/"], "the failed file is in 1/3"
    assert names(1) == [TOP]


PATHS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(PATHS, st.sampled_from(["done", "failed"]), st.integers(0, 9)), min_size=1))
def test_folders_are_few_and_lose_nothing(given_: list[tuple[str, str, int]]) -> None:
    files: list[dict[str, Any]] = [
        {"name": name, "status": status, "rows_in": rows, "rows_out": rows // 2, "quarantined": 0}
        for name, status, rows in given_
    ]
    folders = by_folder(files, most=6)
    assert len(folders) <= 6
    assert len({folder.name for folder in folders}) == len(folders)
    assert sum(folder.files for folder in folders) == len(files)
    assert sum(folder.failed for folder in folders) == sum(file["status"] == "failed" for file in files)
    assert sum(folder.rows_in for folder in folders) == sum(file["rows_in"] for file in files)
    assert [folder.failed for folder in folders] == sorted((f.failed for f in folders), reverse=True)
    deepest = max(folder.name.count("/") for folder in folders)
    for folder in folders:
        below = [file["name"] for file in files if folder.name == TOP or file["name"].startswith(folder.name)]
        if folder.name.count("/") < deepest:
            below = [name for name in below if name.count("/") == folder.name.count("/")]
        assert len(below) == folder.files


def test_every_row_is_accounted_for() -> None:
    rows = {row[0]: row[1:] for row in table(page(filter_context(dropped=7)), "What became of the rows")}
    counts = {name: int(cells[0].replace(",", "")) for name, cells in rows.items()}
    # judged: 100,000 rows less 53; accepted of them 0.12 + 0.45 / 4 + 0.32 / 2 + 0.11 * 0.8 = 0.4805
    assert rows["Kept 48,025 were to be expected"] == ["48,021", "48.0%"]
    assert counts["Set aside they break the data contract"] == 53
    assert counts["Left out a sensitive model input is missing"] == 7
    assert (
        sum(n for name, n in counts.items() if name != "All rows read") == counts["All rows read"] == 100_000
    )


def test_columns_and_rows_that_were_left_out_are_told() -> None:
    text = page(filter_context(left_out=["job", "sex"])).text()
    assert "are not in the output: job , sex ." in text
    assert "53 rows break the data contract" in text
    assert "_evenhand/quarantine" in text
    clean = page(filter_context(FINE[:1], left_out=[])).text()
    assert "no sensitive column that the proxy does not need" in clean
    assert "set aside" not in clean
    assert "Columns that were left out" not in page(EXAMPLES["all failed"]()).text()


def test_every_number_of_a_plot_stands_in_a_table() -> None:
    root = page(filter_context(FINE, balance=two_attributes()))
    cells = {cell.text() for found in root.all("table") for cell in found.all("td", "th")}
    plots = [plot for plot in root.all("svg") if "wide" in (plot.attrs["class"] or "")]
    assert len(plots) == 3
    for plot in plots:
        numbers = {t.text() for t in plot.all("text") if re.search(r"\d\.\d%", t.text())}
        assert numbers
        assert numbers <= cells


def test_shares_stand_beside_training_and_wanted_ones() -> None:
    context = filter_context(FINE)
    found = context["summary"]["balance"]
    rows = table(page(context), "Expected shares by job")
    for k, row in enumerate(rows):
        ends = f"{formats.percent(found['low'][k])} to {formats.percent(found['high'][k])}"
        training = formats.percent(BALANCE["base_rates_train"][k])
        assert row == [
            BALANCE["attributes"]["job"][k],
            training,
            formats.percent(found["shares"][k]),
            ends,
            "25.0%",
        ]


def test_a_group_with_too_few_rows_is_shown_without_numbers_and_never_the_rarest() -> None:
    context = hidden()
    row = table(page(context), "Expected shares by job")[3]
    assert row == ["student", "too few rows", "too few rows", "25.0%"]
    said = " ".join(headline(context))
    assert "the rarest group, “retired”" in said
    assert "Taken together" not in said
    unlabelled = filter_context(FINE)
    unlabelled["balance"]["base_rates_train"][3] = None
    assert "the rarest group, “retired”" in " ".join(headline(unlabelled))


def test_every_attribute_has_its_own_shares() -> None:
    context = filter_context(FINE, balance=two_attributes())
    shares = [formats.percent(share) for share in context["summary"]["balance"]["shares"]]
    rows = table(page(context), "Expected shares by job") + table(page(context), "Expected shares by sex")
    assert [row[2] for row in rows] == shares
    assert [row[0] for row in rows[4:]] == ["female", "male"]
    assert [row[1] for row in rows[4:]] == ["30.0%", "70.0%"]


def test_proxy_groups_are_numbered_by_their_size_in_training() -> None:
    groups = proxy_groups(filter_context(FINE, (0.1, 0.2, 0.3, 0.4)))
    # places 1, 2, 0 and 3 of the bundle: of equal ones the earlier comes first
    assert [group.training for group in groups] == [0.5, 0.3, 0.1, 0.1]
    assert [group.share for group in groups] == pytest.approx([0.2, 0.3, 0.1, 0.4])
    assert [group.acceptance for group in groups] == pytest.approx([0.25, 0.5, 1.0, 0.8])
    assert [group.name for group in groups] == ["1", "2", "3", "4"]
    rows = table(page(filter_context(FINE, (0.1, 0.2, 0.3, 0.4))), "Rows by proxy group")
    # of 99,947 judged rows
    assert rows[0] == ["1", "50.0%", "20.0%", "\u221230.0", "19,989", "0.250", "4,997"]
    assert rows[3] == ["4", "10.0%", "40.0%", "+30.0", "39,979", "0.800", "31,983"]


def test_without_the_proxys_measurements_only_the_batch_is_shown() -> None:
    context = EXAMPLES["no balance"]()
    root = page(context)
    assert "came without the measurements" in root.text()
    rows = table(root, "Rows by proxy group")
    assert [row[1] for row in rows] == ["45.0%", "32.0%", "12.0%", "11.0%"]
    assert all(len(row) == 5 for row in rows)
    assert not any("wanted" in t.text() for t in root.all("svg"))


def test_without_a_judged_row_neither_drift_nor_balance_is_claimed() -> None:
    context = EXAMPLES["no drift"]()
    root = page(context)
    assert "Drift cannot be judged" in root.text()
    assert "Rows by proxy group" not in root.text()
    empty = page(EXAMPLES["no rows"]()).text()
    assert "no row is expected to be kept" in empty
    assert "much as the training rows" not in empty


def test_the_work_of_another_proxy_is_told_and_listed() -> None:
    context = EXAMPLES["another proxy"]()
    text = headline(context)[-1]
    assert "4 files that were filtered by another proxy (version 2)" in text
    assert "from 7 files" in headline(context)[0]
    assert "4 are of earlier runs and not in this input" in headline(context)[0]
    rows = table(page(context), "Proxies whose work is in the output")
    assert [row[0] for row in rows] == ["Version 3", "Version 2"]
    assert not any("another proxy" in said for said in headline(filter_context()))


def test_rows_that_share_their_fate_are_told_apart_by_the_key() -> None:
    without = page(filter_context(FINE, settings=FilterSettings(seed=11))).text()
    assert "Rows with equal features share their fate" in without
    assert "seed 11" in without
    keyed = page(filter_context(FINE, settings=FilterSettings(key=("id", "month")))).text()
    assert "equal features" not in keyed
    assert "its key (“id” and “month”)" in keyed


def test_secrets_of_an_address_stay_out_and_a_local_glob_stays_whole() -> None:
    context = filter_context(FINE)
    context["input"] = "s3://user:hunter2@bucket/rows?token=hunter3"
    context["output"] = "/data/out-?"
    html = render_filter(context)
    assert "hunter" not in html
    assert "s3://bucket/rows" in html
    assert html.count("/data/out-?") == 2


def test_hostile_text_stays_text() -> None:
    html = render_filter(hostile())
    assert "<script" not in html
    assert "<img" not in html
    assert HOSTILE in read(html).solid()


def test_a_file_name_that_is_no_text_can_be_written() -> None:
    name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
    html = render_filter(filter_context([FileOutcome(name, "done", 10, 4)]))
    assert "caf?.csv" in html.encode("utf-8").decode("utf-8")


def test_distance_by_hand() -> None:
    assert distance([0.8, 0.2], [0.5, 0.5]) == pytest.approx((0.09 + 0.09) ** 0.5)
    assert distance([0.5, None], [0.5, 0.5]) is None


@pytest.mark.parametrize("compact", [False, True])
def test_expected_shares_are_drawn_to_scale(compact: bool) -> None:
    rows = [
        ExpectedShare("a", 0.2, 0.1, 0.3, 0.4, 0.3),
        ExpectedShare("b", 0.4, 0.3, 0.5, 0.1, 0.2),
        ExpectedShare("c", None, None, None, None, 0.1),
    ]
    image = expected_plot(rows, uid="u", title="t", description="d", interval_name="i", compact=compact)
    root = parse(image)
    dots = [float(dot.get("cx", 0)) for dot in root.findall("circle")]
    wanted = [float(line.get("x1", 0)) for line in root.findall("line") if line.get("class") == "limit"]
    paths = {
        name: [p for p in root.findall("path") if p.get("class") == name] for name in ("whisker", "paper")
    }
    assert (len(dots), len(wanted), len(paths["whisker"]), len(paths["paper"])) == (2, 3, 2, 2)
    unit = (dots[1] - dots[0]) / 0.2
    zero = dots[0] - 0.2 * unit
    assert wanted == pytest.approx([zero + share * unit for share in (0.3, 0.2, 0.1)], abs=0.2)
    for path, (low, high) in zip(paths["whisker"], [(0.1, 0.3), (0.3, 0.5)], strict=True):
        xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path.get("d", ""))]
        assert (min(xs), max(xs)) == pytest.approx((zero + low * unit, zero + high * unit), abs=0.2)
    # the top of a diamond is above its middle
    middles = [float(re.findall(r"M([\d.]+)", path.get("d", ""))[0]) for path in paths["paper"]]
    assert middles == pytest.approx([zero + 0.4 * unit, zero + 0.1 * unit], abs=0.2)
    assert "too few rows" in {text for text, *_ in boxes(image)}


@pytest.mark.parametrize("compact", [False, True])
def test_bars_of_proxy_groups_are_drawn_to_scale(compact: bool) -> None:
    rows = [ProxyGroup("1", 0.5, 60.0, 15.0, 100.0), ProxyGroup("2", 0.25, 40.0, 40.0, 100.0)]
    image = proxy_group_bars(rows, uid="u", title="t", description="d", compact=compact)
    root = parse(image)
    wide = {
        name: [float(r.get("width", 0)) for r in root.findall("rect") if r.get("class") == name]
        for name in ("pale", "bar")
    }
    left = next(float(r.get("x", 0)) for r in root.findall("rect"))
    training = [
        float(mark.get("x1", 0)) - left for mark in root.findall("line") if mark.get("class") == "limit"
    ]
    unit = wide["pale"][0] / 0.6
    assert wide["pale"] == pytest.approx([0.6 * unit, 0.4 * unit], abs=0.2)
    assert wide["bar"] == pytest.approx([0.15 * unit, 0.4 * unit], abs=0.2)
    assert training == pytest.approx([0.5 * unit, 0.25 * unit], abs=0.2)


SHARE = st.integers(0, 1000).map(lambda k: k / 1000)
NAMES = st.text("abcWM .<&", min_size=1, max_size=40)


def spread(group: str, ends: list[float], training: float | None, wanted: float) -> ExpectedShare:
    low, middle, high = sorted(ends)
    return ExpectedShare(group, middle, low, high, training, wanted)


EXPECTED = st.one_of(
    st.builds(
        spread,
        NAMES,
        st.lists(SHARE, min_size=3, max_size=3),
        st.none() | SHARE,
        st.integers(1, 1000).map(lambda k: k / 1000),
    ),
    st.builds(ExpectedShare, NAMES, st.none(), st.none(), st.none(), st.none(), st.just(0.25)),
)


@given(st.lists(EXPECTED, min_size=1, max_size=8), st.booleans())
def test_labels_of_expected_shares_stand_apart(rows: list[ExpectedShare], compact: bool) -> None:
    image = expected_plot(
        rows, uid="u", title="t", description="d", interval_name="95% interval", compact=compact
    )
    assert_apart(image)
    assert len(parse(image).findall("circle")) == sum(row.expected is not None for row in rows)


BARS = st.lists(st.tuples(SHARE, SHARE, SHARE), min_size=1, max_size=30)


@given(BARS.filter(lambda rows: any(training for training, _, _ in rows)), st.booleans())
def test_labels_of_proxy_groups_stand_apart(numbers: list[tuple[float, float, float]], compact: bool) -> None:
    rows = [
        ProxyGroup(str(place), training, batch, batch * kept, 1.0)
        for place, (training, batch, kept) in enumerate(numbers, start=1)
    ]
    image = proxy_group_bars(rows, uid="u", title="t", description="d", compact=compact)
    assert_apart(image)
    for element in parse(image).iter("rect"):
        assert float(element.get("width", 0)) >= 0


def test_the_example_hangs_together() -> None:
    assert sum(TRAINING) == pytest.approx(1.0)
    assert len(ACCEPTANCE) == len(TRAINING) == len(BALANCE["compositions"])
    assert all(sum(line) == pytest.approx(1.0) for line in BALANCE["compositions"])
