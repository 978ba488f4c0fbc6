"""The lines of a log that a process still writes."""

from pathlib import Path


def written_lines(log: Path) -> list[str]:
    """Its lines so far, without one of which only the beginning is there yet."""
    whole, _, _ = log.read_bytes().rpartition(b"\n")
    return whole.decode(errors="replace").splitlines()
