"""Comparators of group fairness on logistic regression, most of them through aif360 and Fairlearn."""
