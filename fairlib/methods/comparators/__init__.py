"""Comparators of group fairness on logistic regression, most of them through Fairlearn."""
