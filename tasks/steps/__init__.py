"""The steps of a run, one module a step: functions from artifacts and parameters to artifacts."""
