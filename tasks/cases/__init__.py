"""Case files: one decision about one person, with reasons, recourse, comparables and review."""
