"""What one GET costs a worker in CPU: botocore beside the fast path, small objects and a large one.

Prints microseconds of CPU time: of the thread that reads, for a small object and for a MiB; and of the
process, for a small object that `Prefetch` fetches by eight threads. S3 is a process that answers at once.
"""

import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.options.secret import Secret
from headrace.options.settings import BackoffSettings, S3Settings, StaticCredentials
from headrace.s3 import S3Calls, new_s3_calls
from headrace.s3.reader import Prefetch, RateLimiter, S3Source

SMALL: Final = 2048
MIB: Final = 1024 * 1024
LARGE: Final = 32 * MIB
ROUNDS: Final = 5
OBJECTS: Final = 1000
ETAG: Final = "0123456789abcdef0123456789abcdef"
HEAD: Final = (
    "HTTP/1.1 200 OK\r\nx-amz-id-2: Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6\r\n"
    "x-amz-request-id: 318BC8BC148832E5\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nx-amz-server-side-encryption: AES256\r\n"
    f'ETag: "{ETAG}"\r\nAccept-Ranges: bytes\r\nContent-Type: binary/octet-stream\r\nServer: AmazonS3\r\n'
)


def serve(listening: socket.socket) -> None:
    """Answer every GET at once, for good."""
    answers = {
        size: f"{HEAD}Content-Length: {size}\r\n\r\n".encode() + bytes(size) for size in (SMALL, LARGE)
    }

    def answer(connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        while first := lines.readline():
            while lines.readline() != b"\r\n":
                pass
            connection.sendall(answers[LARGE if b"large" in first else SMALL])

    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def implementations(port: int) -> dict[str, S3Calls]:
    """Calls whose GETs are botocore's, and calls as tasks have them."""
    keys = StaticCredentials(access_key_id="AKIA", secret_access_key=Secret("x"), session_token=None)
    given = S3Settings(
        bucket="bucket",
        prefix="",
        region="us-east-1",
        endpoint=f"http://127.0.0.1:{port}",
        path_style=True,
        credentials=keys,
        backoff=BackoffSettings(delay_ms=100, max_delay_ms=1000, max_retries=3),
        requester_pays=False,
        ca_bundle=None,
    )
    fast = new_s3_calls(given)
    return {"botocore": S3Calls(fast._client, backoff=given.backoff, requester_pays=False), "fast": fast}  # noqa: SLF001  # the same client for both


def microseconds(clock: Callable[[], float], work: Callable[[], object], count: int) -> float:
    """CPU time for one of `count` things that `work` does."""
    began = clock()
    work()
    return (clock() - began) / count * 1e6


def an_object(key: str, size: int) -> S3Object:
    """An object as it was announced."""
    return S3Object(id=ObjectId("bucket", key, ETAG), size=size, last_modified_ms=0)


def measure(calls: S3Calls) -> tuple[float, float, float]:
    """Microseconds for a small object, a MiB of a large one, and a small one that is prefetched."""
    small = [an_object(f"in/{number:06}", SMALL) for number in range(OBJECTS)]
    S3Source(calls, small[0]).whole()

    def one_by_one() -> None:
        for wanted in small:
            S3Source(calls, wanted).whole()

    def by_chunks() -> None:
        for _ in S3Source(calls, an_object("large", LARGE))._reading.chunks(0, LARGE):  # noqa: SLF001  # no thread
            pass

    def ahead() -> None:
        prefetch = Prefetch(
            calls,
            [Split(object=one, route=Route(topic="t")) for one in small],
            RateLimiter(None),
            streams=True,
        )
        for _ in small:
            b"".join(prefetch.next().stream())
        prefetch.close()

    return (
        microseconds(time.thread_time, one_by_one, OBJECTS),
        microseconds(time.thread_time, by_chunks, LARGE // MIB),
        microseconds(time.process_time, ahead, OBJECTS),
    )


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listening,), daemon=True)
    server.start()
    both = implementations(listening.getsockname()[1])
    # In turn, so that both meet the same neighbours.
    turns = [{route: measure(calls) for route, calls in both.items()} for _ in range(ROUNDS)]
    found = {route: [turn[route] for turn in turns] for route in both}
    for route, rounds in found.items():
        small, chunk, ahead = (sorted(one)[ROUNDS // 2] for one in zip(*rounds, strict=True))
        print(f"{route:9} {small:5.0f} µs a small object  {chunk:5.0f} µs a MiB  {ahead:5.0f} µs prefetched")
    server.terminate()
