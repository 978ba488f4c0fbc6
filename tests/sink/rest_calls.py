"""What a client of a running sink's REST interface asks."""

from dataclasses import dataclass
from typing import Any

from tests.support import rest_request


@dataclass(frozen=True, slots=True)
class RestCalls:
    """Of one connector; `port` is that of `rest.listen`."""

    port: int
    name: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer's JSON, None where it has none."""
        return rest_request.ask(f"http://127.0.0.1:{self.port}/connectors/{self.name}{path}", method, body)

    def offset(self) -> int:
        """The sum of all partitions' offsets."""
        found = self.ask("GET", "/offsets")[1]["offsets"]
        return sum(one["offset"]["kafka_offset"] for one in found)

    def rewind(self, topic: str, partition: int, offset: int) -> int:
        """Have a stopped sink go on at this offset; the answer's status."""
        where = {"kafka_topic": topic, "kafka_partition": partition}
        change = {"offsets": [{"partition": where, "offset": {"kafka_offset": offset}}]}
        return self.ask("PATCH", "/offsets", change)[0]
