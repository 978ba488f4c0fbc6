"""Ports for what tests start: nobody else gets them before it listens."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localstack.ports import free_port


def test_no_port_is_given_twice_nor_its_neighbour() -> None:
    """Side by side, as the workers of a test run ask."""
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: free_port(), range(200)))
    assert len({*given, *(port + 1 for port in given)}) == 400


def test_no_client_gets_one() -> None:
    """It would have it before a broker listens there, or while one that was killed is away."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    port = free_port()
    # Where the kernel gives nearly all of them to clients there is nothing to choose from.
    assert high - low > 50_000 or not ({port, port + 1} & set(range(low, high + 1)))
