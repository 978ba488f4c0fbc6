"""One request to a REST interface of a process under test."""

import json
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any


def ask(url: str, method: str = "GET", body: Any = None, *, user: str | None = None) -> tuple[int, Any]:
    """Status and JSON (None without a body) of the answer, whatever its status; OSError without an answer.

    `user` is `name:password`.
    """
    named = {} if user is None else {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
    request = urllib.request.Request(  # noqa: S310 - our own server
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"} | named,
    )
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310 - as above
            raw, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        with error:
            raw, status = error.read(), error.code
    return status, json.loads(raw) if raw else None
