"""Versions of a key whose events lack an ETag: HEADs are answered in any order, or by 503 first."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations, count
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

_Place = tuple[str, str]
_Reign = asyncio.AbstractEventLoop
"""Listeners have a loop of their own, as long as a process leads."""


class VersionOrder:
    """Which versions of a key have to be read in their order, as HEADs of one leader were asked and answered.

    An earlier one goes first where its HEAD was asked before its leader, and nobody else, knew of the later.
    """

    def __init__(self, made: Environment, seed: int) -> None:
        self._made = made
        self._rng = random.Random(f"heads-{seed}")
        self._bare_share = 0.0
        self._sequencers = count(0x1000)
        self._numbers: dict[ObjectId, int] = {}
        self._versions: defaultdict[_Place, list[int]] = defaultdict(list)
        """By bucket and key, numbers in the order in which they came."""
        self._asked: dict[tuple[int, _Reign], float] = {}
        """When the first HEAD about a version was asked."""
        self._confirmed: set[tuple[int, _Reign]] = set()
        self._refused: set[int] = set()
        self._known: dict[tuple[int, _Reign], float] = {}
        """When a leader came to know a version, by a HEAD, an event or a listing."""
        self._read: dict[int, float] = {}
        """When a version was first asked for."""

    def begin(self, bare: float) -> None:
        """From now on buckets keep versions, and such a share of events lacks ETag and size."""
        self._bare_share = bare
        bucket, queue = self._made.bucket, self._made.queue
        bucket.versioned.update(bucket.objects)
        bucket.on_asked, bucket.on_answered, bucket.on_call = self._ask, self._answered, self._called
        queue.on_received = self._received

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
        for versions in self._versions.values():
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
        return is_alone and (first, reign) in self._confirmed

    # -- what S3 is asked and answers ------------------------------------------------------------------------

    def _ask(self, operation: str, given: Mapping[str, Any]) -> float:
        """So many seconds it takes until this call of a listener reaches S3; or it is refused for now."""
        number = self._asked_about(given) if operation == "head_object" else None
        if number is None:
            return 0.0
        self._asked.setdefault((number, asyncio.get_running_loop()), self._now)
        if self._rng.random() < _REFUSED_SHARE:
            raise refused("HeadObject", "SlowDown", 503)
        return self._rng.choice(_LATE)

    def _answered(self, operation: str, given: Mapping[str, Any], answer: Any) -> None:
        reign = asyncio.get_running_loop()
        if operation == "list_objects_v2" and not isinstance(answer, ClientError):
            for one in answer["Contents"]:
                self._knows(ObjectId(given["Bucket"], one["Key"], one["ETag"].strip('"')), reign)
        elif operation == "head_object" and (number := self._asked_about(given)) is not None:
            if not isinstance(answer, ClientError):
                self._known.setdefault((number, reign), self._now)
                self._confirmed.add((number, reign))
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

    def _knows(self, object_id: ObjectId, reign: _Reign) -> None:
        if object_id in self._numbers:
            self._known.setdefault((self._numbers[object_id], reign), self._now)

    @property
    def _now(self) -> float:
        return self._made.kernel.now
