"""Names of keys alone next to side objects: refused where one key's may have the name of another key's."""

from collections.abc import Mapping
from itertools import product
from typing import Final

import pytest

from headrace.options.given import SettingsError
from spark.sink.grouping import Grouping
from spark.sink.object_keys import ObjectFacts
from spark.sink.object_shape import ObjectShapes
from tests.spark.sink.grouped import records_of, sink_of

_PIECES: Final = ("", ".headers", ".keys", ".avro", ".jsonl", ".gz", ".json", ".bin", "s", ".v", "0", "/")
_KEYS: Final = sorted({"u" + "".join(each) for each in product(_PIECES, repeat=3)} - {"u/"})
_ALIKE: Final = {"sidecars_keys_format": "jsonl", "sidecars_headers_format": "jsonl"}
_BOTH: Final = {"sidecars": "keys,headers"}

_NAMES: Final = "{{topic}}/{{key}}{{extension}}"
_OF_BYTES: Final = {
    "sidecars": "headers",
    "sidecars_headers_format": "jsonl",
    "output_format": "bytes",
    "output_fields": "value",
    "output_envelope": "false",
    "file_compression_type": "none",
}
_KEYS_BYTES: Final = {"sidecars_keys_format": "bytes", "sidecars_keys_compression_type": "none"}
_PACKED: Final = {
    "sidecars_keys_compression_type": "gzip",
    "sidecars_headers_compression_type": "gzip",
}


@pytest.mark.parametrize(
    ("template", "options", "can_meet"),
    [
        (_NAMES, {**_BOTH, **_ALIKE}, True),
        ("{{topic}}/{{key}}{{extension}}", {**_BOTH, "sidecars_headers_format": "jsonl"}, True),
        ("{{topic}}/{{key}}{{extension}}", {**_BOTH, "output_format": "json", **_ALIKE}, False),
        ("{{topic}}/{{key}}{{extension}}", {**_BOTH, "output_format": "avro"}, True),
        ("{{topic}}/{{key}}{{extension}}", _BOTH, False),
        ("{{topic}}/{{key}}{{extension}}", {**_BOTH, "output_layout": "confluent"}, False),
        (_NAMES, {**_OF_BYTES, "output_bytes_extension": ".jsonl"}, True),
        (_NAMES, {**_OF_BYTES, "output_bytes_extension": ".headers.jsonl"}, True),
        (_NAMES, {**_OF_BYTES, "output_bytes_extension": ""}, True),
        (_NAMES, {**_OF_BYTES, "output_bytes_extension": ".v"}, False),
        (
            _NAMES,
            {"sidecars": "keys,headers", **_KEYS_BYTES, "output_bytes_extension": ".headers.avro"},
            True,
        ),
        (_NAMES, {"sidecars": "keys", "file_compression_type": "none", **_ALIKE}, True),
        (_NAMES, {**_BOTH, **_ALIKE, "file_compression_type": "none", **_PACKED}, False),
        ("{{topic}}/{{key}}.v", {**_BOTH, **_ALIKE}, False),
        ("{{topic}}/{{key}}.jsonl.gz", _BOTH, False),
        ("{{topic}}/{{key}}.jsonl.gz", {**_BOTH, **_ALIKE}, True),
        ("{{topic}}/{{key}}.gz", _BOTH, True),
        ("{{topic}}/{{key}}.avro", _BOTH, True),
        ("{{topic}}/{{key}}s.v", _BOTH, False),
        ("{{topic}}/{{key}}", _BOTH, True),
        ("{{topic}}/{{key}}.v{{extension}}", {**_BOTH, **_ALIKE}, False),
        ("{{topic}}/{{key}}s{{extension}}", {**_BOTH, **_ALIKE}, True),
        ("{{topic}}/{{key}}.headers{{extension}}", {"sidecars": "headers", **_ALIKE}, True),
        ("{{topic}}/{{key}}/v{{extension}}", {**_BOTH, **_ALIKE}, False),
        ("{{topic}}/{{key}}/v", _BOTH, False),
        ("{{topic}}/{{key}}/{{partition}}{{extension}}", {**_BOTH, **_ALIKE}, False),
        ("{{topic}}/{{key}}/{{partition}}", {**_BOTH, **_ALIKE}, False),
    ],
)
@pytest.mark.parametrize("values", ["escaped", "plain"])
def test_objects_of_keys_do_not_take_one_anothers_places(
    template: str, options: Mapping[str, str], values: str, *, can_meet: bool
) -> None:
    """What is taken has a name for each object of each key."""
    given = {
        "file_name_template": template,
        "file_name_values": values,
        **options,
    }
    if can_meet:
        with pytest.raises(SettingsError, match="cannot be with such names of keys alone"):
            sink_of(**given)
        return
    shapes = ObjectShapes(sink_of(**given))
    names, shape = shapes.values.names, shapes.values
    found = Grouping(names).split(records_of([b"1"] * len(_KEYS), keys=[key.encode() for key in _KEYS]))
    keys = [
        shape.key(
            role,
            names.key(ObjectFacts(topic="t", partition=0, group=part.group, first_offset=0, opened_ms=0)),
        )
        for part in found.parts
        for role in shape.roles
    ]

    assert len(keys) == len(set(keys)) > len(_KEYS)
