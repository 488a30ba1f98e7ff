"""Non-disclosive proxies for a sensitive attribute, and the sampling probabilities that balance
with them.
"""
