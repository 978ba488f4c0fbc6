"""Keys of AWS that a JVM is not to see in its environment, and the processes that it starts are.

Where both are there, Spark asks for the address of the machine's own name while it starts, to write it next
to them (SparkHadoopUtil), and does not start where that has none: a container on its host's network.
"""

import socket
from collections.abc import MutableMapping
from typing import Final

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
