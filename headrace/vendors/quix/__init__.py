"""Quix Streams' file sink: names, rows of JSON lines and Parquet, and what comes back."""
