"""A small S3 that can only list: pages recorded from a real answer, replayed with other keys.

    python -m bench.replayed_pages PORT PAGE PAGES

PAGE is the XML of one answer to ListObjectsV2 of 1,000 keys, all beginning with `0000/`; page number n is
that answer with `000n/` in their places. A process of its own, so that it takes no time of who lists.
`GET /requests` says what was asked for.
"""

import json
import re
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

KEYS: Final = 1000
_FIRST: Final = b"<Key>0000/"
_TRUNCATED: Final = re.compile(rb"<IsTruncated>\w+</IsTruncated>")
_CONTENTS: Final = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)


class Pages:
    """The recorded page and how many to make of it."""

    def __init__(self, recorded: bytes, count: int) -> None:
        self._recorded = recorded
        self._count = count

    def page(self, query: dict[str, str]) -> bytes:
        """The answer to one ListObjectsV2."""
        if int(query.get("max-keys", KEYS)) < KEYS:
            return self._short(int(query["max-keys"]))
        if "continuation-token" in query:
            number = int(query["continuation-token"])
        else:
            after = query.get("start-after", "")
            number = int(after[:4]) + 1 if after else 0
        body = self._recorded.replace(_FIRST, b"<Key>%04d/" % number)
        if number + 1 >= self._count:
            return _TRUNCATED.sub(b"<IsTruncated>false</IsTruncated>", body)
        more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"
        return _TRUNCATED.sub(more % (number + 1), body)

    def _short(self, keys: int) -> bytes:
        found = _CONTENTS.findall(self._recorded)[:keys]
        first = self._recorded.index(b"<Contents>")
        last = self._recorded.rindex(b"</Contents>") + len(b"</Contents>")
        return self._recorded[:first] + b"".join(found) + self._recorded[last:]


class Replay(ThreadingHTTPServer):
    """The server; counts requests by what they ask for, and notes when pages were asked for."""

    daemon_threads = True

    def __init__(self, port: int, pages: Pages) -> None:
        super().__init__(("127.0.0.1", port), _Answer)
        self.pages = pages
        self.lock = threading.Lock()
        self.requests: dict[str, int] = {}
        self.first_page_at = 0.0
        self.last_page_at = 0.0

    def count(self, kind: str) -> None:
        """One more request of this kind."""
        with self.lock:
            self.requests[kind] = self.requests.get(kind, 0) + 1
            if kind == "list":
                self.last_page_at = time.time()
                self.first_page_at = self.first_page_at or self.last_page_at

    def taken(self) -> dict[str, Any]:
        """What was counted since the last call of this."""
        with self.lock:
            found = {
                "requests": self.requests,
                "first_page_at": self.first_page_at,
                "last_page_at": self.last_page_at,
            }
            self.requests, self.first_page_at, self.last_page_at = {}, 0.0, 0.0
        return found


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body leave together, or Nagle's algorithm would hold each page for 40 ms.
    wbufsize = -1
    server: Replay

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path == "/requests":
            self._send(200, json.dumps(self.server.taken()).encode())
        elif query.get("list-type") == "2":
            self.server.count("list" if int(query.get("max-keys", KEYS)) == KEYS else "list of one key")
            self._send(200, self.server.pages.page(query))
        else:
            self.server.count("GET")
            self._send(500, b"")

    def do_HEAD(self) -> None:
        self.server.count("HEAD")
        self._send(500, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Date", formatdate(usegmt=True))
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nothing: a line a request would be noise."""


def main() -> int:
    """Serve until killed."""
    port, page, count = sys.argv[1:]
    Replay(int(port), Pages(Path(page).read_bytes(), int(count))).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
