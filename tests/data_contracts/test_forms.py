"""Numbers and dates of other forms, by hand."""

from __future__ import annotations

import pyarrow as pa

from evenhand.data_contracts.forms import iso_dates, plain_numbers


def test_numbers_and_dates_by_hand() -> None:
    numbers = pa.array(
        ["1.234,56", "-5", "−5,5", "12 %", "7,", ",5", "1,5e3", "1.2.3", "007", None, ""]
    )
    plain = ["1234.56", "-5", "-5.5", "12", "7", ".5", "1.5e3", "1.2.3", "007", None, ""]
    assert plain_numbers(numbers, "comma").to_pylist() == plain
    dates = pa.array(["1.2.2024 12:30", "31/12/1999", "32.01.2024", "2024-01-31", None])
    iso = ["2024-02-01 12:30", "1999-12-31", "32.01.2024", "2024-01-31", None]
    assert iso_dates(dates, "day-first").to_pylist() == iso
