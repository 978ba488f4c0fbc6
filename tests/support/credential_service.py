"""An STS and an instance metadata service on loopback that give credentials, or refuse them, as a test says.

with CredentialService() as service:
service.grant()                         # for an hour
service.grant(seconds=60)               # so that they are renewed with each request
service.refuse("InvalidIdentityToken")  # from now on
"""

import json
import ssl
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs

_ROLE: Final = "the-role"
_ROLES_PATH: Final = "/latest/meta-data/iam/security-credentials/"


class CredentialService:
    """One listening port; all methods may be called from any thread. It begins by refusing."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: Counter[str] = Counter()
        """How often each action of STS, and the metadata service (`metadata`), was asked for."""
        self._seconds: float | None = None
        self._accepted = ""
        self._refusal = ("AccessDenied", 403, "not authorized to perform: sts:AssumeRole")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, or https, for STS and for metadata."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def grant(self, *, seconds: float = 3600) -> None:
        """Give credentials that are valid for so long from the moment of each answer."""
        self._seconds = seconds

    def refuse(self, code: str = "AccessDenied", status: int = 403, message: str = "said so") -> None:
        """Refuse from now on; the metadata service answers that there is no role."""
        self._refusal = (code, status, message)
        self._seconds = None

    def accept(self, access_key_id: str) -> None:
        """Take requests to STS that are signed with this key alone."""
        self._accepted = access_key_id

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                signed_by = f"Credential={service._accepted}"
                is_accepted = signed_by in self.headers.get("authorization", signed_by)
                answer = service._token(parse_qs(body)["Action"][0], is_accepted=is_accepted)
                self._answer(*answer, "text/xml")

            def do_PUT(self) -> None:
                self._answer(200, b"a-session", "text/plain")

            def do_GET(self) -> None:
                self._answer(*service._metadata(self.path), "text/plain")

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def _token(self, action: str, *, is_accepted: bool) -> tuple[int, bytes]:
        self.asked[action] += 1
        seconds, (code, status, message) = self._seconds, self._refusal
        if not is_accepted:
            seconds, code, status, message = None, "InvalidClientTokenId", 403, "no such key"
        if seconds is None:
            error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            return status, f"<ErrorResponse>{error}</ErrorResponse>".encode()
        keys = "".join(f"<{name}>{value}</{name}>" for name, value in self._keys(seconds).items())
        result = f"<{action}Result><Credentials>{keys}</Credentials></{action}Result>"
        return 200, f"<{action}Response>{result}</{action}Response>".encode()

    def _metadata(self, path: str) -> tuple[int, bytes]:
        self.asked["metadata"] += 1
        seconds = self._seconds
        if seconds is None:
            return 404, b""
        if path == _ROLES_PATH:
            return 200, _ROLE.encode()
        found = self._keys(seconds)
        found["Token"] = found.pop("SessionToken")
        return 200, json.dumps({"Code": "Success", **found}).encode()

    @staticmethod
    def _keys(seconds: float) -> dict[str, str]:
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        return {
            "AccessKeyId": "ASIATEMPORARY",
            "SecretAccessKey": "a-temporary-secret",
            "SessionToken": "a-temporary-token",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
