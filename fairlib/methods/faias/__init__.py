"""FAIAS: a predictor trained against a selector of the features that it sees."""
