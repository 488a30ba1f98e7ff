"""Questions of our own: defaults, untuned tables, judged settings, attacks on certificates."""
