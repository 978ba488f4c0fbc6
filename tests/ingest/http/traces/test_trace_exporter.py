"""Traces in a collector, by OpenTelemetry's own exporter; and what becomes of them without one."""

import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import InvalidConfiguration
from headrace.options.settings import TraceSettings
from ingest.http.traces.exporter import CountSpans, TraceExporter, exporting
from ingest.http.traces.object_traces import Span, Trace
from tests.support.otlp_receiver import otlp_receiver
from tests.support.until import until_sync

SETTINGS = TraceSettings(endpoint=None, queue_spans=50, request_spans=20, delay_seconds=0.05)
ROOT = Span(name="ingest", start_ns=10, end_ns=30, attributes={"aws.s3.key": "ä"}, error="cut short")
TRACE = Trace(root=ROOT, steps=(Span(name="read", start_ns=12, end_ns=29, attributes={"headrace.slot": 3}),))


def counting(counted: Counter[str]) -> CountSpans:
    """What adds to these counts."""

    def count(outcome: str, spans: int) -> None:
        counted.update({outcome: spans})

    return count


def test_spans_arrive_as_they_were_made() -> None:
    """Times, parents, attributes, errors, and who sent them."""
    counted: Counter[str] = Counter()
    with otlp_receiver() as receiver:
        settings = replace(SETTINGS, endpoint=receiver.url)
        with exporting(settings, name="orders", count=counting(counted)) as send:
            assert send is not None
            send(TRACE)
            until_sync(lambda: receiver.traces, seconds=60, what="the first trace")
            send(TRACE)
        first, second = receiver.by_name()

    assert first.keys() == second.keys() == {"ingest", "read"}
    root, read = first["ingest"], first["read"]
    assert (root.start, root.end, root.error, root.parent) == (10, 30, "cut short", b"")
    assert root.attributes == {"aws.s3.key": "ä"}
    assert (read.start, read.end, read.error, read.attributes) == (12, 29, None, {"headrace.slot": 3})
    assert read.parent != b""
    assert root.resource["service.name"] == "headrace"
    assert root.resource["headrace.connector"] == "orders"
    assert counted == {"exported": 4}


def test_requests_are_filled() -> None:
    """Not one a trace; what waits at the end is sent."""
    with otlp_receiver() as receiver:
        settings = replace(SETTINGS, endpoint=receiver.url, delay_seconds=3600.0)
        with exporting(settings, name="orders", count=lambda _outcome, _n: None) as send:
            assert send is not None
            for _ in range(25):
                send(TRACE)
        assert len(receiver.traces) == 25
        assert receiver.requests == 3


def test_a_collector_that_is_silent_blocks_nobody() -> None:
    """The queue is bounded, what does not fit is counted, and the end comes in time."""
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def count(outcome: str, spans: int) -> None:
        with lock:
            counted.update({outcome: spans})

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        settings = replace(SETTINGS, endpoint=f"http://127.0.0.1:{port}/v1/traces")
        exporter = TraceExporter(settings, name="orders", count=count)
        begun = time.monotonic()
        for _ in range(1000):
            exporter.send(TRACE)
        sent = time.monotonic()
        exporter.close()
        closed = time.monotonic()

    # A request that is not answered is given up after ten seconds.
    assert sent - begun < 5.0
    assert closed - sent < 9.0
    # Its last word, when the socket is gone, is not for the log of the next test.
    until_sync(
        lambda: all(each.name != "traces" for each in threading.enumerate()), seconds=60, what="its end"
    )
    # The queue, and what was taken out of it into the request under way.
    assert 2000 - 50 - 20 <= counted["dropped"] <= 2000 - 50


def test_failures_are_said_once_until_it_works_again() -> None:
    """And counted."""
    counted: Counter[str] = Counter()
    with otlp_receiver() as receiver, capture_logs() as lines:
        receiver.status = 400
        settings = replace(SETTINGS, endpoint=receiver.url)
        with exporting(settings, name="orders", count=counting(counted)) as send:
            assert send is not None
            send(TRACE)
            until_sync(lambda: counted["failed"] == 2, seconds=60, what="a failure")
            send(TRACE)
            until_sync(lambda: counted["failed"] == 4, seconds=60, what="another")
            receiver.status = 200
            send(TRACE)
            until_sync(lambda: counted["exported"] == 2, seconds=60, what="a success")

    assert [line["event"] for line in lines] == ["traces_not_exported", "traces_exported_again"]
    assert "400" in lines[0]["error"]


def test_the_environment_of_opentelemetry_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its endpoint, its name, its attributes, its sampler."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix("/v1/traces"))
        monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=data")
        with exporting(SETTINGS, name="orders", count=lambda _outcome, _n: None) as send:
            assert send is not None
            send(TRACE)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        with exporting(SETTINGS, name="orders", count=lambda _outcome, _n: None) as send:
            assert send is not None
            send(TRACE)
        (trace,) = receiver.by_name()
        assert trace["ingest"].resource["service.name"] == "ours"
        assert trace["ingest"].resource["team"] == "data"

    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    with (
        pytest.raises(InvalidConfiguration, match="OTEL_"),
        exporting(SETTINGS, name="orders", count=lambda _outcome, _n: None),
    ):
        pass


def test_without_the_package_one_sentence_names_it() -> None:
    """And without the option nothing of the library is imported."""
    code = """
import sys
from ingest.http.traces.exporter import exporting
with exporting(None, name="n", count=print): pass
assert not any(name.startswith("opentelemetry") for name in sys.modules)
sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = None
from headrace.options.settings import TraceSettings
settings = TraceSettings(endpoint=None, queue_spans=1, request_spans=1, delay_seconds=1)
try:
    with exporting(settings, name="n", count=print): pass
except Exception as error:
    print(type(error).__name__, error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == (
        "InvalidConfiguration traces.exporter = otlp needs OpenTelemetry's packages, which are not "
        "installed: pip install 'headrace[traces]', or leave the option out.\n"
    )
