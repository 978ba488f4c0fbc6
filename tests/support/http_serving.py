"""A server of HTTP for a test: a handler of `http.server`, in threads of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

# How often it looks whether it is to end: half a second by itself, which each test would wait for.
_POLL_SECONDS: Final = 0.02


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing on standard error, and sends an answer with its length."""

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send it; the body of a HEAD is left out, its length stays."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        """What the request carries."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as http.server has it
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on the loopback, without a slash at its end; it ends with the context."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS], daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)
