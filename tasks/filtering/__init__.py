"""The batch filter: a published proxy turns tables of any size into balanced samples, file
by file.
"""
