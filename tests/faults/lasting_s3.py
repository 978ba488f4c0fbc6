"""An S3 that keeps what it has answered for when it is killed, which LocalStack does not.

`LastingS3` starts it as a process of its own; `python -m tests.faults.lasting_s3 FILE PORT` is that process.
Every request is one transaction of SQLite, committed before its answer, so that a kill -9 loses no object, no
upload and no part that was acknowledged. It has what a sink and its account request, and no signatures.
"""

import hashlib
import json
import sqlite3
import sys
import threading
import uuid
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from localstack.daemon import Daemon
from localstack.ports import HOST
from localstack.steps import PartError
from tests.support.until import until_sync

_ROOT: Final = Path(__file__).resolve().parents[2]
_START_SECONDS: Final = 60.0
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, bucket TEXT, key TEXT, headers TEXT);
CREATE TABLE IF NOT EXISTS parts (upload TEXT, number INTEGER, body BLOB, PRIMARY KEY (upload, number));
CREATE TABLE IF NOT EXISTS objects (
    version INTEGER PRIMARY KEY, bucket TEXT, key TEXT, etag TEXT, headers TEXT, body BLOB);
CREATE INDEX IF NOT EXISTS by_key ON objects (bucket, key, version);
"""
_NEWEST: Final = (
    "SELECT etag, headers, body FROM objects WHERE bucket = ? AND key = ? ORDER BY version DESC LIMIT 1"
)


class LastingS3:
    """One such S3 at `http://127.0.0.1:port`, with all that it keeps in `folder`."""

    def __init__(self, *, folder: Path, port: int) -> None:
        self._folder = folder.resolve()
        self._port = port
        self.daemon = Daemon("lasting-s3", self._folder)

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Start it over what its folder holds. Blocks until it answers."""
        file = str(self._folder / "s3.sqlite")
        argv = [sys.executable, "-m", "tests.faults.lasting_s3", file, str(self._port)]
        self.daemon.start(argv, address=self.endpoint, folder=_ROOT, environment={"PYTHONPATH": str(_ROOT)})
        until_sync(self._answers, seconds=_START_SECONDS, what="an answer of the S3 that lasts")

    def stop(self) -> bool:
        """Stop it; True when it ran."""
        return self.daemon.stop(within_seconds=5)

    def _answers(self) -> bool:
        if self.daemon.pid is None:
            raise PartError(f"it has ended: {self.daemon.last_words()}")
        connection = HTTPConnection(HOST, self._port, timeout=2)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        return True


class _RefusedError(Exception):
    """An answer that is an error of S3: its code and its status."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.code, self.status = code, status


class _Store:
    """The database; one request at a time."""

    def __init__(self, file: str) -> None:
        self._lock = threading.Lock()
        self._base = sqlite3.connect(file, check_same_thread=False)
        # What is committed is in the log of the system, which a kill of this process leaves alone.
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.executescript(_TABLES)

    def answer(self, request: "_Request") -> "_Answer":
        """What S3 answers, once it is kept."""
        with self._lock, self._base:
            if not request.bucket:
                return _Answer()
            if request.key:
                return self._of_object(request)
            return self._of_bucket(request)

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._base.execute(statement, values).fetchall()

    # -- buckets --

    def _of_bucket(self, request: "_Request") -> "_Answer":
        query = request.query
        if request.method == "PUT":
            self._rows("INSERT OR IGNORE INTO buckets VALUES (?)", request.bucket)
            return _Answer()
        if not self._rows("SELECT 1 FROM buckets WHERE name = ?", request.bucket):
            raise _RefusedError("NoSuchBucket", 404)
        if "lifecycle" in query:
            raise _RefusedError("NoSuchLifecycleConfiguration", 404)
        if "versions" in query:
            return self._versions(request)
        if "uploads" in query:
            found = self._rows("SELECT key, id FROM uploads WHERE bucket = ?", request.bucket)
            uploads = "".join(
                f"<Upload><Key>{escape(key)}</Key><UploadId>{name}</UploadId></Upload>" for key, name in found
            )
            return _xml("ListMultipartUploadsResult", f"<IsTruncated>false</IsTruncated>{uploads}")
        if query.get("list-type") == "2":
            return self._listing(request)
        return _Answer()

    def _versions(self, request: "_Request") -> "_Answer":
        rows = self._rows(
            "SELECT key, version FROM objects WHERE bucket = ? ORDER BY key, version", request.bucket
        )
        versions = "".join(
            f"<Version><Key>{escape(key)}</Key><VersionId>{version}</VersionId></Version>"
            for key, version in rows
        )
        return _xml("ListVersionsResult", f"<IsTruncated>false</IsTruncated>{versions}")

    def _listing(self, request: "_Request") -> "_Answer":
        prefix, most = request.query.get("prefix", ""), int(request.query.get("max-keys", "1000"))
        after = request.query.get("continuation-token") or request.query.get("start-after", "")
        rows = self._rows(
            "SELECT key, etag, length(body) FROM objects WHERE bucket = ? AND substr(key, 1, ?) = ? "
            "AND key > ? GROUP BY key ORDER BY key LIMIT ?",
            request.bucket,
            len(prefix),
            prefix,
            after,
            most + 1,
        )
        shown = rows[:most]
        inside = "".join(
            f"<Contents><Key>{escape(key)}</Key><ETag>{etag}</ETag><Size>{size}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, etag, size in shown
        )
        more = f"<NextContinuationToken>{escape(shown[-1][0])}</NextContinuationToken>" if shown else ""
        is_cut = len(rows) > most
        head = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated><KeyCount>{len(shown)}</KeyCount>"
        return _xml("ListBucketResult", head + (more if is_cut else "") + inside)

    # -- objects --

    def _of_object(self, request: "_Request") -> "_Answer":
        if upload := request.query.get("uploadId"):
            return self._of_upload(request, upload)
        match request.method:
            case "POST":
                return self._begin(request)
            case "PUT":
                self._put(request, request.kept(), request.body, _etag(request.body))
                return _Answer(headers={"ETag": _etag(request.body)})
            case "GET" | "HEAD":
                return self._object(request)
        raise _RefusedError("NotImplemented", 501)

    def _of_upload(self, request: "_Request", upload: str) -> "_Answer":
        kept = self._upload(request, upload)
        match request.method:
            case "PUT":
                return self._part(request, upload)
            case "POST":
                return self._complete(request, upload, kept)
            case "GET":
                return self._list_parts(upload)
        self._forget(upload)
        return _Answer(status=204)

    def _begin(self, request: "_Request") -> "_Answer":
        name = uuid.uuid4().hex
        kept = json.dumps(request.kept())
        self._rows("INSERT INTO uploads VALUES (?, ?, ?, ?)", name, request.bucket, request.key, kept)
        return _xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")

    def _upload(self, request: "_Request", upload: str) -> dict[str, str]:
        """The headers that it began with."""
        found = self._rows(
            "SELECT headers FROM uploads WHERE id = ? AND bucket = ? AND key = ?",
            upload,
            request.bucket,
            request.key,
        )
        if not found:
            raise _RefusedError("NoSuchUpload", 404)
        kept: dict[str, str] = json.loads(found[0][0])
        return kept

    def _forget(self, upload: str) -> None:
        self._rows("DELETE FROM parts WHERE upload = ?", upload)
        self._rows("DELETE FROM uploads WHERE id = ?", upload)

    def _part(self, request: "_Request", upload: str) -> "_Answer":
        number = int(request.query["partNumber"])
        self._rows("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", upload, number, request.body)
        headers = {"ETag": _etag(request.body), "x-amz-checksum-crc32": _crc32(request.body)}
        return _Answer(headers=headers)

    def _parts(self, upload: str) -> list[tuple[int, bytes]]:
        rows = self._rows("SELECT number, body FROM parts WHERE upload = ? ORDER BY number", upload)
        return [(int(number), bytes(body)) for number, body in rows]

    def _list_parts(self, upload: str) -> "_Answer":
        inside = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{_etag(body)}</ETag><Size>{len(body)}</Size>"
            f"<ChecksumCRC32>{_crc32(body)}</ChecksumCRC32></Part>"
            for number, body in self._parts(upload)
        )
        return _xml("ListPartsResult", f"<IsTruncated>false</IsTruncated>{inside}")

    def _complete(self, request: "_Request", upload: str, kept: Mapping[str, str]) -> "_Answer":
        named = request.body.count(b"<PartNumber>")
        bodies = [body for _, body in self._parts(upload)]
        if named != len(bodies):
            raise _RefusedError("InvalidPart", 400)
        digests = b"".join(hashlib.md5(body, usedforsecurity=False).digest() for body in bodies)
        etag = f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(bodies)}"'
        self._put(request, kept, b"".join(bodies), etag)
        self._forget(upload)
        return _xml("CompleteMultipartUploadResult", f"<ETag>{etag}</ETag>")

    def _put(self, request: "_Request", kept: Mapping[str, str], body: bytes, etag: str) -> None:
        if request.headers.get("if-none-match") == "*" and self._rows(_NEWEST, request.bucket, request.key):
            raise _RefusedError("PreconditionFailed", 412)
        self._rows(
            "INSERT INTO objects (bucket, key, etag, headers, body) VALUES (?, ?, ?, ?, ?)",
            request.bucket,
            request.key,
            etag,
            json.dumps(dict(kept)),
            body,
        )

    def _object(self, request: "_Request") -> "_Answer":
        found = self._rows(_NEWEST, request.bucket, request.key)
        if not found:
            raise _RefusedError("NoSuchKey", 404)
        etag, kept, body = found[0]
        return _Answer(headers={"ETag": etag, **json.loads(kept)}, body=bytes(body))


class _Request:
    """What a client sent; names of headers in lower case."""

    def __init__(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        url = urlsplit(target)
        self.method, self.body = method, body
        self.bucket, _, self.key = unquote(url.path).lstrip("/").partition("/")
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        self.headers = {name.lower(): text for name, text in headers}

    def kept(self) -> dict[str, str]:
        """The headers that an object answers with."""
        return {name: text for name, text in self.headers.items() if name.startswith("x-amz-meta-")}


class _Answer:
    def __init__(
        self, *, status: int = 200, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        self.status, self.headers, self.body = status, dict(headers or {}), body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, store: _Store, *given: Any) -> None:
        self._store = store
        super().__init__(*given)

    def handle_one_request(self) -> None:
        """One request of a connection, whatever its method."""
        self.do_GET = self.do_HEAD = self.do_PUT = self.do_POST = self.do_DELETE = self._serve
        super().handle_one_request()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = _Request(self.command, self.path, self.headers.items(), body)
        try:
            answer = self._store.answer(request)
        except _RefusedError as error:
            inside = f"<Code>{error.code}</Code><Message>{error.code}</Message>"
            answer = _xml("Error", inside, status=error.status)
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library calls it
        """Nothing: thousands of lines, of which none is looked at."""


def _xml(name: str, inside: str, *, status: int = 200) -> _Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}>{inside}</{name}>'
    return _Answer(status=status, body=text.encode())


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _crc32(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4)).decode()


def main() -> None:
    """Serve until the process is ended."""
    file, port = sys.argv[1:]
    server = ThreadingHTTPServer((HOST, int(port)), partial(_Handler, _Store(file)))
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
