"""Groups of a partition whose records transforms sent to several topics: each topic has groups of its own.

The ledger, offsets and dead letters know the partition by the topic that it is of; names and rows have the
topic that the record goes to.
"""

from typing import Final, NamedTuple

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
