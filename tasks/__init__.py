"""The steps of a run: each module is one thin, cached step between artifacts and :mod:`fairlib`."""
