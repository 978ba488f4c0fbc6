"""Names of Connect in Avro, where only letters, digits and underscores are allowed."""

import re
from typing import Final
from urllib.parse import quote_plus

_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_]")
# What java.net.URLEncoder leaves as it is and Python's quoting does not.
_UNQUOTED: Final = "*"


def is_avro_name(name: str) -> bool:
    """True for a name without points that Avro allows."""
    return _VALID.match(name) is not None


def scrubbed(name: str) -> str:
    """The name with what Avro does not allow replaced, as `scrub.invalid.names` does it."""
    if not name or is_avro_name(name):
        return name
    encoded = quote_plus(name, safe=_UNQUOTED).replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = f"x{encoded}"
    return _INVALID.sub("_", encoded)


def split_name(name: str, *, scrub: bool = False) -> tuple[str | None, str]:
    """Namespace, None where there is none, and name without it."""
    parts = [scrubbed(part) if scrub else part for part in name.split(".")]
    return ".".join(parts[:-1]) or None, parts[-1]
