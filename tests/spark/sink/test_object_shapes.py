"""What objects consist of: keys of side objects, the order of completion, tombstones apart."""

from spark.sink.object_keys import ObjectFacts
from spark.sink.object_shape import ObjectShapes
from tests.spark.sink.grouped import records_of, sink_of

_CONFLUENT = {
    "file_name_template": "topics/{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+"
    "{{start_offset}}{{extension}}",
    "output_envelope": "false",
    "output_fields": "value",
    "sidecars": "keys,headers",
}


def _keys(shapes: ObjectShapes, group: str) -> list[str]:
    names, called = shapes.names(group)
    facts = ObjectFacts(topic="t", partition=3, group=called, first_offset=7, opened_ms=0)
    shape = shapes.of(group)
    return [shape.key(role, names.key(facts)) for role in shape.roles]


def test_side_objects_have_their_own_extension_and_come_first() -> None:
    """`.keys` and `.headers` before it; the values are completed last."""
    sink = sink_of(**_CONFLUENT, sidecars_keys_format="jsonl", sidecars_headers_format="parquet")
    assert _keys(ObjectShapes(sink), "") == [
        "topics/t/partition=3/t+3+7.headers.parquet",
        "topics/t/partition=3/t+3+7.keys.jsonl.gz",
        "topics/t/partition=3/t+3+7.jsonl.gz",
    ]


def test_a_template_without_extension_gets_the_word_behind() -> None:
    """And the side object its extension."""
    sink = sink_of(
        file_name_template="{{topic}}/{{partition}}/{{start_offset}}", output_fields="value", sidecars="keys"
    )
    assert _keys(ObjectShapes(sink), "") == ["t/3/7.keys.avro", "t/3/7"]


def test_tombstones_are_a_group_of_their_own_and_nothing_but_keys() -> None:
    """In their directory; the keys are completed last."""
    sink = sink_of(**_CONFLUENT, sidecars_tombstones_directory="tombstone")
    shapes = ObjectShapes(sink)
    records = records_of([b"1", None, b"2", None], keys=[b"a"] * 4, headers=[(("h", b"1"),)] * 4, options={})
    parts = {one.group: one.rows for one in shapes.split(records).parts}
    (apart,) = [group for group in parts if group]
    assert {group: rows.tolist() for group, rows in parts.items() if rows is not None} == {
        "": [0, 2],
        apart: [1, 3],
    }
    assert _keys(shapes, apart) == [
        "topics/t/tombstone/t+3+7.headers.avro",
        "topics/t/tombstone/t+3+7.keys.avro",
    ]
    assert _keys(shapes, "")[-1] == "topics/t/partition=3/t+3+7.jsonl.gz"


def test_a_name_has_room_for_the_longest_side_object() -> None:
    """A record whose side object's key would be too long is a bad one."""
    for sidecars, fits in (("none", True), ("headers", False)):
        sink = sink_of(
            file_name_template="{{topic}}/{{partition}}/{{start_offset}}{{extension}}",
            aws_s3_prefix="p" * (1024 - len("t/3/9223372036854775807.jsonl.gztopic_id=/") - 22),
            output_fields="value",
            sidecars=sidecars,
        )
        assert bool(ObjectShapes(sink).split(records_of([b"1"])).parts) is fits
