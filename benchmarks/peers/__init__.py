"""Searches with other people's tools, each run in an environment of its own: see
benchmarks/peers/tuning_comparison.py.
"""
