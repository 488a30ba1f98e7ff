"""What a published model runs: raw columns of a table in, predictions out."""
