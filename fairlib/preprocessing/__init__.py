"""From columns of a table to a float32 matrix: one column of the table is one group of matrix
columns.
"""
