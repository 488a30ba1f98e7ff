"""The science of Evenhand: estimators, fair metrics and evaluation as a scikit-learn style library.

It knows nothing of flows, stores or registries and prints nothing.
"""
