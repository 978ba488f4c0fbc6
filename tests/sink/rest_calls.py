"""What a client of a running sink's REST interface asks."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RestCalls:
    """Of one connector; `port` is that of `rest.listen`."""

    port: int
    name: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer's JSON, None where it has none."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/connectors/{self.name}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310 - our own server
                raw, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            with error:
                raw, status = error.read(), error.code
        return status, json.loads(raw) if raw else None

    def offset(self) -> int:
        """The sum of all partitions' offsets."""
        found = self.ask("GET", "/offsets")[1]["offsets"]
        return sum(one["offset"]["kafka_offset"] for one in found)

    def rewind(self, topic: str, partition: int, offset: int) -> int:
        """Have a stopped sink go on at this offset; the answer's status."""
        where = {"kafka_topic": topic, "kafka_partition": partition}
        change = {"offsets": [{"partition": where, "offset": {"kafka_offset": offset}}]}
        return self.ask("PATCH", "/offsets", change)[0]
