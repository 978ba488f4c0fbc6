"""Aiven's S3 sink: names, rows of csv, json, jsonl, Avro and Parquet, and what comes back."""
