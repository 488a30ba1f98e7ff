"""Data contracts: the columns and values that a table must have before a model is trained on it.

One YAML file per table; the code here turns it into Arrow checks and Great Expectations suites.
"""
