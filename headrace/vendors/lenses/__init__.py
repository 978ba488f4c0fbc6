"""Lenses' S3 sink: names, rows with and without its envelope, and what comes back."""
