"""Headrace's own layout, which loses nothing: names, rows, and what comes back."""
