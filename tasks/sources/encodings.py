"""The encoding of text files: UTF-8, that of a byte order mark, or cp1252."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from evenhand.tasks.errors import InputError

# A file that is not UTF-8 is most likely of this encoding, of which latin-1 is a part.
WESTERN = "cp1252"
UTF_8 = "utf-8"
CHUNK_BYTES = 1 << 20
HEAD_BYTES = 4096
# Share of the letters beyond ASCII that look unlike a language of Western Europe.
MOST_UNLIKELY = 0.3


def encoding_of(files: Sequence[Path]) -> str | None:
    """Encoding of text files: None for UTF-8, else that of a byte order mark or cp1252.

    Raises `InputError` if a file is neither, or files differ.
    """
    encodings: dict[Path, str | None] = {}
    for file in files:
        try:
            encodings[file] = _encoding_of(file)
        except (EOFError, OSError, zlib.error):
            encodings[file] = None  # damaged: the reader says so
    marked = {encoding for encoding in encodings.values() if encoding is not None}
    if len(marked) > 1:
        names = " and ".join(sorted(marked))
        raise InputError(
            f"the files have different encodings ({names}): save all of them as UTF-8."
        )
    if not marked:
        return None
    (encoding,) = marked
    for file in files:
        if encodings[file] is None and not _decodes(file, "ascii"):
            raise InputError(
                f"{file.name} is UTF-8, and other files are {encoding}: save all files as UTF-8."
            )
    return encoding


def encoding_by_content(
    opened: Callable[[], AbstractContextManager[Any]], stated: str | None
) -> str | None:
    """Encoding that a file is read with: what its bytes prove, else the stated one; None for UTF-8.

    A byte order mark proves one. So do letters beyond ASCII in a file that is UTF-8 throughout:
    text of another encoding never is, but for a word or two.

    - `opened`: opens the file's bytes, decompressed
    - `stated`: by the user, the job or the model
    """
    with opened() as stream:
        head = stream.read(4)
    marked = _marked_encoding(head)
    if marked is not None:
        return None if marked == UTF_8 else marked
    if stated is None or _is_unicode(stated):
        return stated
    decoder = codecs.getincrementaldecoder(UTF_8)()
    has_letters = False
    try:
        with opened() as stream:
            while chunk := stream.read(CHUNK_BYTES):
                has_letters |= not decoder.decode(chunk).isascii()
            has_letters |= not decoder.decode(b"", final=True).isascii()
    except UnicodeDecodeError:
        return stated
    return None if has_letters else stated


def encoding_of_file(file: Path, stated: str | None) -> str | None:
    """Encoding that a local file is read with, as :func:`encoding_by_content` finds it."""
    status = file.stat()
    return _encoding_of_version(file, status.st_mtime_ns, status.st_size, stated)


@lru_cache(maxsize=64)
def _encoding_of_version(file: Path, changed: int, size: int, stated: str | None) -> str | None:
    try:
        return encoding_by_content(lambda: _opened(file), stated)
    except (EOFError, OSError, zlib.error):
        return stated  # damaged: the reader says so


def _is_unicode(encoding: str) -> bool:
    """Whether an encoding is UTF-8, UTF-16 or UTF-32."""
    return codecs.lookup(encoding).name.startswith("utf")


def _marked_encoding(head: bytes) -> str | None:
    """Encoding of the byte order mark that a file begins with; None without one."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith(codecs.BOM_UTF8):
        return UTF_8
    return None


def _encoding_of(file: Path) -> str | None:
    with _opened(file) as stream:
        head = stream.read(HEAD_BYTES)
    marked = _marked_encoding(head)
    if marked not in (None, UTF_8):
        return marked
    if b"\0" in head:
        raise InputError(
            f"{file.name} is no UTF-8 text, perhaps UTF-16 without its mark: try --encoding "
            "utf-16-le."
        )
    if _decodes(file, "utf-8"):
        return None
    place = _place_of_stray_byte(file)
    if place is not None:
        raise InputError(
            f"{file.name} is UTF-8 but for a byte in line {place}: correct it there, or name the "
            "file's encoding with --encoding."
        )
    cure = "name its encoding with --encoding, such as --encoding cp1250"
    if not _decodes(file, WESTERN):
        raise InputError(f"{file.name} is neither UTF-8 nor {WESTERN} (Western European): {cure}.")
    if not _looks_western(file):
        raise InputError(
            f"{file.name} is not UTF-8, and does not read as {WESTERN} (Western European): {cure}."
        )
    return WESTERN


def _opened(file: Path) -> IO[bytes]:
    with file.open("rb") as stream:
        magic = stream.read(2)
    if magic == b"\x1f\x8b":
        return gzip.open(file)  # type: ignore[return-value]
    return file.open("rb")


def _decodes(file: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with _opened(file) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _place_of_stray_byte(file: Path) -> int | None:
    """Line of the first byte that is no UTF-8 in a file that is UTF-8 otherwise; None for others.

    Letters of other encodings hardly ever follow each other as UTF-8 asks for: a file with more
    letters in UTF-8 than bytes that are none is UTF-8 with a mistake.
    """
    letters = 0
    stray = 0
    first = None
    with _opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            if line.isascii():
                continue
            text = line.decode("utf-8", errors="replace")
            wrong = text.count("\N{REPLACEMENT CHARACTER}")
            letters += sum(not character.isascii() for character in text) - wrong
            stray += wrong
            if wrong and first is None:
                first = number
    return first if letters > stray else None


def _looks_western(file: Path) -> bool:
    """Whether few letters beyond ASCII stand three in a row, and few signs are within words."""
    letters = unlikely = 0
    with _opened(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            words = re.findall(rb"[\xc0-\xff]+", chunk)
            letters += sum(len(word) for word in words)
            unlikely += sum(len(word) for word in words if len(word) > 2)
            # but for the point of Catalan
            unlikely += len(re.findall(rb"[A-Za-z][\xa1-\xb6\xb8-\xbf][A-Za-z]", chunk))
    return unlikely <= MOST_UNLIKELY * max(letters, 1)
