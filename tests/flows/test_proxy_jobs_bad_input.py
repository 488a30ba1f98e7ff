"""Proxy jobs that are wrong: exit code 2, one line that names the place and the cure, nothing
published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

Break = Callable[[Any], None]


def refused(bench: Any, *words: str, arguments: tuple[str, ...] = ()) -> str:
    done = bench.run(*arguments)
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    (line,) = done.err.splitlines()
    for word in words:
        assert word in line, (word, line)
    assert not (bench.store / "steps" / "publish").exists()
    return str(line)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("sensitive=[sexx]", ["sensitive", "'sexx'", "did you mean 'sex'"]),
        ("sensitive=[paid]", ["sensitive", "'paid' is the label"]),
        ("sensitive=[key]", ["sensitive", "'key' is the id"]),
        ("sensitive=[income]", ["sensitive", "'income'", "bins"]),
        ("sensitive=[since]", ["sensitive", "'since'", "date"]),
        ("sensitive=[sex, sex]", ["sensitive", "listed twice"]),
        ("sensitive=[]", ["sensitive"]),
        ("sensitive=sex", ["sensitive"]),
        ("method=proxi", ["method 'proxi'", "did you mean 'proxy'"]),
        ("method.alfa=0.2", ["'method.alfa'", "did you mean 'alpha'"]),
        ("method.alpha=much", ["method.alpha", "must be a number"]),
        ("method.alpha=.nan", ["method.alpha"]),
        ("method.alpha=1.5", ["alpha must be in [0, 1]"]),
        ("method.min_leaf=-1", ["min_leaf must be finite and not negative"]),
        ("method.max_height=0", ["max_height must be a whole number"]),
        ("method.oracle=tree", ["unknown key 'method.oracle'"]),
        ("method.relaxed=true", ["unknown key 'method.relaxed'"]),
        ("method.random_state=1", ["unknown key 'method.random_state'"]),
        ("method={name: qp-tree, sampling: equal}", ["unknown key 'method.sampling'"]),
        ("method={name: qp-tree, mixing: 2}", ["mixing must be in [0, 1]"]),
        ("method.target={sex: {F: 0.5, X: 0.5}}", ["wants the group 'X' of 'sex'"]),
        ("method.target={sex: {F: 0.5, M: 0.4}}", ["'sex'", "sum of 0.9"]),
        ("method.target={sax: {F: 0.5, M: 0.5}}", ["'sax'"]),
        ("method.target=even", ["method.target"]),
        ("gates={auc: {min: 0.5}}", ["the gate 'auc'", "there are disclosivity"]),
        ("gates={disclosivety: {max: 0.5}}", ["did you mean 'disclosivity'"]),
        ("evaluate.counterfactuals={a: {job: all}}", ["evaluate.counterfactuals", "remove it"]),
        ("evaluate.certificate.budget=0.1", ["evaluate.certificate", "remove it"]),
        ("evaluate.intersections=true", ["evaluate.intersections", "remove it"]),
        ("fair_metric={learned: [sex]}", ["fair_metric", "remove it"]),
        ("balance={proxy: other}", ["balance", "remove it"]),
        ("paper={source: x, row: {auc: [0.5, null]}}", ["paper.row", "'auc'"]),
    ],
)
def test_what_makes_no_sense_is_refused(proxies: Any, setting: str, words: list[str]) -> None:
    refused(proxies, *words, arguments=("--set", setting))


def test_a_classifier_takes_attributes_that_its_contract_has(publishing: Any) -> None:
    refused(publishing, "sensitive names 'sexx'", "sex", arguments=("--set", "sensitive=[sexx]"))
    assert publishing.run("--set", "sensitive=[sex]", "--json").code == 0


def test_a_table_without_sensitive_columns_needs_the_key(proxies: Any) -> None:
    for name in ("age", "sex"):
        proxies.properties[name]["customProperties"] = [{"property": "role", "value": "ignore"}]
    del proxies.job["sensitive"]
    refused(proxies, "has none: list columns in sensitive")


def test_a_comparator_predicts_one_attribute(proxies: Any) -> None:
    proxies.job |= {"sensitive": ["age", "sex"], "method": "qp-tree"}
    refused(proxies, "one attribute", "age, sex")


def test_a_group_without_rows_is_named(proxies: Any) -> None:
    proxies.set("sex", ["M"] * len(proxies.table))
    refused(proxies, "the group 'F' of the sensitive column 'sex' has no training rows")


def test_an_undeclared_group_of_one_row_is_not_quoted(proxies: Any) -> None:
    del proxies.properties["sex"]["quality"]
    proxies.put("sex", 7, "zzyzx-group")
    line = refused(proxies, "a group of the sensitive column 'sex' has no")
    assert "zzyzx" not in line


@pytest.mark.parametrize("declared", [True, False])
def test_too_many_groups_are_refused(proxies: Any, declared: bool) -> None:
    names = [f"town-{row % 60:02d}" for row in range(len(proxies.table))]
    proxies.table = proxies.table.append_column("town", pa.array(names))
    column: dict[str, Any] = {
        "name": "town",
        "logicalType": "string",
        "required": True,
        "customProperties": [{"property": "role", "value": "feature"}],
    }
    if declared:
        listed = sorted(set(names))
        column["quality"] = [{"type": "library", "rule": "validValues", "validValues": listed}]
    proxies.contract["schema"][0]["properties"].append(column)
    proxies.job["sensitive"] = ["town"]
    line = refused(proxies, "'town' has 60 groups", "at most 50")
    assert "town-" not in line


def test_values_of_another_sensitive_column_are_never_quoted(proxies: Any) -> None:
    age = proxies.properties["age"]
    age["logicalTypeOptions"] = {"maximum": 99}
    age["customProperties"].append({"property": "use", "value": "feature"})
    proxies.put("age", 7, 431)
    line = refused(proxies, "'age'", "at most 99")
    assert "431" not in line
    pages = [path.read_text(errors="ignore") for path in proxies.store.rglob("*.html")]
    assert not [page for page in pages if "431" in page]
