"""Data contracts: what a table must look like before anything is learned from it.

One YAML file per table; the code here turns it into fast Arrow checks and Great Expectations suites.
"""

__all__ = ["arrow", "checking", "errors", "groups", "inference", "model", "odcs", "suites"]
