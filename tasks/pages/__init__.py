"""HTML pages: each is a front and a list of sections, built from the JSON documents that the steps
wrote.
"""
