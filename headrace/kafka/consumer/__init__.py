"""Fetches records of topic-partitions as columns: read committed, from given offsets, without a group."""
