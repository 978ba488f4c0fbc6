"""What the objects of a sink consist of: an upload of the values, perhaps of keys and headers next to it.

An object begins with what is known of its partition's values by then.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.conversion.encoders import extension, new_encoder
from headrace.conversion.side_rows import new_side_encoder, side_output
from headrace.formats.converted_records import ConvertedRecords, InferredValues
from headrace.formats.converters.inferred_column import schema_of_kind
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.encoding import RowSchema, schema_of, schema_without_values
from headrace.formats.encoding.encoder import LearningEncoder, ObjectEncoder
from headrace.options.sink_settings import NameSettings, OutputSettings, SideRole, SinkSettings
from spark.sink.grouping import Grouping, GroupRows, Groups
from spark.sink.object_keys import ObjectNames

# No group of values begins so: texts in names are never empty.
_TOMBSTONES: Final = "|tombstones|"
MAIN: Final = ""
"""The role of the upload of the values."""


class ObjectShape:
    """The uploads of one object, the main one last: `roles` has their names, side objects' first."""

    def __init__(self, sink: SinkSettings, names: ObjectNames, *, has_values: bool) -> None:
        self.names = names
        self._output = sink.output
        self._header = sink.converters.header.kind
        self._has_values = has_values
        self._sides = {role: side_output(sink.output, role) for role in sink.output.sidecars.formats}
        sides = sorted(self._sides)
        # A tombstone is its key: that object is completed last.
        self.roles: tuple[str, ...] = (*sides, MAIN) if has_values else (*sides,)

    def schema_of(self, records: ConvertedRecords) -> RowSchema:
        """The schema of an object that begins with these records."""
        make = schema_of if self._has_values else schema_without_values
        return make(self._output, records)

    def encoder(self, role: str, schema: RowSchema) -> ObjectEncoder:
        """The encoder of the upload of this role."""
        if role == MAIN:
            return _main_encoder(self._output, schema)
        side = SideRole(role)
        return new_side_encoder(self._sides[side], side, schema, header=self._header)

    def key(self, role: str, name: str) -> str:
        """The key of the upload of this role, of an object with this name."""
        if role == MAIN:
            return name
        return (
            f"{name.removesuffix(extension(self._output))}{_side_ending(self._sides[SideRole(role)], role)}"
        )


def _main_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    value = schema.value
    if value is None or value.schema is None or not value.schema.is_inferred:
        return new_encoder(output, schema)

    def make(kind: Any) -> ObjectEncoder:
        return new_encoder(output, replace(schema, value=replace(value, schema=schema_of_kind(kind))))

    return LearningEncoder(make, value.schema.kind)


class ObjectShapes:
    """The shapes of all objects of a sink, and the groups that its records are in."""

    def __init__(self, sink: SinkSettings, *, checks_names: bool = True) -> None:
        """`checks_names` as of `Grouping`."""
        self.values = ObjectShape(sink, _names(sink, sink.names), has_values=True)
        self._values = Grouping(self.values.names, checks_names=checks_names)
        self._tombstones: ObjectShape | None = None
        template = sink.output.sidecars.tombstone_template
        if template is not None:
            apart = _names(sink, replace(sink.names, template=template))
            self._tombstones = ObjectShape(sink, apart, has_values=False)
            self._without_values = Grouping(apart, checks_names=checks_names)

    @property
    def are_of_batches(self) -> bool:
        """Whether the names of any objects show the first offset of all that are open together."""
        apart = self._tombstones
        return self.values.names.is_of_batches or (apart is not None and apart.names.is_of_batches)

    def of(self, group: str) -> ObjectShape:
        """The shape of the objects of a group."""
        if self._tombstones is not None and group.startswith(_TOMBSTONES):
            return self._tombstones
        return self.values

    def names(self, group: str) -> tuple[ObjectNames, str]:
        """The names of a group's objects, and what the group is called there."""
        return self.of(group).names, group.removeprefix(_TOMBSTONES)

    def split(self, records: ConvertedRecords, *, keeps_all: bool = False) -> Groups:
        """The groups of these records, as `Grouping.split`; tombstones are apart, if so told."""
        nulls = records.value.nulls() if self._tombstones is not None else None
        if nulls is None or not nulls.any():
            return self._values.split(records, keeps_all=keeps_all)
        filled, empty = np.flatnonzero(~nulls), np.flatnonzero(nulls)
        apart = self._without_values.split(records.take(empty), keeps_all=keeps_all)
        beside = Groups(parts=())
        if len(filled):
            beside = self._values.split(records.take(filled), keeps_all=keeps_all)
        parts = [
            *(GroupRows(one.group, filled if one.rows is None else filled[one.rows]) for one in beside.parts),
            *(
                GroupRows(_TOMBSTONES + one.group, empty if one.rows is None else empty[one.rows])
                for one in apart.parts
            ),
        ]
        return Groups(
            parts=tuple(sorted(parts, key=_first_row)),
            faults=tuple(sorted((*beside.faults, *apart.faults), key=lambda fault: fault.offset)),
        )


class KnownValues:
    """What was found in the values of one partition so far, by topic; objects begin with it."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}
        self._nulls: dict[str, TypedColumn] = {}

    def learned(self, run: ConvertedRecords) -> ConvertedRecords:
        """The run, with what is known of the values of this partition so far: objects begin with it.

        Runs come here in the order of their offsets.
        """
        values = run.value
        if not isinstance(values, InferredValues):
            return run
        topic = run.records.topic
        values, self._kinds[topic] = values.learned(self._kinds.get(topic, pa.null()))
        return replace(run, value=values)

    def nulls_alike(self, converted: ConvertedRecords) -> ConvertedRecords:
        """The records; nulls, which names of schemas put into a group of their own, all of one schema.

        Each came with that of a value next to it, which would close their object or, by
        `schema.compatibility`, not be taken.
        """
        value, topic = converted.value, converted.records.topic
        connect = value.schema.connect if isinstance(value, TypedColumn) else None
        if connect is None or connect.name is None or not value.nulls().all():
            return converted
        assert isinstance(value, TypedColumn), "others have no schema of Connect's"
        first = self._nulls.get(topic)
        if first is None:
            first = self._nulls[topic] = value.take(slice(0, 1)).owned()
            first.schema = replace(first.schema, version=None)
        return replace(converted, value=first.take(np.zeros(len(converted), np.int64)))

    def forget(self) -> None:
        """Records are read again, and with them what their values are."""
        self._kinds.clear()


def _names(sink: SinkSettings, names: NameSettings) -> ObjectNames:
    own = extension(sink.output)
    longest = max(
        (len(_side_ending(side_output(sink.output, role), role)) for role in sink.output.sidecars.formats),
        default=0,
    )
    return ObjectNames(names, own, spare_bytes=max(0, longest - len(own)))


def _side_ending(output: OutputSettings, role: str) -> str:
    return f".{role}{extension(output)}"


def _first_row(part: GroupRows) -> int:
    assert part.rows is not None, "rows are those of all records"
    return int(part.rows[0])
