"""Short lines of Markdown: words, cells and code stay, lists and tables keep their meaning."""

from __future__ import annotations

from benchmarks.page_generators.markdown_lines import WIDEST, shorten

WORDS = "a sentence with `code and spaces` - and a dash, 2. and a number + a sum " * 4


def test_prose_keeps_its_words_and_starts_no_list() -> None:
    lines = shorten(WORDS.strip()).split("\n")
    assert len(lines) > 1
    assert max(len(line) for line in lines) <= WIDEST
    assert " ".join(lines) == WORDS.strip()
    assert not any(line.startswith(("-", "+", "2.")) for line in lines)
    assert all(line.count("`") % 2 == 0 for line in lines)


def test_code_and_short_lines_stay() -> None:
    code = f"```\n{'x ' * 100}\n```\n\n    {'y ' * 100}\n\nshort\nlines\n"
    assert shorten(code) == code


def test_a_list_item_is_indented_below_its_mark() -> None:
    lines = shorten(f"- {WORDS.strip()}").split("\n")
    assert lines[0].startswith("- a sentence")
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_wide_table_is_divided_and_repeats_its_first_column() -> None:
    header = [f"column {number:>20}" for number in range(8)]
    rows = [[f"row {row}", *(f"{row}.{number}" for number in range(7))] for row in range(2)]
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, *rows]]
    lines.insert(1, "|---" * 8 + "|")
    text = shorten("\n".join(lines))
    assert max(len(line) for line in text.split("\n")) <= WIDEST
    tables = text.split("\n\n")
    assert len(tables) > 1
    assert all("| row 1 |" in table for table in tables)
    for number in range(7):
        assert text.count(f" 1.{number} |") == 1


def test_a_table_of_long_cells_becomes_a_list() -> None:
    text = shorten(f"| key | type | meaning |\n|---|---|---|\n| `a` | a\\|b | {'word ' * 30}|\n")
    assert text.startswith("By key:\n\n- `a`: type: a|b; meaning: word word")
    assert "|---|" not in text
