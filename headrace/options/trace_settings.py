"""How traces are exported, by the options and by OpenTelemetry's own environment."""

from collections.abc import Mapping

from headrace.options.choices import TracesExporter
from headrace.options.declarations import connection_options
from headrace.options.settings import TraceSettings
from headrace.options.values import Values


def trace_settings(values: Values, environment: Mapping[str, str]) -> TraceSettings | None:
    """None where no traces are asked for."""
    if values[connection_options.TRACES_EXPORTER] is not TracesExporter.OTLP:
        return None
    queue = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)
    return TraceSettings(
        endpoint=values[connection_options.TRACES_ENDPOINT],
        queue_spans=queue,
        request_spans=min(queue, _number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
        delay_seconds=_number(environment, "OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000,
    )


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """What the variable says; one that is no number above 0 is passed over, as OpenTelemetry asks."""
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else default
