"""Whether the schema registries that a configuration needs answer; one short question each."""

from collections.abc import Iterator
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.options import Settings
from headrace.options.choices import ValueFormat
from headrace.options.schema_settings import RegistrySettings
from ingest.checks.findings.finding import Finding, ok, unusable, warn

_SECONDS: Final = 3.0
_OPTION: Final = "schema.registry.url"
_BY_SCHEMAS: Final = frozenset({ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})


def registry_findings(settings: Settings) -> Iterator[Finding]:
    """Whether each registry answers, without which no record is read or written. Blocks."""
    for registry in dict.fromkeys(_needed(settings)):
        if not any(url.startswith("mock://") for url in registry.urls):
            yield _finding(registry)


def _needed(settings: Settings) -> Iterator[RegistrySettings]:
    """Those of Confluent's kind; Glue is asked of AWS, with its own permissions."""
    if settings.sink is not None:
        for converter in (settings.sink.converters.key, settings.sink.converters.value):
            if isinstance(converter.registry, RegistrySettings):
                yield converter.registry
        return
    made = settings.format
    formats = {made.key_format} | ({made.value_format} if made.glue is None else set())
    if made.registry is not None and formats & _BY_SCHEMAS:
        yield made.registry


def _finding(registry: RegistrySettings) -> Finding:
    # It brings the client of registries, which nearly all configurations do without.
    from headrace.formats.records.registry_connection import answers_once

    urls = ", ".join(registry.urls)
    try:
        is_known = answers_once(registry, seconds=_SECONDS)
    except HeadraceError as error:
        return unusable(
            _OPTION, f"{urls}: {error}", "Start it, or correct schema.registry.*; records wait for it."
        )
    if is_known:
        return ok(_OPTION, f"{urls} answers")
    return warn(
        _OPTION,
        f"{urls} answers, and does not know /schemas/types (404): the path of the address is not the "
        "registry's, or it is older than Confluent 5.5.",
        "Open that path in a browser; correct schema.registry.url where it is another program's.",
    )
