"""Certificates: proved bounds on a model's output over all comparable people of a fair metric."""
