"""The auditor: the worst comparable treatment of each person."""
