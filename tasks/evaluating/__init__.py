"""Published models on new tables: their decisions, and the summaries for CI systems."""
