"""Traces to a collector by OpenTelemetry's own exporter, in a thread next to everything else.

Only this module knows the library, which is an extra of the package (`headrace[traces]`).
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog

from headrace.model.errors import InvalidConfiguration
from headrace.options.settings import TraceSettings
from headrace.process.own_process import own_version
from headrace.process.threads import start_thread
from ingest.http.traces.object_traces import SendTrace, Span, Trace

_log = structlog.get_logger(__name__)

_CLOSE_SECONDS: Final = 2.0
_LIBRARY_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

CountSpans = Callable[[str, int], None]
"""Called with `exported`, `dropped` (the queue was full) or `failed` (the collector), and how many spans."""


@contextmanager
def exporting(settings: TraceSettings | None, *, name: str, count: CountSpans) -> Iterator[SendTrace | None]:
    """What takes the traces of a connector, or None without `traces.exporter`; the rest is sent at the end.

    InvalidConfiguration without the package, and for an OTEL_* variable that its library refuses.
    """
    if settings is None:
        yield None
        return
    exporter = TraceExporter(settings, name=name, count=count)
    try:
        yield exporter.send
    finally:
        exporter.close()


class TraceExporter:
    """`send` never blocks: what the queue does not hold is dropped, and counted."""

    def __init__(self, settings: TraceSettings, *, name: str, count: CountSpans) -> None:
        self._settings = settings
        self._count = count
        self._client = _client(settings, name)
        self._lock = threading.Lock()
        self._waiting_spans = 0
        self._is_failing = False
        self._waiting: queue.SimpleQueue[Trace | None] = queue.SimpleQueue()
        self._thread = start_thread(self._run, name="traces")

    def send(self, trace: Trace) -> None:
        """Have it exported with the next request, unless as many wait as may."""
        spans = len(trace)
        with self._lock:
            is_full = self._waiting_spans + spans > self._settings.queue_spans
            if not is_full:
                self._waiting_spans += spans
        if is_full:
            self._count("dropped", spans)
        else:
            self._waiting.put(trace)

    def close(self) -> None:
        """Send what waits, for a moment only: a collector that is away does not hold up an end."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_SECONDS)
        self._client.exporter.shutdown()

    def _run(self) -> None:
        is_open = True
        while is_open:
            is_open = self._fill()
            spans = self._client.taken()
            if spans:
                self._export(spans)

    def _fill(self) -> bool:
        """Make spans of what comes until a request is full or due; False when nothing comes any more."""
        trace = self._waiting.get()
        due = time.monotonic() + self._settings.delay_seconds
        while trace is not None:
            with self._lock:
                self._waiting_spans -= len(trace)
            if self._client.add(trace) >= self._settings.request_spans:
                return True
            try:
                trace = self._waiting.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                return True
        return False

    def _export(self, spans: list[Any]) -> None:
        try:
            problem = self._client.export(spans)
        except Exception as error:  # noqa: BLE001  # whatever a collector makes of it ends nothing here
            problem = f"{type(error).__name__}: {error}"
        self._count("exported" if problem is None else "failed", len(spans))
        if problem is not None and not self._is_failing:
            _log.warning(
                "traces_not_exported",
                error=problem,
                detail="these spans are lost; look at traces.endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT",
            )
        elif problem is None and self._is_failing:
            _log.info("traces_exported_again")
        self._is_failing = problem is not None


class _LastWords(logging.Filter):
    """Keeps what the library says of a failure, which is the only place where it does, from the log."""

    def __init__(self) -> None:
        super().__init__()
        self.of_thread = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Never: the exporter's thread says it once, in its own words."""
        self.of_thread.said = record.getMessage()
        return False


_last_words: Final = _LastWords()


@dataclass(frozen=True, slots=True)
class _Client:
    """The library, put together; `ended` are the spans for the next request."""

    tracer: Any
    exporter: Any
    ended: list[Any]

    def add(self, trace: Trace) -> int:
        """Make its spans; how many there are for the next request."""
        from opentelemetry.trace import set_span_in_context

        root = self._span(trace.root, None)
        # A sampler may have left it out, and with it its steps.
        if root.get_span_context().trace_flags.sampled:
            self.ended.append(root)
            context = set_span_in_context(root)
            self.ended.extend(self._span(step, context) for step in trace.steps)
        return len(self.ended)

    def _span(self, made: Span, context: Any) -> Any:
        """The library's span of it, ended."""
        from opentelemetry.trace import Status, StatusCode

        span = self.tracer.start_span(
            made.name, context=context, attributes=made.attributes, start_time=made.start_ns
        )
        if made.error is not None:
            span.set_status(Status(StatusCode.ERROR, made.error))
        span.end(made.end_ns)
        return span

    def taken(self) -> list[Any]:
        """The spans for the next request, which are its caller's now."""
        spans = list(self.ended)
        self.ended.clear()
        return spans

    def export(self, spans: list[Any]) -> str | None:
        """Send one request, repeated by the library's rules; why it failed, or None."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        _last_words.of_thread.said = "the collector did not take them"
        if self.exporter.export(spans) is SpanExportResult.SUCCESS:
            return None
        return str(_last_words.of_thread.said)


def _client(settings: TraceSettings, name: str) -> _Client:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError as error:
        raise InvalidConfiguration(
            "traces.exporter = otlp needs OpenTelemetry's packages, which are not installed: "
            "pip install 'headrace[traces]', or leave the option out."
        ) from error

    ours: Mapping[str, str] = {
        "service.name": "headrace",
        "service.version": own_version(),
        "headrace.connector": name,
    }
    try:
        exporter = OTLPSpanExporter(endpoint=settings.endpoint)
        # What the environment says wins, as it does everywhere with OpenTelemetry.
        resource = Resource(dict(ours)).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    except (ValueError, OSError) as error:
        raise InvalidConfiguration(
            f"traces.exporter = otlp: OpenTelemetry refuses its OTEL_* environment: {error}."
        ) from error
    logging.getLogger(_LIBRARY_LOGGER).addFilter(_last_words)
    return _Client(provider.get_tracer("headrace", own_version()), exporter, [])
