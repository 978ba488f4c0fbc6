"""Logs of a broker that is down, as its disk has them."""

import struct
from pathlib import Path


def cut_off(log: Path, offset: int) -> None:
    """Take from a log what comes from this offset on, while the broker is down."""
    data, at = log.read_bytes(), 0
    while struct.unpack_from(">q", data, at)[0] < offset:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    log.write_bytes(data[:at])
    for beside in log.parent.iterdir():
        # What is made again from the log.
        if beside.suffix in {".index", ".timeindex", ".snapshot"}:
            beside.unlink()
