"""How many files and connections this process may have open: as many as the machine permits it.

The soft limit is 1,024 in most places (systemd's default, a login) for the sake of programs that call
select(), which ends at that number. Nothing does so here with what it opens: not librdkafka (poll), not
Python's own modules, not PySpark.
"""

import resource
from typing import Final

# A process may be permitted a million or without end, and there are programs that go through all of them.
_ENOUGH: Final = 65_536


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit to its hard one, and that of what it starts; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = raised(soft, hard)
    if most != soft:
        # A system may allow less than the hard limit says (macOS), a sandbox no change at all.
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            most = soft
    return _ENOUGH if most == resource.RLIM_INFINITY else most


def raised(soft: int, hard: int) -> int:
    """Return the soft limit that is to be: never a lower one than there is."""
    if soft == resource.RLIM_INFINITY:
        return soft
    return max(soft, _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH))
