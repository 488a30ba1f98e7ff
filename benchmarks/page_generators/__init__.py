"""Pages of docs/ and their pictures from benchmarks/results."""
