"""Measured figures, kept as JSON with machine, versions and command.

- ``reproductions``: tables and figures that a paper prints
- ``peers``: other libraries, each in an environment of its own
- ``speed``: time and memory of commands, steps and services
- ``studies``: questions of our own, such as defaults, untuned tables and attacks on certificates
- ``page_generators``: the pages of docs/ and their pictures, from ``results``
- ``mutation``: which small faults the tests detect

All folders use ``common`` (origin of a result, runs of jobs), ``protocol`` (how settings are
chosen and judged) and ``summaries`` (what the repository keeps of a large result).
"""
