"""Reproductions of printed figures and of our own speed, kept as JSON with machine, versions and
command.
"""
