"""confluent-kafka's consumer over the simulated broker: by assignment, or as a member that leads."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, TopicPartition

from tests.simulation.broker import Log, Member, is_visible, refusal
from tests.simulation.kernel import Process
from tests.simulation.network import CALL_SECONDS, Client, Network, Place, SimulatedMessage

_HEARD_SECONDS: Final = (0.001, 0.01, 0.1, 0.3)
_CUTS: Final = (1, 2, 3, 5, 10, 10_000)
_FETCH_WAIT_MS: Final = 500
"""As librdkafka has it."""
_EOF: Final = KafkaError._PARTITION_EOF  # how the library names its local codes


class SimulatedConsumer(Client):
    """`confluent_kafka.Consumer`: by assignment, or as a member of a group that only leads."""

    makes_topics = False

    def __init__(self, network: Network, properties: Mapping[str, Any]) -> None:
        super().__init__(network, properties)
        self._is_committed = properties.get("isolation.level", "read_committed") == "read_committed"
        self._tells_ends = bool(properties.get("enable.partition.eof"))
        self._group: str = properties.get("group.id", "")
        self._positions: dict[Place, int] = {}
        self._epochs: dict[Place, int] = {}
        """The leader epochs of what came before the positions."""
        self._passed: dict[Place, tuple[int, int]] = {}
        """Where the last record or marker ends that was given out, and its leader epoch."""
        self._lives: dict[Place, str] = {}
        self._ends_told: dict[Place, int] = {}
        self._stopped: set[Place] = set()
        self._denied: set[Place] = set()
        self._paused: set[Place] = set()
        self._watermarks: dict[Place, int] = {}
        self._member: Member | None = None
        self._instance: str | None = properties.get("group.instance.id")
        self._callbacks: dict[str, Callable[..., None]] = {}
        self._is_closed = False
        self._looked_at = -1
        """What has changed in the cluster when nothing was found."""
        # A fetch waits so long for something before it is answered with the end that it has found.
        self._fetch_seconds = 0.0
        if "fetch.queue.backoff.ms" in properties:
            self._fetch_seconds = int(properties.get("fetch.wait.max.ms", _FETCH_WAIT_MS)) / 1000
        self._ends_due: dict[Place, tuple[int, float]] = {}
        """By place, an end that was found, and when the fetch that found it is answered."""

    # -- by assignment ---------------------------------------------------------------------------------------

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """See Consumer."""
        self._kernel.require_alive()
        for known in (self._positions, self._lives, self._ends_told, self._ends_due, self._watermarks):
            known.clear()
        self._stopped.clear()
        self._paused.clear()
        self.incremental_assign(places)

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        """See Consumer."""
        self._looked_at = -1
        for place in places:
            where = (place.topic, place.partition)
            self._positions[where] = place.offset
            epoch: int | None = place.leader_epoch
            self._epochs[where] = -1 if epoch is None else epoch
            self._passed.pop(where, None)
            topic = self._broker.topics.get(place.topic)
            self._lives[where] = "" if topic is None else topic.id
            self._ends_told.pop(where, None)
            self._ends_due.pop(where, None)
            self._stopped.discard(where)

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        """See Consumer."""
        for place in places:
            self._positions.pop((place.topic, place.partition), None)

    def unassign(self) -> None:
        """See Consumer."""
        self.assign([])

    def pause(self, places: Sequence[TopicPartition]) -> None:
        """See Consumer."""
        self._paused.update((place.topic, place.partition) for place in places)

    def resume(self, places: Sequence[TopicPartition]) -> None:
        """See Consumer."""
        self._looked_at = -1
        self._paused.difference_update((place.topic, place.partition) for place in places)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[SimulatedMessage]:
        """See Consumer."""
        kernel = self._kernel
        kernel.require_alive()
        deadline = kernel.now + (3600.0 if timeout < 0 else timeout)
        while True:
            self._take_turns()
            found = [] if self._network.away_until > kernel.now else self._fetched(num_messages)
            left = deadline - kernel.now
            if found or left <= 0:
                if found:
                    kernel.sleep(CALL_SECONDS * kernel.rng.random())
                return found
            # One that is due, and was not told, is of a partition that is not read now.
            if dues := [due for _, due in self._ends_due.values() if due > kernel.now]:
                left = min(left, max(0.001, min(dues) - kernel.now))
            self._broker.changed.wait(left if self._member is None else min(left, 0.5))

    def poll(self, timeout: float = -1) -> Any:
        """See Consumer."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def _fetched(self, most: int) -> list[SimulatedMessage]:
        """What is there of some partitions: as much as the seed says, ends after it."""
        self._broker.expire()
        is_due = any(due <= self._kernel.now for _, due in self._ends_due.values())
        if self._looked_at == self._broker.changed.count and not is_due:
            # Nothing has changed since there was nothing.
            return []
        looked_at = self._broker.changed.count
        rng = self._kernel.rng
        places = [one for one in self._positions if one not in self._paused and one not in self._stopped]
        if len(places) > 1:
            rng.shuffle(places)
        found: list[SimulatedMessage] = []
        for place in places:
            if len(found) >= most or (found and rng.random() < 0.4):
                break
            self._fetch(place, min(most - len(found), _CUTS[int(rng.random() * 6)]), found)
        if not found:
            self._looked_at = looked_at
        return found

    def _fetch(self, place: Place, most: int, found: list[SimulatedMessage]) -> None:
        log = self._log(place, found)
        if log is None or self._is_elsewhere(place, log, found):
            return
        position, end = self._positions[place], log.stable_end() if self._is_committed else log.end
        self._watermarks[place] = log.end
        for record in log.from_offset(position):
            if record.offset >= end or most == 0:
                break
            position = record.offset + 1
            if record.is_marker or not self._is_committed or is_visible(record):
                self._passed[place] = position, record.leader_epoch
            if (not self._is_committed and not record.is_marker) or is_visible(record):
                found.append(SimulatedMessage(place, record))
                most -= 1
        if most:
            # Compaction may have taken the last ones.
            position = max(position, end)
        is_end = bool(most) and position >= end and self._tells_ends and self._ends_told.get(place) != end
        if is_end and self._is_answered(place, end):
            position = max(position, end)
            self._ends_told[place] = end
            found.append(SimulatedMessage(place, None, KafkaError(_EOF), end))
        if position > self._positions[place]:
            self._epochs[place] = log.epoch_before(position)
        self._positions[place] = position

    def _is_elsewhere(self, place: Place, log: Log, found: list[SimulatedMessage]) -> bool:
        """Whether the log has not the position, or not what came before it, as librdkafka says it."""
        if self._positions[place] == OFFSET_END:
            self._positions[place] = log.end
        if self._positions[place] == OFFSET_BEGINNING:
            self._positions[place] = log.begin
        position, epoch = self._positions[place], self._epochs[place]
        end = log.end_of(epoch) if epoch >= 0 else position
        if end >= position and log.begin <= position <= log.end:
            return False
        self._stopped.add(place)
        text = None
        if end < position:
            text = f"No epoch found less or equal to offset {position} (leader epoch {epoch})"
        if 0 <= end < position:
            text = f"Partition log truncation detected at offset {position}: broker end offset is {end}"
        error = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)  # the library's name
        found.append(SimulatedMessage(place, None, error, position))
        return True

    def _is_denied(self, place: Place, found: list[SimulatedMessage]) -> bool:
        """Whether the topic may not be read, which is told once; it is fetched again and again."""
        if place[0] not in self._broker.denied | self._broker.hidden:
            self._denied.discard(place)
            return False
        if place not in self._denied:
            self._denied.add(place)
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            found.append(SimulatedMessage(place, None, error, -1001))
        return True

    def _is_answered(self, place: Place, end: int) -> bool:
        """Whether the fetch that has found this end, and nothing else, is answered by now."""
        known = self._ends_due.get(place)
        if known is None or known[0] != end:
            known = self._ends_due[place] = end, self._kernel.now + self._fetch_seconds
        if self._kernel.now < known[1]:
            return False
        del self._ends_due[place]
        return True

    def _log(self, place: Place, found: list[SimulatedMessage]) -> Log | None:
        """What it reads; None, and an error found, for a topic that is not the one that it was assigned."""
        if self._is_denied(place, found) or place[0] in self._broker.leaderless:
            return None
        topic, life = self._broker.topics.get(place[0]), self._lives[place]
        if topic is None and life == "":
            # Not there yet, which librdkafka does not report.
            return None
        if topic is not None and life in ("", topic.id) and place[1] < len(topic.logs):
            self._lives[place] = topic.id
            return topic.logs[place[1]]
        self._stopped.add(place)
        found.append(SimulatedMessage(place, None, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), -1001))
        return None

    def committed(self, places: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """See Consumer."""
        self._network.call("committed", 10.0 if timeout < 0 else timeout)
        kept = self._broker.look(self._group).offsets
        found = []
        for place in places:
            offset, metadata = kept.get((place.topic, place.partition), (-1001, ""))
            found.append(TopicPartition(place.topic, place.partition, offset, metadata))
        return found

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """See Consumer: markers of transactions count, and aborted records do not."""
        nothing = (OFFSET_INVALID, -1)
        passed = [(one, self._passed.get((one.topic, one.partition), nothing)) for one in places]
        return [
            TopicPartition(one.topic, one.partition, offset, leader_epoch=epoch)
            for one, (offset, epoch) in passed
        ]

    def get_watermark_offsets(
        self,
        place: TopicPartition,
        timeout: float = -1,
        cached: bool = False,  # noqa: FBT002  # as the library's
    ) -> tuple[int, int]:
        """See Consumer."""
        where = (place.topic, place.partition)
        if cached:
            return (0, self._watermarks.get(where, -1001))
        self._network.call("watermarks", 10.0 if timeout < 0 else timeout)
        if place.topic in self._broker.leaderless:
            raise refusal(KafkaError.LEADER_NOT_AVAILABLE)
        log = self._broker.log(*where)
        return log.begin, log.end

    # -- as a member -----------------------------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        """See Consumer."""
        self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        self._topic = topics[0]

    def unsubscribe(self) -> None:
        """See Consumer: a static member leaves by it, which closing alone does not have it do."""
        member = self._member
        if member is not None and not member.is_gone:
            self._network.call("leave", 5.0)
            self._broker.leave(self._group, member)
        self._member, self._callbacks = None, {}

    def consumer_group_metadata(self) -> bytes:
        """See Consumer."""
        member = "" if self._member is None else self._member.id
        generation = -1 if self._member is None else self._member.generation_told
        return (
            b"CGMDv2:"
            + struct.pack("<i", generation)
            + self._group.encode()
            + b"\0"
            + member.encode()
            + b"\0"
            + (b"\1" if self._instance is None else b"\0" + self._instance.encode() + b"\0")
        )

    def _take_turns(self) -> None:
        """What the group has to say to its member."""
        if not self._callbacks or self._is_closed:
            return
        process = self._kernel.here()
        assert process is not None
        if self._network.away_until > self._kernel.now:
            self._note_silence(process)
            return
        if self._topic not in self._broker.topics:
            return
        if self._member is None:
            session = int(self._properties.get("session.timeout.ms", 10_000)) / 1000
            self._member = self._broker.join(self._group, self._topic, process, session, self._instance)
        group, member = self._broker.look(self._group), self._member
        if member.is_gone or member.generation_told != group.generation:
            # It hears of it by the answer to a heartbeat, of which there is one in three seconds.
            self._kernel.sleep(self._kernel.rng.choice(_HEARD_SECONDS))
            group = self._broker.look(self._group)
        place = TopicPartition(self._topic, 0)
        if member.is_replaced:
            self._member, self._callbacks = None, {}
            fenced = KafkaError(KafkaError._FATAL, "replaced", fatal=True)  # the library's name
            self._properties["error_cb"](fenced)
            return
        if member.is_gone:
            self._member = None
            if member.holds_told:
                self._callbacks["lost"](self, [place])
            return
        if member.generation_told == group.generation:
            return
        holders = (one for one in group.members if one.holds_told or one.inherits)
        holder = next(holders, group.members[0])
        member.generation_told = group.generation
        is_news = holder is member and not member.holds_told
        member.holds_told = member.holds_told or is_news
        self._callbacks["assign"](self, [place] if is_news else [])

    def _note_silence(self, process: Process) -> None:
        """A member that hears nothing for its session knows by itself that it is none any more."""
        member, cut = self._member, process.cut
        if member is None or cut.cut_until <= self._kernel.now:
            return
        if self._kernel.now - cut.cut_from > member.session_seconds:
            self._broker.look(self._group)
            self._member = None
            if member.holds_told:
                self._callbacks["lost"](self, [TopicPartition(self._topic, 0)])

    def close(self) -> None:
        """See Consumer."""
        if self._is_closed:
            return
        self._is_closed = True
        process = self._kernel.here()
        if self._instance is not None:
            if self._member is not None:
                self._member.silent_since = self._kernel.now
            return
        if self._member is not None and process is not None and not process.is_dead:
            self._broker.leave(self._group, self._member)
