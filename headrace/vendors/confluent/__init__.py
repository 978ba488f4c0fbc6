"""Confluent's S3 sink: names, side objects of keys and headers, tombstones, and what comes back."""
