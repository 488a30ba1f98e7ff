"""Parts of `evenhand tune`: the step that judges a candidate, and the search that proposes
candidates.
"""
