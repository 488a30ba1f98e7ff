"""The pages of ``evenhand app``: models, versions and their records in a browser."""
