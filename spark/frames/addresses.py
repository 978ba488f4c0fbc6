"""What the addresses that a frame is given name: a prefix of S3, or a directory of `state.path`; pure."""

import re
from typing import Final

from headrace.model.errors import FrameRefused

# What addresses of S3 begin with, in Hadoop's words as well.
_S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z0-9]+)://(?P<bucket>[^/]*)(?P<prefix>.*)", re.DOTALL)
# Of the forms of a file's address those without a host's name.
_DIRECTORY: Final = re.compile(
    r"(?:file:(?://(?:localhost)?(?=/)|(?!//)))?(?P<path>(?![A-Za-z][A-Za-z0-9+.-]*:).+)", re.DOTALL
)


def s3_address(path: str) -> tuple[str, str] | None:
    """Bucket and prefix of an address, None for one that is not of S3; any sign may be in a key."""
    found = _ADDRESS.fullmatch(path)
    if found is None or found["scheme"].lower() not in _S3_SCHEMES:
        return None
    return found["bucket"], found["prefix"].lstrip("/")


def state_directory(path: str) -> str | None:
    """The directory that a `state.path` names, None for a prefix of S3; FrameRefused for anything else."""
    address = s3_address(path)
    if address is not None:
        if not (address[0] and address[1].strip("/")):
            raise FrameRefused(
                f"state.path = {path!r}: expected s3://bucket/prefix, with a prefix of its own."
            )
        return None
    found = _DIRECTORY.fullmatch(path)
    if found is None:
        other = _ADDRESS.fullmatch(path)
        why = "" if other is None or other["scheme"] == "file" else f"; {other['scheme']}:// is not reached"
        raise FrameRefused(
            f"state.path = {path!r}: expected a directory that all drivers of the query see, or "
            f"s3://bucket/prefix{why}."
        )
    return found["path"]
