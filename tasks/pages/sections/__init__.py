"""Sections of pages, a file each: see :mod:`tasks.pages.build` for what a file has."""
