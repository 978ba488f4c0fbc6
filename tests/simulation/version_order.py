"""Versions of a key whose events lack an ETag: HEADs are answered in any order, or by 503 first."""

import asyncio
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations, count, permutations
from typing import Any, Final
from urllib.parse import unquote_plus

from botocore.exceptions import ClientError

from headrace.model.objects import ObjectId
from tests.simulation.environment import Environment
from tests.simulation.s3 import refused

VERSIONS: Final = "versions"
_LATE: Final = (0.0, 0.2, 1.5, 6.0, 6.0, 20.0)
"""Seconds until a HEAD reaches S3."""
_REFUSED_SHARE: Final = 0.2
_STUCK_SHARE: Final = 0.4
_WAITS_SECONDS: Final = 600.0
"""So long what a listing shows waits for a HEAD."""
_TURN_SECONDS: Final = 1.0

_Place = tuple[str, str]
_Reign = asyncio.AbstractEventLoop
"""Listeners have a loop of their own, as long as a process leads."""


class VersionOrder:
    """Which versions of a key have to be read in their order, as HEADs of one leader were asked and answered.

    An earlier one goes first where its HEAD was asked before its leader, and nobody else, knew of the later.
    """

    def __init__(
        self, made: Environment, seed: int, *, is_ordered: bool = False, has_places: bool = False
    ) -> None:
        """`is_ordered`: objects of a topic-partition wait for one another; `has_places`: by their offsets."""
        self._made = made
        self._is_ordered = is_ordered
        self._has_places = has_places
        self._rng = random.Random(f"heads-{seed}")
        self._bare_share = 0.0
        self._sequencers = count(0x1000)
        self._numbers: dict[ObjectId, int] = {}
        self._versions: defaultdict[_Place, list[int]] = defaultdict(list)
        """By bucket and key, numbers in the order in which they came."""
        self._asked: dict[tuple[int, _Reign], float] = {}
        """When the first HEAD about a version was asked."""
        self._confirmed: dict[tuple[int, _Reign], float] = {}
        """When a HEAD was answered."""
        self._refused: set[int] = set()
        self._known: dict[tuple[int, _Reign], float] = {}
        """When a leader came to know a version, by a HEAD, an event or a listing."""
        self._read: dict[int, float] = {}
        """When a version was first asked for."""
        self._shown: dict[tuple[int, _Reign], float] = {}
        """When a listing first showed a version to a leader."""
        self._stuck_until = 0.0
        self._stuck: dict[int, bool] = {}
        """Which HEADs stay open until then."""
        self.unread: list[str] = []
        """What was shown, and has waited for longer than it may."""

    def begin(self, bare: float) -> None:
        """From now on buckets keep versions, and such a share of events lacks ETag and size."""
        self._bare_share = bare
        bucket, queue = self._made.bucket, self._made.queue
        bucket.versioned.update(bucket.objects)
        bucket.on_asked, bucket.on_answered, bucket.on_call = self._ask, self._answered, self._called
        queue.on_received = self._received

    def stick(self, bare: float, seconds: float) -> None:
        """Likewise; and for so long the first HEADs about keys are open, and some of those after them."""
        self.begin(bare)
        self._stuck_until = self._now + seconds

    def end(self) -> None:
        """S3 answers all HEADs."""
        self._stuck_until = 0.0

    def look(self) -> None:
        """The newest version of each key, which listings show, is read by now."""
        is_open = [number for number, is_stuck in self._stuck.items() if is_stuck]
        for (bucket, key), numbers in self._versions.items():
            is_shown = any(number == numbers[-1] for number, _ in self._shown)
            is_waiting = is_shown and numbers[-1] not in self._read
            if is_waiting and set(is_open) & set(numbers):
                at = self._now - min(at for (number, _), at in self._asked.items() if number in numbers)
                self.unread.append(
                    f"s3://{bucket}/{key} is not read {at:.0f} s after the first HEAD about it"
                )

    def put(self, number: int, object_id: ObjectId) -> dict[str, Any]:
        """A version is about to come; what its event has besides."""
        self._numbers[object_id] = number
        self._versions[object_id.place].append(number)
        if not self._bare_share:
            return {}
        is_bare = self._rng.random() < self._bare_share
        return {"sequencer": f"{next(self._sequencers):016X}", "is_bare": is_bare}

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Earlier and later versions of one key of which no row of the later may be before the earlier's."""
        leaders = {reign for _, reign in self._asked}
        # Versions with an offset do not wait: others wait for them.
        for versions in () if self._has_places else self._versions.values():
            for first, second in combinations(versions, 2):
                if any(self._is_first(first, second, reign) for reign in leaders):
                    yield first, second

    def _is_first(self, first: int, second: int, reign: _Reign) -> bool:
        asked = self._asked.get((first, reign))
        read = self._read.get(second)
        if asked is None or read is None or first in self._refused:
            return False
        known = {other: at for (number, other), at in self._known.items() if number == second and at <= read}
        is_alone = known.keys() == {reign} and known[reign] > asked
        confirmed = self._confirmed.get((first, reign))
        # What was shown or answered after the second was read says nothing of whether it was to wait.
        is_shown = self._shown.get((second, reign), math.inf) <= read
        is_late = read - asked >= _WAITS_SECONDS
        # With `ordering=partition` others of its topic-partition would pass it.
        is_free = is_shown and (is_late or self._is_ordered)
        return is_alone and confirmed is not None and not is_free

    def passed(self) -> Iterator[tuple[int, int]]:
        """Numbers of objects: the first has the lower place, was known, and was read after the second."""
        if not (self._is_ordered and self._has_places and self._known):
            return
        begins: dict[_Reign, float] = {}
        for (_, reign), at in self._known.items():
            begins[reign] = min(at, begins.get(reign, at))
        # Of what the first leader knew: the next one reads again what that may have begun.
        leader, end = min(begins, key=begins.__getitem__), (*sorted(begins.values())[1:2], self._now)[0]
        known = {number: at for (number, reign), at in self._known.items() if reign is leader}
        places = {number: found.place for found, number in self._numbers.items()}
        for first, second in permutations(self._read.keys() & places.keys(), 2):
            is_lower = places[first] < places[second]
            is_lower = is_lower and _partition(places[first]) == _partition(places[second])
            is_known = known.get(first, end) + _TURN_SECONDS < self._read[second] < end
            if is_lower and is_known and self._read[second] < self._read[first]:
                yield first, second

    # -- what S3 is asked and answers ------------------------------------------------------------------------

    def _ask(self, operation: str, given: Mapping[str, Any]) -> float:
        """So many seconds it takes until this call of a listener reaches S3; or it is refused for now."""
        number = self._asked_about(given) if operation == "head_object" else None
        if number is None:
            return 0.0
        self._asked.setdefault((number, asyncio.get_running_loop()), self._now)
        if self._is_stuck(number):
            raise refused("HeadObject", "SlowDown", 503)
        if self._rng.random() < _REFUSED_SHARE:
            raise refused("HeadObject", "SlowDown", 503)
        return self._rng.choice(_LATE)

    def _answered(self, operation: str, given: Mapping[str, Any], answer: Any) -> None:
        reign = asyncio.get_running_loop()
        if operation == "list_objects_v2" and not isinstance(answer, ClientError):
            # What lacks its ETag is asked about by a HEAD.
            for one in (one for one in answer["Contents"] if "ETag" in one):
                found = ObjectId(given["Bucket"], one["Key"], one["ETag"].strip('"'))
                self._knows(found, reign)
                if found in self._numbers:
                    self._shown.setdefault((self._numbers[found], reign), self._now)
        elif operation == "head_object" and (number := self._asked_about(given)) is not None:
            if not isinstance(answer, ClientError):
                self._known.setdefault((number, reign), self._now)
                self._confirmed.setdefault((number, reign), self._now)
            elif answer.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                self._refused.add(number)

    def _received(self, body: str) -> None:
        """A message that names an ETag is believed."""
        for record in json.loads(body).get("Records", ()):
            bucket, about = record["s3"]["bucket"]["name"], record["s3"]["object"]
            if "eTag" in about:
                self._knows(
                    ObjectId(bucket, unquote_plus(about["key"]), about["eTag"]), asyncio.get_running_loop()
                )

    def _called(self, operation: str, given: Mapping[str, Any]) -> None:
        if operation == "GetObject" and (number := self._asked_about(given)) is not None:
            self._read.setdefault(number, self._now)

    def _asked_about(self, given: Mapping[str, Any]) -> int | None:
        """The number of the version that a call names."""
        bucket, key = given["Bucket"], given["Key"]
        stored = self._made.bucket.versions.get((bucket, key, given.get("VersionId", "null")))
        etag = given.get("IfMatch", "") if stored is None else stored.etag
        return self._numbers.get(ObjectId(bucket, key, etag.strip('"')))

    def _is_stuck(self, number: int) -> bool:
        """Whether this HEAD is not answered now."""
        if self._now >= self._stuck_until:
            return False
        place = next(one.place for one, known in self._numbers.items() if known == number)
        is_first = not any(other in self._stuck for other in self._versions[place])
        return self._stuck.setdefault(number, is_first or self._rng.random() < _STUCK_SHARE)

    def _knows(self, object_id: ObjectId, reign: _Reign) -> None:
        if object_id in self._numbers:
            self._known.setdefault((self._numbers[object_id], reign), self._now)

    @property
    def _now(self) -> float:
        return self._made.kernel.now


def _partition(place: _Place) -> tuple[str, str]:
    """The bucket, and the key up to the number of its partition."""
    return place[0], place[1].partition("-")[0]
