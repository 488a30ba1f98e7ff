"""Imports of the optional libraries, without the noise that they make."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from evenhand.fairlib.methods.registry import METHODS, needed_extra

__all__ = ["optional_import"]


@contextmanager
def optional_import(method: str) -> Iterator[None]:
    """
    Import a method's libraries within this: aif360 logs of parts that we do not use and lacks.

    Raises
    ------
    ImportError
        One is not installed; the text says what installs it.
    """
    root, silent = logging.getLogger(), logging.NullHandler()
    # logging.warning gives a root without handlers one that prints
    root.addHandler(silent)
    # at the root itself this stops only what is logged by no named logger
    root.addFilter(_refuse)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise ImportError(f"{needed_extra(METHODS[method])} ({error})") from error
    finally:
        root.removeFilter(_refuse)
        root.removeHandler(silent)


def _refuse(record: logging.LogRecord) -> bool:
    return False
