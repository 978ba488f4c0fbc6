"""`python -m tests.soak.soak --minutes 30`: mixed load under bad weather, and an exact account at its end.

First half with `errors.tolerance=none`: bad rows quarantine their objects. Second half with `all`: they
become dead letters. Then every quarantined object is replayed with `all`; only those that are damaged
themselves may stay. Exit code 1 when the account is not exact, or when file descriptors grow.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.stage import Service
from tests.soak.account import Account, account, ledger_entries
from tests.soak.chaos import Weather
from tests.soak.growth import Growth, Slope
from tests.soak.load import Damage, Uploaded, make
from tests.support import aws, kafka
from tests.support.proxy import Proxy
from tests.support.service import Route, new_route, queue_depth
from tests.support.until import until_sync

_SETTLE_SECONDS: Final = 300
_START_SECONDS: Final = 180
# Over a phase. In a short one pools of connections still fill, on a busy machine; its objects are more than
# twice as many as its bound, so that one left open by each is seen.
_DESCRIPTORS_GROWN: Final = 40
_DESCRIPTORS_GROWN_AT_FIRST: Final = 120
_SHORT_MINUTES: Final = 10


@dataclass(slots=True, kw_only=True)
class Soak:
    """One soak: the route, the proxy before S3, and everything that was uploaded."""

    route: Route
    proxy: Proxy
    letters: str
    name: str
    chance: random.Random
    objects_per_second: float
    uploaded: list[Uploaded] = field(default_factory=list)
    rows: int = 0
    slopes: dict[str, list[Slope]] = field(default_factory=dict)
    grown: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def service(self, *, tolerance: str) -> Iterator[Service]:
        """The service with this tolerance, ready; stopped cleanly afterwards."""
        letters = {"errors__deadletterqueue__topic__name": self.letters} if tolerance == "all" else {}
        made = self.route.service(
            self.name,
            aws__s3__endpoint=self.proxy.url,
            errors__tolerance=tolerance,
            errors__retry__delay__ms=500,
            errors__retry__delay__max__ms=5000,
            reconcile__interval__ms=60_000,
            **letters,
        )
        try:
            made.start(ready_seconds=_START_SECONDS)
            yield made
        except BaseException:
            made.stop()
            raise
        code = made.stop()
        assert code == 0, f"the service ended with {code}"

    def phase(self, *, tolerance: str, seconds: float, expired_seconds: float) -> None:
        """Load and weather for so long; then fair weather until everything has come to its end."""
        with self.service(tolerance=tolerance) as service:
            growth = Growth(service.pid)
            weather = Weather(
                proxy=self.proxy,
                chance=random.Random(self.chance.random()),
                expires_after=seconds / 3,
                expired_seconds=expired_seconds,
                is_ready=service.is_ready,
            )
            with growth.watching():
                with weather.blowing():
                    self._load(time.monotonic() + seconds)
                self._settle(service)
            self.slopes[tolerance] = growth.slopes()
            assert weather.was_not_ready, "it was ready with expired credentials"
            say(f"{tolerance}: {len(self.uploaded)} objects, {self.rows} rows, {weather.bursts} bursts")

    def repair(self) -> None:
        """Replay what is quarantined, with bad rows tolerated."""
        with self.service(tolerance="all") as service:
            service.command("replay", "--yes")
            # What the service shows may be a moment older than what it has told the command.
            until_sync(self._is_all_tried, seconds=_SETTLE_SECONDS, what="each object tried again")
            self._settle(service)

    def _is_all_tried(self) -> bool:
        entries = ledger_entries(f"{self.name}-offsets")
        return all(entries[one.key].state in ("done", "quarantined", "skipped") for one in self.uploaded)

    def account(self) -> Account:
        """What became of every row so far."""
        return account(
            self.uploaded,
            topic=self.route.topic,
            letters=self.letters,
            entries=ledger_entries(f"{self.name}-offsets"),
            rows=self.rows,
        )

    def left_over(self) -> list[str]:
        """After the repair: objects that are quarantined although all their rows can be read."""
        entries = ledger_entries(f"{self.name}-offsets")
        wrong = []
        for one in self.uploaded:
            entry = entries[one.key]
            if one.damage is Damage.NONE and entry.state != "done":
                wrong.append(f"{one.key} is {entry.state}, {entry.reason}")
            elif entry.records + entry.bad < one.readable:
                wrong.append(
                    f"{one.key}: {one.readable} rows can be read, {entry.records + entry.bad} are there"
                )
        return wrong

    def _load(self, deadline: float) -> None:
        client = aws.s3()
        while (now := time.monotonic()) < deadline:
            one, body = make(self.chance, key=f"soak/{len(self.uploaded):07d}", first=self.rows)
            client.put_object(Bucket=self.route.bucket, Key=one.key, Body=body)
            self.uploaded.append(one)
            self.rows += one.count
            time.sleep(max(0.0, now + 1 / self.objects_per_second - time.monotonic()))
        client.close()

    def _settle(self, service: Service) -> None:
        until_sync(
            lambda: queue_depth(self.route.queue_url) == 0 and service.status()["pending_objects"] == 0,
            seconds=_SETTLE_SECONDS,
            what=f"nothing pending; {service.status()['problems']}",
        )


def run(minutes: float, *, objects_per_second: float, seed: int, folder: Path) -> bool:
    """Whether everything was as it has to be; prints what it finds."""
    with Proxy(aws.address()) as proxy:
        soak = Soak(
            route=new_route(folder),
            proxy=proxy,
            letters=kafka.new_topic("letters"),
            name=aws.unique("soak"),
            chance=random.Random(seed),
            objects_per_second=objects_per_second,
        )
        expired = min(60.0, minutes * 60 / 10)
        for tolerance in ("none", "all"):
            soak.phase(tolerance=tolerance, seconds=minutes * 30, expired_seconds=expired)
            for slope in soak.slopes[tolerance]:
                say(str(slope))
        before = soak.account()
        say(f"before the repair: {before}")
        soak.repair()
        after = soak.account()
        say(f"after the repair: {after}")
        left = soak.left_over()
        say("every readable row is there once" if not left else "\n".join(["LEFT OVER", *left[:10]]))
    most = _DESCRIPTORS_GROWN_AT_FIRST if minutes < _SHORT_MINUTES else _DESCRIPTORS_GROWN
    grows = [
        slope
        for slopes in soak.slopes.values()
        for slope in slopes
        if slope.descriptors_per_hour * minutes / 120 > most
    ]
    for slope in grows:
        say(f"GROWS: {slope}")
    return before.is_exact and after.is_exact and not left and not grows


def say(text: str) -> None:
    """Print at once: a soak is watched."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201  # a script that prints


def main() -> int:
    """0 when everything was as it has to be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--objects-per-second", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, help="a folder for configuration and logs; else they are removed"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder:
        is_well = run(
            given.minutes,
            objects_per_second=given.objects_per_second,
            seed=given.seed,
            folder=given.keep or Path(folder),
        )
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
