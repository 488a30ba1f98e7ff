r"""Whether the text of a query is one statement that reads, in the dialect of every database.

Databases disagree on where quoted text and comments end: ``'\''`` is a quote for MySQL and a closed
text for PostgreSQL, ``[a']`` is a name for SQL Server and an array elsewhere, ``--1`` is a comment
but for MySQL, and ``/*!`` is no comment for MySQL. So every reading that some database has is
followed, character by character. A query is refused if a complete reading of it writes; one that
ends within quotes is an error everywhere.
"""

from __future__ import annotations

import re

from evenhand.tasks.errors import InputError

MOST_CHARACTERS = 50_000
REFUSED = (
    "table.sql must be one SELECT that changes nothing: write a single query, without INTO, FOR "
    "UPDATE and statements that write."
)
HIDDEN = "\0"  # stands for a character within quotes or a comment

# Possessive: a doubled quote never ends a text.
_DOUBLED = {mark: re.compile(f"{mark}(?:[^{mark}]|{mark}{mark})*+{mark}") for mark in "'\"`"}
_BACKSLASHED = {
    mark: re.compile(f"{mark}(?:[^{mark}\\\\]|\\\\.|{mark}{mark})*+{mark}", re.DOTALL)
    for mark in "'\"`"
}
_TRIPLE = {
    mark: re.compile(f"{mark * 3}(?:[^\\\\]|\\\\.)*?{mark * 3}", re.DOTALL) for mark in "'\""
}
_PLAIN_BRACKET = re.compile(
    r"\[[\w\s.,]*\](?!\])"
)  # a name, or places of an array, for every database
_BRACKETED = re.compile(r"\[(?:[^\]]|\]\])*+\]")
_DOLLAR = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_ORACLE = re.compile(
    r"[qQ]'(?:\[.*?\]|\{.*?\}|\(.*?\)|<.*?>|(?P<mark>[^\s\[{(<]).*?(?P=mark))'", re.DOTALL
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NESTED_MARK = re.compile(r"/\*|\*/")

_BLANK = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*(?!!|M!).*?\*/)*", re.DOTALL | re.IGNORECASE)
_START = re.compile(r"\(*\s*(?:SELECT|WITH|VALUES)\b")
_WORD = re.compile(r"[\w$@#]+")
_NAME = re.compile(r"[^\W\d]\w*")
_OPENED = re.compile(r"\s*\(")
MOST_NAME = 200
_TABLE = re.compile(rf"(?:(?<![\w$@#])[^\W\d]\w*|{HIDDEN})\.$")
WRITING = (
    "ALTER",
    "ATTACH",
    "CALL",
    "COPY",
    "CREATE",
    "DBCC",
    "DELETE",
    "DETACH",
    "DROP",
    "DUMPFILE",
    "EXEC",
    "EXECUTE",
    "GRANT",
    "INSERT",
    "INTO",
    "MERGE",
    "OUTFILE",
    "PRAGMA",
    "RECONFIGURE",
    "REINDEX",
    "REVOKE",
    "SHUTDOWN",
    "TRUNCATE",
    "UPDATE",
    "UPDATETEXT",
    "UPSERT",
    "VACUUM",
    "WAITFOR",
    "WRITETEXT",
)
_WRITING_AFTER_NO_LETTER = re.compile(rf"(?<![^\W\d])(?:{'|'.join(WRITING)})(?!\w)")
# Words that are also functions, and words that are also columns behind the name of a table.
_FUNCTIONS = ("INSERT", "TRUNCATE")
_NO_COLUMNS = ("INTO", "EXEC", "EXECUTE", "CALL")
_PHRASES = re.compile(
    r"\bFOR\s+(?:KEY\s+)?SHARE\b|\bLOCK\s+IN\s+SHARE\b"
    r"|\b(?:BACKUP|RESTORE)\s+(?:DATABASE|LOG|CERTIFICATE)\b"
    r"|\bKILL\s+\d|\bDENY\s+(?:ALL|SELECT|CONTROL|CONNECT|VIEW)\b|\b(?:DISABLE|ENABLE)\s+TRIGGER\b"
    r"|\bSEND\s+ON\b|\bRECEIVE\s+(?:TOP|\*)"
)
# Functions of databases that write, run other text or a program, or keep the database busy.
_FUNCTION_NAMES = (
    r"(?:setval|nextval|set_config|lo_(?:import|export|unlink|create|creat|put|from_bytea)"
    r"|pg_(?:terminate|cancel)_backend"
    r"|pg_(?:reload_conf|rotate_logfile|switch_wal|promote|notify|sleep\w*)"
    r"|pg_(?:create|drop|replication|logical)\w*|pg_file_(?:write|unlink|rename|sync)"
    r"|pg_(?:try_)?advisory_\w*lock\w*|dblink\w*|(?:query|cursor|table)_to_xml\w*"
    r"|load_extension|writefile|load_file|sys_(?:exec|eval)|benchmark|sleep|get_lock"
    r"|xp_\w+|sp_\w+|openrowset|openquery|opendatasource"
    r"|(?:utl|dbms)_\w+(?:\s*\.\s*\w+)?|system\$\w+)"
)
_WRITING_FUNCTIONS = re.compile(rf"(?<![^\W\d]){_FUNCTION_NAMES}[\s{HIDDEN}]*\(", re.IGNORECASE)
_QUOTED_FUNCTIONS = re.compile(
    rf"[\"`\[]{_FUNCTION_NAMES}[\"`\]](?:\s|/\*.*?\*/|--[^\n]*\n)*\(", re.IGNORECASE | re.DOTALL
)
# Names that are written as numbers of characters, which would hide a function.
_CODED_NAME = re.compile(r"\bU&\"", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def check_query(sql: str) -> None:
    """Raise `InputError` unless the text is one statement that reads: a SELECT, or WITH and a
    SELECT.

    It must read in every reading that a database has; see the module.
    """
    text = sql.replace("\r\n", "\n")
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"table.sql has over {MOST_CHARACTERS:,} characters: make a view in the database and "
            "select from it."
        )
    if _CONTROL.search(text):
        raise InputError(
            "table.sql holds a control character: write the query with spaces and line breaks only."
        )
    # SQLAlchemy takes \: for a colon
    for sent in {text, text.replace("\\:", ":")}:
        if _writes(sent):
            raise InputError(REFUSED)


def _writes(text: str) -> bool:
    code = _code(text)
    if code is None or _WRITING_FUNCTIONS.search(code):
        return True
    if _QUOTED_FUNCTIONS.search(text) or _CODED_NAME.search(text):
        return True
    begins = _BLANK.match(text)
    assert begins is not None  # it matches no characters too
    if not _START.match(code, begins.end()) or _PHRASES.search(code):
        return True
    for end in re.finditer(";", code):
        if not _BLANK.fullmatch(text, end.start()):
            return True
    return any(_is_writing(word, code) for word in _WORD.finditer(code))


def _is_writing(match: re.Match[str], shown: str) -> bool:
    """Whether a word of the shown code begins or belongs to a statement that writes."""
    word = match.group()
    if not _NAME.fullmatch(word):
        # 1INTO is two words for SQL Server, and INTO@x for MySQL
        return bool(_WRITING_AFTER_NO_LETTER.search(word))
    if word not in WRITING:
        return False
    if word in _FUNCTIONS and _OPENED.match(shown, match.end()):
        return False
    before = shown[max(0, match.start() - MOST_NAME) : match.start()]
    is_column = _TABLE.search(before) is not None
    return word in _NO_COLUMNS or not is_column


def _code(text: str) -> str | None:
    """Return the text in capitals without what is quoted or a comment in every complete reading.

    None if a reading has a comment that MySQL or MariaDB executes.
    """
    length = len(text)
    readings: dict[int, list[int]] = {}
    reached = {0}
    for place in range(length):
        if place in reached:
            readings[place] = _next_places(text, place)
            reached.update(readings[place])
    completes = {length}
    code = [HIDDEN] * length
    for place in range(length - 1, -1, -1):
        going_on = [end for end in readings.get(place, ()) if end in completes]
        if not going_on:
            continue
        completes.add(place)
        if text.startswith(("/*!", "/*M!", "/*m!"), place):
            return None
        if place + 1 in going_on:
            code[place] = _capital(text[place])
    return "".join(code)


def _capital(character: str) -> str:
    capital = character.upper()
    return capital if len(capital) == 1 else character


def _next_places(text: str, place: int) -> list[int]:
    """Return where the code may go on behind the character, or what it opens, at a place of the
    code.
    """
    character = text[place]
    if character in _DOUBLED:
        patterns = [_DOUBLED[character], _BACKSLASHED[character]]
        if text.startswith(character * 3, place) and character in _TRIPLE:
            patterns.append(_TRIPLE[character])
        return _ends(text, place, patterns)
    if character == "[":
        if _PLAIN_BRACKET.match(text, place):
            return _ends(text, place, [_PLAIN_BRACKET])
        closing = text.find("]", place)
        shortest = [closing + 1] if closing >= 0 else []
        return [place + 1, *shortest, *_ends(text, place, [_BRACKETED])]
    if character == "$":
        return [place + 1, *_ends(text, place, [_DOLLAR])]
    if character in "qQ" and text.startswith("'", place + 1):
        return [place + 1, *_ends(text, place, [_ORACLE])]
    return _places_after_comment(text, place)


def _places_after_comment(text: str, place: int) -> list[int]:
    """Return where the code may go on behind a comment that may begin here, or else behind the
    character.
    """
    if text.startswith("/*", place):
        return _comment_ends(text, place)
    if text.startswith("--", place):
        # for MySQL a comment only with a blank behind
        plain = [] if text[place + 2 : place + 3].strip() == "" else [place + 1]
        return [*plain, _line_end(text, place)]
    if text[place] == "#" or text.startswith("//", place):
        return [place + 1, _line_end(text, place)]
    return [place + 1]


def _ends(text: str, place: int, patterns: list[re.Pattern[str]]) -> list[int]:
    ends = []
    for pattern in patterns:
        match = pattern.match(text, place)
        if match:
            ends.append(match.end())
    return ends


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _comment_ends(text: str, place: int) -> list[int]:
    """Return the ends of a comment that may and may not hold others; SQLite needs no end."""
    ends = _ends(text, place, [_COMMENT])
    depth = 0
    for mark in _NESTED_MARK.finditer(text, place):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return [*ends, mark.end()]
    return [*ends, len(text)]
