"""Which messages wait for which objects: any number of either for the other, and a message settles once."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from headrace.model.objects import ObjectId
from ingest.source.catalogue.effects import EffectsBuilder

# What a delivery waits for: an object's end, or the answer to a HEAD (its token).
Owed = ObjectId | str


# Below the 120,000 messages that SQS lets be in flight, with room for sqs.max.held beside them.
MAX_PARKED: Final = 100_000


class MessageTracker:
    """Deliveries that are held, each with what it still waits for."""

    def __init__(self) -> None:
        self._owed: dict[str, set[Owed]] = {}
        self._waiting: dict[Owed, list[str]] = {}
        self._left: set[str] = set()
        self._parked: set[str] = set()

    def __len__(self) -> int:
        return len(self._owed)

    def hold(self, message_id: str, owed: set[Owed], effects: EffectsBuilder) -> None:
        """Settle a delivery when all of `owed` have come to their end; at once when there is nothing.

        A message that is delivered again while it is held keeps its place.
        """
        # Announced again after it was released, it counts again where messages are held.
        self._parked.discard(message_id)
        held = self._owed.setdefault(message_id, set())
        for item in owed - held:
            self._waiting.setdefault(item, []).append(message_id)
        held |= owed
        self._settle_if_free(message_id, effects)

    def counted(self) -> Iterator[tuple[str, AbstractSet[Owed]]]:
        """The messages that are not parked, oldest first, with what each still waits for."""
        return ((key, owed) for key, owed in self._owed.items() if key not in self._parked)

    def park(self, message_id: str) -> bool:
        """Keep it next to the bound of those that are held, until it settles; False when too many are."""
        if len(self._parked) >= MAX_PARKED:
            return False
        self._parked.add(message_id)
        return True

    def abandon(self, message_id: str) -> None:
        """The message stays on the queue, whatever becomes of its objects."""
        self._left.add(message_id)

    def abandon_all(self, item: Owed) -> None:
        """The same for every delivery that waits for `item`."""
        self._left.update(self._waiting.get(item, ()))

    def finish(self, item: Owed, effects: EffectsBuilder) -> None:
        """An object has come to its end, or a HEAD needs no object."""
        for message_id in self._waiting.pop(item, ()):
            self._owed[message_id].discard(item)
            self._settle_if_free(message_id, effects)

    def replace(self, item: Owed, successor: Owed, effects: EffectsBuilder) -> None:
        """A HEAD has answered: its deliveries wait for the object now."""
        for message_id in self._waiting.pop(item, ()):
            self._owed[message_id].discard(item)
            self.hold(message_id, {successor}, effects)

    def forget(self, message_id: str) -> None:
        """The listener does not hold this message any more."""
        self._left.discard(message_id)
        self._parked.discard(message_id)
        for item in self._owed.pop(message_id, ()):
            rest = [other for other in self._waiting[item] if other != message_id]
            if rest:
                self._waiting[item] = rest
            else:
                del self._waiting[item]

    def _settle_if_free(self, message_id: str, effects: EffectsBuilder) -> None:
        if self._owed[message_id]:
            return
        del self._owed[message_id]
        self._parked.discard(message_id)
        if message_id in self._left:
            self._left.discard(message_id)
            effects.abandoned.append(message_id)
        else:
            effects.settled.append(message_id)
