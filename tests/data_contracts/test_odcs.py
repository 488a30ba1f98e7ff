from __future__ import annotations

import dataclasses

import pytest

from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.odcs import load_contract, parse_contract, shipped_contracts


def test_reads_every_part(contract):
    assert (contract.name, contract.version, contract.description) == (
        "people",
        "1.2.0",
        "Hand-made people.",
    )
    assert (contract.min_rows, contract.max_rows) == (4, 1000)
    assert contract.label.name == "paid"
    assert contract.label.positive is True
    assert [c.name for c in contract.features] == ["age", "income", "job", "since"]
    assert [c.name for c in contract.sensitive] == ["age", "sex"]
    assert [c.name for c in contract.columns if c.role == "id"] == ["key"]
    assert contract.column("age").bins == (25.0, 60.0)
    assert [
        contract.column(n).encoding for n in ("age", "income", "job", "since", "sex", "paid")
    ] == [
        "standard",
        "standard",
        "onehot",
        "standard",
        None,
        None,
    ]
    assert contract.column("job").allowed == ("clerk", "smith", "no")
    assert (contract.unseen_categories, contract.on_violation) == ("error", "stop")
    assert (contract.quarantine_share, contract.missing_sensitive) == (0.05, "error")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    required: true\n    logicalTypeOptions: {minimum: 0}",
         "    requird: true\n    logicalTypeOptions: {minimum: 0}", r"'income'.*'requird'.*'required'"),
        ("minimum: 18", "minimun: 18", r"'age'.*'minimun'.*'minimum'"),
        ("status: active", "statsu: active", "'statsu'.*'status'"),
        ("rule: rowCount", "rule: rowcount", "rowcount.*rowCount"),
        ("  logicalType: object\n  quality", "  logicalType: object\n  unique: true\n  quality", "'unique'"),
        ("property: bins, value: [25, 60]", "property: bin, value: [25]", "'age'.*'bin'.*'bins'"),
        ("property: role, value: id", "property: role, value: ids", "'key'.*role is 'ids'"),
        ("property: role, value: id", "property: use, value: feature", "'key'.*lacks role"),
        ("value: [25, 60]", "value: [60, 25]", "'age'.*rising order"),
        ("value: [25, 60]", "value: [.nan]", "'age'.*finite"),
        ("    - {property: bins, value: [25, 60]}\n", "", "'age'.*needs bins.*validValues"),
        ("[clerk, smith, 'no']", "[clerk, smith, no]", "job.*quotes"),
        ("[clerk, smith, 'no']", "[clerk, clerk]", "'job'.*twice"),
        ("value: label", "value: feature", "'paid'.*positive"),
        ("value: id", "value: label", "'key'|2 columns have role label"),
        ("    - {property: positive, value: true}\n", "", "'paid' needs positive"),
        ("property: positive, value: true", "property: positive, value: 'true'", "'paid'.*positive.*boolean"),
        ("name: income", "name: job", "'job' is described twice"),
        ("kind: DataContract", "kind: Contract", "kind.*DataContract"),
        ("apiVersion: v3.0.2", "apiVersion: v2.2.0", "apiVersion"),
        ("mustBeBetween: [4, 1000]", "mustBeBetween: [1000, 4]", "swap"),
        ("mustBeBetween: [4, 1000]", "mustBeBetween: [0, 4]", "below 1"),
        ("version: 1.2.0", "version: 1.2", "version.*quotes"),
        ("status: active", "status: active\nstatus: draft", "'status' is given twice"),
        ("status: active", "status: [active", "not valid YAML"),
        ("minimum: 18, maximum: 99", "minimum: 99, maximum: 18", "'age'.*swap"),
        ("minimum: 2000-01-01", "minimum: 3", "'since'.*dates"),
        ("logicalType: date", "logicalType: dates", "'since'.*dates.*date"),
    ],
)  # fmt: skip
def test_wrong_contract_says_what_and_where(people_yaml, old, new, message):
    assert old in people_yaml
    with pytest.raises(ContractError, match=f"(?s){message}") as caught:
        parse_contract(people_yaml.replace(old, new, 1), "people.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a\n", "just text", "{yes: 1}"])
def test_not_a_contract_at_all(text):
    with pytest.raises(ContractError):
        parse_contract(text)


def test_a_unit_encoding_survives_its_forms(people_yaml):
    plain = "logicalTypeOptions: {minimum: 18, maximum: 99}\n    customProperties:\n"
    given = people_yaml.replace(plain, plain + "    - {property: encoding, value: unit}\n")
    unit = parse_contract(given)
    assert (unit.column("age").encoding, unit.column("income").encoding) == ("unit", "standard")
    assert Contract.from_dict(unit.to_dict()) == unit
    assert parse_contract(to_yaml(unit)) == unit
    assert unit.digest != parse_contract(people_yaml).digest
    assert unit.with_sensitive(["age"]).column("age").encoding is None
    assert unit.with_attributes(["sex"]).column("age").encoding == "unit"
    with pytest.raises(ContractError, match="own_group cannot encode a missing 'age' as unit"):
        dataclasses.replace(unit, missing_sensitive="own_group")
    open_end = "logicalTypeOptions: {minimum: 0}\n    customProperties:\n"
    lacking = people_yaml.replace(open_end, open_end + "    - {property: encoding, value: unit}\n")
    with pytest.raises(
        ContractError, match="^contract text: column 'income': encoding: unit needs"
    ):
        parse_contract(lacking)


def test_shipped_contracts():
    assert shipped_contracts() == [
        *("adult", "bank", "bank-age", "bios", "census", "compas", "compas-charges", "german"),
        *("german-sex", "hiring", "loans", "templates", "tweets"),
    ]
    facts = {
        "adult": ("income", ">50K", ["race", "sex"], 11, 45222),
        "bank": ("y", "yes", ["age"], 16, 45211),
        "bank-age": ("y", "yes", ["age_group"], 16, 45211),
        "census": ("income", ">50K", ["race", "sex"], 13, 45222),
        "compas": ("two_year_recid", 1, ["sex", "race"], 5, 5278),
        "compas-charges": ("two_year_recid", 0, ["sex", "race"], 10, 6167),
        "german": ("credit", "bad", ["age"], 20, 1000),
        "german-sex": ("credit", "good", ["sex"], 20, 1000),
        "templates": ("toxic", 1, [], 1, 76564),
        "tweets": ("toxic", 1, [], 1, 24783),
    }
    for name, (label, positive, sensitive, features, rows) in facts.items():
        contract = load_contract(name)
        assert contract.name == name
        assert (contract.label.name, contract.label.positive) == (label, positive)
        assert [c.name for c in contract.sensitive] == sensitive
        assert len(contract.features) == features
        assert (contract.min_rows, contract.max_rows) == (rows, rows)
        assert all(column.description.endswith(".") for column in contract.columns)
    for name, unseen in (
        ("bank-age", "error"),
        ("compas-charges", "ignore"),
        ("german-sex", "ignore"),
    ):
        contract = load_contract(name)
        assert contract.unseen_categories == unseen
        assert all(c.is_feature and c.encoding == "binary" for c in contract.sensitive)
        assert {c.encoding for c in contract.features if c.is_numeric} == {"unit"}
    assert load_contract("compas-charges").column("c_charge_desc").allowed is None
    loans = load_contract("loans")
    assert [c.name for c in loans.features] == ["X1", "X2", "X3", "X5", "X6", "X7", "X9", "X10"]
    assert loans.column("X9").allowed == ("0", "1", "2")
    assert not loans.column("group").is_feature
    assert load_contract("german").unseen_categories == "ignore"
    census = load_contract("census")
    assert not census.column("sex").is_feature
    assert (census.column("race").is_feature, census.column("race").encoding) == (True, "onehot")
    assert census.unseen_categories == "ignore"
    hiring = load_contract("hiring")
    assert [c.name for c in hiring.features] == [
        *("gender", "club", "test", "interview", "experience", "break_months")
    ]
    assert (hiring.label.name, hiring.label.positive) == ("hired", 1)
    assert [c.name for c in hiring.sensitive] == ["gender"]
    assert (hiring.min_rows, hiring.max_rows) == (100, 1_000_000)
    assert hiring.unseen_categories == "error"


def test_shipped_contracts_keep_the_content_of_published_models():
    digests = {
        "adult": "d6ea794bdd3dca7b",
        "bank": "a941a9d1e9354cba",
        "bank-age": "9d4a227d1c18a634",
        "bios": "ae631996cd9973c0",
        "census": "dd7967b0a9a5ece0",
        "compas": "ad6d96bfaee1fa0d",
        "compas-charges": "9e7c0216fafeacd8",
        "german": "7c85fb70f6490deb",
        "german-sex": "9a1b9fcf024f080b",
        "hiring": "385afe343dc6c5b7",
        "loans": "3e96a0ae74229a62",
        "templates": "775fa4b75389c3d9",
        "tweets": "4502c6f65a91e9bd",
    }
    assert {name: load_contract(name).digest[:16] for name in shipped_contracts()} == digests


EXTENSION = """
id: mine
name: mine
version: 2.0.0
schema:
- name: mine
  properties:
  - name: repaid
  - name: X9
    required: false
    quality:
    - rule: validValues
      validValues: ['0', '1']
  - name: shoe-size
    logicalType: integer
    customProperties:
    - {property: role, value: feature}
  - name: group
    customProperties:
    - {property: role, value: sensitive}
    - {property: use, value: feature}
customProperties:
- {property: extends, value: loans}
- {property: onViolation, value: quarantine}
"""


def test_a_contract_can_extend_a_shipped_one():
    loans, mine = load_contract("loans"), parse_contract(EXTENSION)
    assert [column.name for column in mine.columns] == ["repaid", "X9", "shoe-size", "group"]
    assert mine.label == loans.label
    assert mine.column("X9") == dataclasses.replace(
        loans.column("X9"), required=False, allowed=("0", "1")
    )
    assert mine.column("group") == dataclasses.replace(
        loans.column("group"), is_feature=True, encoding="onehot"
    )
    assert (mine.name, mine.version, mine.description) == ("mine", "2.0.0", loans.description)
    assert (mine.min_rows, mine.max_rows) == (loans.min_rows, loans.max_rows)
    assert (mine.on_violation, mine.missing_sensitive) == ("quarantine", loans.missing_sensitive)
    assert parse_contract(to_yaml(mine)) == mine
    rows = EXTENSION.replace(
        "  properties:", "  quality: [{rule: rowCount, mustBeBetween: [5, 9]}]\n  properties:"
    )
    assert parse_contract(rows) == dataclasses.replace(mine, min_rows=5, max_rows=9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value: loans", "value: loan", "extends is 'loan'.*did you mean 'loans'"),
        ("value: loans", "value: [loans]", "extends is \\['loans'\\]"),
        ("- {property: extends, value: loans}", "- {property: extends}", "extends is None"),
        (
            "value: loans}",
            "value: loans}\n- {property: extends, value: adult}",
            "'extends' is given twice",
        ),
        (
            "name: shoe-size\n    logicalType: integer",
            "name: shoe-size",
            "'shoe-size'.*'logicalType' is missing",
        ),
        ("required: false", "requird: false", "'X9'.*'requird'.*'required'"),
        ("  - name: repaid\n", "  - repaid\n", "schema.0.*properties.0.: got 'repaid'"),
        ("  - name: repaid\n", "  - nam: repaid\n", "properties.0.: unknown key 'nam'"),
        ("version: 2.0.0\n", "", "'version' is missing"),
        ("schema:\n- name: mine", "schema:\n- 3\n- name: mine", "schema"),
    ],
)
def test_an_extension_says_what_and_where(old, new, message):
    assert old in EXTENSION
    with pytest.raises(ContractError, match=f"^contract mine.yaml: (?s:.*){message}") as caught:
        parse_contract(EXTENSION.replace(old, new, 1), "mine.yaml")
    assert "\n" not in str(caught.value)


def test_encoded_width_of_shipped_contracts():
    """Adult has 41 model inputs, the census 102 and COMPAS 7 once categories are spread out."""

    def width(name: str) -> int:
        return sum(
            len(c.allowed or ()) if c.encoding == "onehot" else 1
            for c in load_contract(name).features
        )

    assert width("adult") == 41
    assert width("census") == 102
    assert width("compas") == 7


def test_unknown_names_and_paths(tmp_path, people_yaml):
    with pytest.raises(ContractError, match="'adlt'; did you mean 'adult'"):
        load_contract("adlt")
    with pytest.raises(ContractError, match="cannot be read"):
        load_contract(str(tmp_path / "nothing.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ContractError, match="UTF-8"):
        load_contract(str(tmp_path / "latin.yaml"))
    path = tmp_path / "people.yaml"
    path.write_text(people_yaml)
    assert load_contract(str(path)) == parse_contract(people_yaml)


def test_rules_say_whether_a_person_states_them():
    contract = load_contract("adult")
    assert contract.rules is None
    assert not contract.rules_observed
    assert "rules" not in contract.to_dict()  # so that digests of older contracts stay
    observed = dataclasses.replace(contract, rules="observed")
    assert observed.rules_observed
    assert observed.digest != contract.digest
    assert Contract.from_dict(observed.to_dict()) == observed
    assert parse_contract(to_yaml(observed)) == observed
    older = dataclasses.replace(
        contract, description="Inferred from a table of 5 rows and 2 columns; review before use."
    )
    assert older.rules_observed
    assert not dataclasses.replace(older, rules="stated").rules_observed
    with pytest.raises(ContractError, match="rules is 'seen'"):
        dataclasses.replace(contract, rules="seen")


def test_a_threshold_survives_its_forms(people_yaml):
    label = "customProperties:\n    - {property: role, value: label}\n"
    assert label in people_yaml
    contract = parse_contract(people_yaml)
    columns = []
    for column in contract.columns:
        if column.role == "label":
            column = Column(
                column.name, "number", True, role="label", at_least=50000.0, favourable="below"
            )
        columns.append(column)
    threshold = dataclasses.replace(contract, columns=tuple(columns))
    text = to_yaml(threshold)
    assert "{property: atLeast, value: 50000}" in text
    assert "{property: favourable, value: below}" in text
    assert parse_contract(text) == threshold
    assert parse_contract(text.replace("50000}", "50000.0}")).digest == threshold.digest
    assert parse_contract(text.replace("50000}", "50001}")).digest != threshold.digest
    assert Contract.from_dict(threshold.to_dict()) == threshold
    assert "at_least" not in contract.label.to_dict()


def test_a_legitimate_column_survives_its_forms_and_no_digest(people_yaml):
    old = "    - {property: role, value: feature}\n"
    assert old in people_yaml
    plain = parse_contract(people_yaml)
    marked = parse_contract(
        people_yaml.replace(old, f"{old}    - {{property: legitimate, value: true}}\n", 1)
    )
    (name,) = marked.legitimate
    assert plain.legitimate == ()
    assert parse_contract(to_yaml(marked)) == marked
    assert marked.digest == plain.digest
    assert marked.without_legitimate() == plain


def test_a_value_for_all_others_is_written_and_read(contract):
    job = dataclasses.replace(contract.column("job"), other="no")
    columns = tuple(job if column.name == "job" else column for column in contract.columns)
    merged = dataclasses.replace(contract, columns=columns)
    assert parse_contract(to_yaml(merged)) == merged
    assert Contract.from_dict(merged.to_dict()) == merged
    assert merged.digest != contract.digest
    # a contract without it keeps its digest
    assert all("other" not in column for column in contract.to_dict()["columns"])
    text = to_yaml(merged).replace("{property: other, value: 'no'}", "{property: other, value: 3}")
    with pytest.raises(ContractError, match="other is 3, expected a text such as other"):
        parse_contract(text)
