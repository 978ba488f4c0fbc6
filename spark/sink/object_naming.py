"""What the objects of a partition are like and are called, by their group and their routed topic.

The ledger, offsets and dead letters know the partition by the topic that it is of; names and rows have the
topic that the record goes to.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from headrace.model.sink_protocol import PartitionGrant
from headrace.s3.completion import Beginning
from spark.sink.object_keys import ObjectFacts, ObjectNames
from spark.sink.object_shape import ObjectShape
from spark.sink.open_group import OpenGroup
from spark.sink.routed_tools import SlotTools

# In no topic, and in no group: names show no control character of a value.
_BETWEEN: Final = "\x1e"


class RoutedGroup(NamedTuple):
    """The topic in the names of a group's objects, and the group by what those names show of the data."""

    topic: str
    group: str


def routed_group(topic: str, group: str, own_topic: str) -> str:
    """The group, within a partition of `own_topic`, of records that go to `topic`."""
    return group if topic == own_topic else f"{topic}{_BETWEEN}{group}"


def read_group(group: str, own_topic: str) -> RoutedGroup:
    """What `routed_group` put together."""
    topic, between, rest = group.partition(_BETWEEN)
    return RoutedGroup(topic, rest) if between else RoutedGroup(own_topic, group)


class ObjectNaming:
    """Of one partition's objects; keeps nothing."""

    def __init__(self, grant: PartitionGrant, tools: SlotTools) -> None:
        self._grant = grant
        self._tools = tools

    def shape(self, group: str) -> ObjectShape:
        """The shape of a group's objects."""
        return self._tools.shapes.of(read_group(group, self._grant.topic).group)

    def is_at_the_end(self, group: str) -> bool:
        """Names, tags, or an earlier object of the name: the upload begins when a group's object closes."""
        names = self.shape(group).names
        return names.overwrites or not names.is_known_at_start or self._tools.settings.sink.upload.offset_tags

    def first_name(
        self, group: str, *, first_offset: int, batch_offset: int, opened_ms: int, first_time_ms: int
    ) -> str:
        """The name of an object that begins with this record."""
        names, facts = self._begun(group, first_offset, opened_ms)
        return names.key(replace(facts, batch_offset=batch_offset, first_time_ms=first_time_ms))

    def beginning(self, group: str, first_offset: int) -> Beginning | None:
        """What an object that begins with this record says of it, where its name says only how it ends."""
        grant, tools = self._grant, self._tools
        if not tools.uploads.is_direct or not self.shape(group).names.shows_only_ends:
            return None
        return Beginning(grant.topic_id, grant.partition, tools.settings.options, first_offset)

    def last_name(self, ended: OpenGroup) -> str:
        """The name of an object that takes no more records."""
        names, facts = self._begun(ended.group, ended.first_offset, ended.opened_ms)
        return names.key(
            replace(
                facts,
                batch_offset=ended.batch_offset,
                first_time_ms=ended.first_timestamp_ms,
                last_offset=ended.last_offset,
                least_timestamp_ms=ended.least_timestamp_ms,
                greatest_timestamp_ms=ended.greatest_timestamp_ms,
            )
        )

    def _begun(self, group: str, first_offset: int, opened_ms: int) -> tuple[ObjectNames, ObjectFacts]:
        grant, routed = self._grant, read_group(group, self._grant.topic)
        names, called = self._tools.shapes.names(routed.group)
        return names, ObjectFacts(
            topic=routed.topic,
            partition=grant.partition,
            group=called,
            first_offset=first_offset,
            opened_ms=opened_ms,
            topic_id=grant.topic_id if grant.is_made_again else None,
        )
