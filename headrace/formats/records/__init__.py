"""What of a row goes into key, value, headers and timestamp of its record."""
