"""This process: its version, the files that it may have open, and keys of AWS that its JVM is not to see.

A file that a configuration names may be anything: a pipe without a writer, a device without end.
"""

import errno
import os
import resource
import socket
import stat
from collections.abc import MutableMapping
from functools import cache
from importlib.metadata import version
from typing import BinaryIO, Final


@cache
def own_version() -> str:
    """Of the code that this process began with, whatever is installed over it meanwhile."""
    return version("headrace")


# The soft limit is 1,024 in most places (systemd's default, a login) for the sake of programs that call
# select(), which ends at that number. Nothing does so here with what it opens: not librdkafka (poll), not
# Python's own modules, not PySpark. A process may be permitted a million or without end, and there are
# programs that go through all of them.
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


# Where both are there, Spark asks for the address of the machine's own name while it starts, to write it next
# to them (SparkHadoopUtil), and does not start where that has none: a container on its host's network.
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_PREFIX: Final = "HEADRACE_HIDDEN_"


def hide_keys(environment: dict[str, str]) -> dict[str, str]:
    """The environment for a JVM, with the keys under other names where it would not start with them.

    Blocks while the machine's own name is looked up, if both are there.
    """
    if not all(name in environment for name in _KEYS) or _has_own_address():
        return environment
    return {f"{_PREFIX}{name}" if name in _KEYS else name: value for name, value in environment.items()}


def show_keys(environment: MutableMapping[str, str]) -> None:
    """Put the keys back under their own names, in a process that a JVM has started."""
    for name in _KEYS:
        if (value := environment.pop(f"{_PREFIX}{name}", None)) is not None:
            environment[name] = value


def _has_own_address() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


_MOST: Final = 1024 * 1024


def open_regular(path: str) -> BinaryIO:
    """The file, for reading; OSError for what is none, at once: nothing is waited for."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - it is the caller's, and Path takes no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise PermissionError(errno.EPERM, "it is no file", path)
    return file


def read_regular(path: str) -> bytes:
    """What is in the file; OSError for what is none, and for more than 1 MiB."""
    with open_regular(path) as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise PermissionError(errno.EFBIG, "it has more than 1 MiB", path)
    return content


def read_store(path: str) -> bytes:
    """What is in a trust store, of any size; OSError for what is no file."""
    with open_regular(path) as file:
        return file.read()


def read_regular_text(path: str) -> str:
    """The same as text with line ends as Python has them; ValueError for what is no UTF-8."""
    return read_regular(path).decode().replace("\r\n", "\n").replace("\r", "\n")
