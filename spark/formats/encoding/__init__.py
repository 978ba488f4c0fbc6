"""Encodes the records of one object: the other direction of the decoders beside it."""
