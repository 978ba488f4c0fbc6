"""The keys that other sinks gave their objects, by options of our own: names, groups and when objects close.

Each archive was written by a real sink from the records beside it. `OWN` is what `headrace translate` would
print of its configuration, as far as it is of keys.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.headrace.vendors.archive import archive
from tests.support.sink_archives import written

_NOVEMBER_MS: Final = 1_795_314_900_000
"""2026-11-22 02:35 UTC: when the archives were written."""

_PLAIN: Final = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "file.compression.type": "none",
    "file.name.values": "plain",
    "rotate.bytes": "0",
    "rotate.age.ms": "0",
    "open.object.max.age.ms": "0",
}
_OF_JSON: Final = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
# A change of schema closes what is open.
_OF_COLUMNS: Final = {
    **_OF_JSON,
    "output.format": "avro",
    "output.fields": "value",
    "output.envelope": "false",
}
_CONFLUENT: Final = {
    **_PLAIN,
    "aws.s3.prefix": "topics/",
    "rotate.together": "total",
    "rotate.records": "3",
    "rotate.schedule.ms": "12000",
    "rotate.on.stop": "false",
}
_TAIL: Final = "{{topic}}+{{partition}}+{{start_offset:padding=10}}"
_BY_PARTITION: Final = f"{{{{topic}}}}/partition={{{{partition}}}}/{_TAIL}"
_HOURLY: Final = f"{{{{topic}}}}/{{{{joda:'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH}}}}/{_TAIL}"
_AIVEN: Final = {**_PLAIN, "rotate.age.ms": "60000"}
_AIVEN_PREFIX: Final = "{{topic}}-{{partition}}-{{start_offset:padding=20}}"
_LENSES: Final = {
    **_PLAIN,
    "file.name.values": "lenses",
    "aws.s3.prefix": "streamReactorBackups/",
    "file.name.missing": "[missing]",
    "rotate.together": "first",
    "rotate.records": "3",
    "rotate.age.ms": "8000",
    "rotate.age.from": "closed",
}
_LENSES_TIMES: Final = "_{{first_timestamp}}_{{last_timestamp}}.json"
_LENSES_TAIL: Final = "{{topic}}({{partition}}_{{end_offset:padding=12}}).json"

OWN: Final[Mapping[str, Mapping[str, str]]] = {
    "confluent-json_default": {**_CONFLUENT, "file.name.template": f"{_BY_PARTITION}.json"},
    "confluent-delims_no_topics_dir": {
        **_CONFLUENT,
        "aws.s3.prefix": "",
        "file.name.template": "{{topic}}/partition={{partition}}/"
        "{{topic}}-{{partition}}-{{start_offset:padding=4}}.json",
    },
    "confluent-field_flat": {
        **_CONFLUENT,
        **_OF_JSON,
        "file.name.template": f"{{{{topic}}}}/region={{{{value:region}}}}/{_TAIL}.json",
    },
    "confluent-field_struct": {
        **_CONFLUENT,
        **_OF_COLUMNS,
        "file.name.template": "{{topic}}/region={{value:region}}/addr.city={{value:addr.city}}/"
        f"{_TAIL}.avro",
    },
    "confluent-hourly_wallclock": {
        **_CONFLUENT,
        "file.name.template": f"{_HOURLY}.json",
        "file.name.timestamp.source": "wallclock",
    },
    "confluent-time_record": {**_CONFLUENT, "file.name.template": f"{_HOURLY}.json"},
    "confluent-time_rotate_interval": {
        **_CONFLUENT,
        **_OF_COLUMNS,
        "file.name.template": f"{_HOURLY}.snappy.parquet",
        "rotate.records": "100",
        "rotate.schedule.ms": "0",
        "rotate.span.ms": "3600000",
        "rotate.on.group.change": "true",
    },
    "confluent-schema_affix": {
        **_CONFLUENT,
        **_OF_COLUMNS,
        "file.name.template": "{{topic}}/schema_name={{schema_name}}/partition={{partition}}/"
        f"{_TAIL}.avro",
    },
    "confluent-tags": {
        **_CONFLUENT,
        "behavior.on.null.values": "ignore",
        "file.name.template": f"{_BY_PARTITION}.bin",
    },
    "aiven-default": {**_AIVEN, "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}"},
    "aiven-published_config": {
        **_AIVEN,
        "aws.s3.prefix": "example-s3-sink/",
        "rotate.records": "4",
        "file.name.template": f"{_AIVEN_PREFIX}.gz",
    },
    "aiven-prefix_legacy_bytes_none": {
        **_AIVEN,
        "aws.s3.prefix": "legacy-",
        "file.name.template": _AIVEN_PREFIX,
    },
    "aiven-prefix_vars": {
        **_AIVEN,
        "aws.s3.prefix": "a/",
        "rotate.records": "4",
        "file.name.timestamp.source": "wallclock",
        "file.name.template": "{{topic}}/{{partition}}/{{start_offset}}/"
        f"{{{{timestamp:unit=yyyy}}}}-{{{{timestamp:unit=MM}}}}/{{{{utc_date}}}}/{_AIVEN_PREFIX}.gz",
    },
    "aiven-jsonl_all_bytes": {
        **_AIVEN,
        "rotate.records": "4",
        "file.name.template": "{{topic}}/{{partition}}/{{start_offset}}.jsonl.gz",
    },
    "aiven-template_event_out_of_order": {
        **_AIVEN,
        "rotate.together": "first",
        "file.name.template": "{{topic}}/dt={{timestamp:unit=yyyy}}-{{timestamp:unit=MM}}-"
        "{{timestamp:unit=dd}}/{{partition}}-{{batch_offset}}.jsonl",
    },
    "aiven-key_only": {**_AIVEN, "file.name.template": "state/{{key}}"},
    "aiven-key_topic_partition": {**_AIVEN, "file.name.template": "{{topic}}/{{partition}}/{{key}}.csv"},
    "lenses-json_default": {
        **_LENSES,
        "file.name.template": "{{topic}}/{{partition}}/{{end_offset:padding=12}}" + _LENSES_TIMES,
    },
    "lenses-padding_noop": {
        **_LENSES,
        "file.name.template": "{{topic}}/{{partition}}/{{end_offset}}" + _LENSES_TIMES,
    },
    "lenses-padding_right": {
        **_LENSES,
        "file.name.unique": "assumed",
        "file.name.template": "{{topic}}/{{partition:padding=5,side=right}}/"
        "{{end_offset:padding=12,side=right}}" + _LENSES_TIMES,
    },
    "lenses-include_keys_default": {
        **_LENSES,
        "file.name.template": "topic={{topic}}/partition={{partition}}/{{end_offset:padding=12}}"
        + _LENSES_TIMES,
    },
    "lenses-nopartition": {**_LENSES, "file.name.template": f"/{_LENSES_TAIL}"},
    "lenses-partitionby_value": {
        **_LENSES,
        **_OF_JSON,
        "file.name.template": f"region={{{{value:region}}}}/{_LENSES_TAIL}",
    },
    "lenses-partitionby_key_topic": {
        **_LENSES,
        "file.name.template": "topic={{topic}}/key={{key}}/partition={{partition}}/" + _LENSES_TAIL,
    },
    "quix-new_jsonl": {
        **_PLAIN,
        "aws.s3.prefix": "data/",
        "rotate.age.ms": "5000",
        "rotate.records": "5",
        "file.name.template": "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}.jsonl",
    },
}


def _topics(name: str) -> str:
    return ",".join(sorted({record.topic for record in archive(name).records}))


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("name", OWN)
def test_objects_have_the_keys_that_the_real_sink_gave_them(name: str, batch: int) -> None:
    """However the records are fetched."""
    config = {**OWN[name], "topics": _topics(name)}

    found = written(
        config, archive(name).records, now_ms=_NOVEMBER_MS, later_ms=60_000, batch=batch, stops=True
    )

    theirs = {key for key in archive(name).objects if not key.startswith(".indexes/")}
    if name.startswith("quix"):
        # Its sink counts the records of all partitions together, in whatever order they came.
        theirs = {key for key in theirs if "/0/" in key}
        assert theirs <= set(found.objects)
    else:
        assert set(found.objects) == theirs
    assert not found.stops
