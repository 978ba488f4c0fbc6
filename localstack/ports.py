"""Ports of this machine: whether one is taken, and one that is free."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

from localstack.steps import PartError

HOST = "127.0.0.1"
_LOWEST = 10_000
_FEW = 1000
# Of Linux: what a client's socket gets.
_USUAL = (32768, 60999)


def is_listening(port: int) -> bool:
    """Whether something accepts connections at this port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def refuse_taken_port(part: str, port: int, option: str) -> None:
    """PartError when the port is in use by something that is not ours to use or to stop."""
    if is_listening(port):
        raise PartError(
            f"{part}: port {port} is in use by a process that these scripts did not start; "
            f"stop that process or give another port with {option}"
        )


def free_port() -> int:
    """A port that is free, and so is the next one, which a broker's controller takes; PartError without one.

    None that the kernel may give to a client: it could be gone before it is listened at, and while a broker
    that was killed is away. What one process of this user was given, no other gets before all others were.
    """
    ports = _never_given_to_clients()
    with (Path(tempfile.gettempdir()) / f"headrace-ports-{os.getuid()}").open("a+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        noted = turn.read()
        first = int(noted) if noted.isdecimal() else 0
        for number in range(first, first + len(ports)):
            port = ports[number % len(ports)]
            if _is_free(port) and _is_free(port + 1):
                turn.truncate(0)
                turn.write(str((number + 1) % len(ports)))
                return port
    raise PartError("no two neighbouring ports are free on this machine")


def _never_given_to_clients() -> range:
    """Every other port on that side of the kernel's own which has more of them."""
    try:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        low, high = _USUAL
    below, above = range(_LOWEST, low - 1, 2), range(high + 1, 65534, 2)
    # Where the kernel has nearly all, they are as good as any.
    return max(below, above, range(_LOWEST, 65534, 2)[:_FEW], key=len)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
