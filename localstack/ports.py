"""Ports of this machine: whether one is taken, and one that is free."""

import socket

from localstack.steps import PartError

HOST = "127.0.0.1"
_TRIES = 100


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
    """A port that is free at this moment, and so is the next one, which a broker's controller takes."""
    for _ in range(_TRIES):
        with socket.socket() as first, socket.socket() as second:
            first.bind((HOST, 0))
            port = int(first.getsockname()[1])
            try:
                second.bind((HOST, port + 1))
            except (OSError, OverflowError):
                continue
            return port
    raise PartError("no two neighbouring ports are free on this machine")
