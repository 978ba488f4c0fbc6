"""What S3 itself gives: every object fetched over kept connections, by so many threads, and thrown away.

Prints the objects fetched and the seconds it took.
"""

import http.client
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 8


def fetch(netloc: str, paths: list[str]) -> int:
    """Objects fetched, one after the other."""
    connection = http.client.HTTPConnection(netloc, timeout=60)
    for path in paths:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            raise SystemExit(f"GET {path} answers {answer.status}.")
    connection.close()
    return len(paths)


def measure(endpoint: str, bucket: str, count: int) -> tuple[int, float]:
    """Objects fetched and seconds needed; the keys are those that `bench.workloads` gives."""
    netloc = urllib.parse.urlsplit(endpoint).netloc
    paths = [f"/{bucket}/in/{number:06}" for number in range(count)]
    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        fetched = sum(pool.map(lambda at: fetch(netloc, paths[at::THREADS]), range(THREADS)))
    return fetched, time.monotonic() - began


if __name__ == "__main__":
    print(*measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
