"""The registry of models: versions, the chain of records about them, policies, signatures,
bundles.
"""
