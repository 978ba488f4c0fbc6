"""Listings of several pages and objects that are hard to read: what is drawn.

Every bucket of more than a thousand objects has listings of several pages, and every long read may break off;
what the others draw is listed in one page, and read by one answer.
"""

import random
from collections.abc import Iterable
from typing import Any, Final

from tests.simulation.apart import LACKING, OWN_FROM, PAGES
from tests.simulation.scenario import Step

_SHARE: Final = 0.12
_PAGES_SHARE: Final = 0.7
_BEFORE_DATA_SHARE: Final = 0.8
_DATA: Final = ("put", "arrive")
_OF_PAGES: Final = ("503 next page", "503 next page", "silent next page", "expired next page")
_OF_KEYS: Final = ("expired", "unknown", "timeout")
"""What answers say where keys have expired, or were rotated, and of a connection that was too slow."""
_GETS: Final = " GetObject"
_OF_READS: Final = ("cut GetObject", "cut GetObject", "cut GetObject", "gone GetObject", "timeout GetObject")
_OF_LOOKS: Final = ("replaced HeadObject", "gone HeadObject", "503 HeadObject", "expired HeadObject")


def with_hard_reading(direction: str, seed: int, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps; in some scenarios listings have small pages, which fail, and bodies of reads break off.

    Drawn apart, so that what else a seed draws stays as it is.
    """
    rng, found = random.Random(f"hard-reading-{direction}-{seed}"), list(steps)
    if seed < OWN_FROM or rng.random() >= _SHARE:
        return tuple(found)
    for _ in range(rng.choice((1, 2, 3))):
        at = [place for place, step in enumerate(found) if step.act in _DATA]
        # Mostly what comes next is met by it.
        is_before = bool(at) and rng.random() < _BEFORE_DATA_SHARE
        place = rng.choice(at) if is_before else rng.randint(1, len(found))
        found[place:place] = _trouble(rng, 0.0 if is_before else rng.choice((0.0, 0.1, 1.0)))
    if rng.random() < _PAGES_SHARE:
        found.insert(0, Step(0.0, PAGES, {"keys": rng.choice((1, 2, 3))}))
    return tuple(found)


def _trouble(rng: random.Random, after: float) -> Iterable[Step]:
    """What S3 does to reads, listings or all calls from some moment on."""
    what = rng.choice(("reads", "reads", "reads", "pages", "pages", "keys", "entries", "entries", "list"))
    if what == "reads":
        yield _next(after, rng.choice(_OF_READS), rng.choice((2, 5, 9)))
        if rng.random() < 0.3:
            yield _next(0.0, "replaced behind GetObject", 1)
    elif what == "pages":
        yield _next(after, rng.choice(_OF_PAGES), rng.choice((1, 2, 4)))
    elif what == "keys":
        yield _next(after, rng.choice(_OF_KEYS) + rng.choice(("", _GETS, _GETS)), rng.choice((2, 8, 30)))
    elif what == "entries":
        lacking: dict[str, Any] = {"names": ["ETag"], "seconds": rng.choice((4.0, 20.0, 90.0))}
        yield Step(after, LACKING, lacking)
        if rng.random() < 0.7:
            yield _next(0.0, rng.choice(_OF_LOOKS), rng.choice((1, 1, 3)))
    else:
        yield Step(after, "forbidden", {"operation": "ListObjectsV2", "seconds": rng.choice((4.0, 20.0))})


def _next(after: float, kind: str, count: int) -> Step:
    return Step(after, "s3", {"kind": kind, "count": count})
