"""What a task of the sink needs of the settings: small, picklable, secrets wrapped."""

import hashlib
from dataclasses import dataclass

import msgspec

from ingest.model.sink_entries import GroupingOptions
from ingest.settings.settings import ErrorSettings, KafkaSettings, S3Settings, Settings
from ingest.settings.sink_settings import SinkSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTaskSettings:
    """`options` is the hash of what decides which group a record belongs to."""

    name: str
    kafka: KafkaSettings
    s3: S3Settings
    errors: ErrorSettings
    sink: SinkSettings
    options: str
    log_level: str = "info"


def sink_task_settings(
    settings: Settings, sink: SinkSettings, *, log_level: str = "info"
) -> SinkTaskSettings:
    """The part of a sink's settings that goes to its tasks."""
    return SinkTaskSettings(
        name=settings.name,
        kafka=settings.kafka,
        s3=settings.s3,
        errors=settings.errors,
        sink=sink,
        options=grouping_hash(sink),
        log_level=log_level,
    )


def grouping_options(sink: SinkSettings) -> dict[str, str]:
    """What decides into which group a record comes, without secrets, as an operator would name it."""
    converters = sink.converters
    return {
        "file.name.template": sink.names.template,
        "file.name.timestamp.source": f"{sink.names.time_source}:{'.'.join(sink.names.value_path)}",
        "file.name.timestamp.timezone": sink.names.timezone,
        "key.converter": f"{converters.key.kind}:{converters.key.schemas_enable}",
        "value.converter": f"{converters.value.kind}:{converters.value.schemas_enable}",
        "header.converter": f"{converters.header.kind}",
    }


def can_group_by(earlier: GroupingOptions, sink: SinkSettings) -> bool:
    """Whether records can be grouped now as they were by earlier options: what reads them is the same."""
    now = grouping_options(sink)
    readers = [name for name in now if name.endswith(".converter")]
    return all(earlier.options.get(name) == now[name] for name in readers)


def grouping_hash(sink: SinkSettings) -> str:
    """16 hex digits that change when a record would come into another group."""
    meaning = msgspec.json.encode(grouping_options(sink), order="sorted")
    return hashlib.sha256(meaning).hexdigest()[:16]
