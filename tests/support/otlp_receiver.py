"""A collector of a test: takes OTLP over HTTP, and has the spans that came, by trace."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.http_serving import QuietHandler, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One span; times in ns since 1970."""

    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    error: str | None
    parent: bytes
    resource: dict[str, Any]


@dataclass(slots=True)
class OtlpReceiver:
    """What came; `status` is what it answers."""

    url: str = ""
    status: int = 200
    requests: int = 0
    traces: dict[bytes, list[Received]] = field(default_factory=lambda: defaultdict(list))

    def by_name(self) -> list[dict[str, Received]]:
        """Each trace's spans by name; of several of one name the last."""
        return [{span.name: span for span in spans} for spans in self.traces.values()]

    def take(self, body: bytes) -> None:
        """Parse one request."""
        self.requests += 1
        if self.status != 200:
            return
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(of_resource.resource.attributes)
            for scope in of_resource.scope_spans:
                for span in scope.spans:
                    self.traces[span.trace_id].append(
                        Received(
                            name=span.name,
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            attributes=_values(span.attributes),
                            error=span.status.message if span.status.code == 2 else None,
                            parent=span.parent_span_id,
                            resource=resource,
                        )
                    )


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A collector on a free port of this machine."""
    made = OtlpReceiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            made.take(self.body())
            self.answer(made.status, b"")

    with serving(Handler) as url:
        made.url = f"{url}/v1/traces"
        yield made


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
