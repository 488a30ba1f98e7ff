"""Time and memory of commands, steps and services."""
