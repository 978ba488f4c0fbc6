"""Configurations as a worker reads them: how far their topic is read, and one next to the worker's file.

A connector's configuration is held to what the worker's file has and forbids.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headrace.kafka.control_records import ConnectorRecord
from headrace.model.errors import HeadraceError, InvalidConfiguration, Unavailable
from headrace.model.ledger_entry import ControlKey
from headrace.options import Settings, SettingsError
from headrace.options.given import Problem, canonical
from ingest.connect.changes import STATE_FOLDER, folder_problems, worker_problems
from ingest.connect.worker_settings import WorkerSettings

_FOLDER_WARNING: Final = (
    f"{STATE_FOLDER} of this connector is passed over, and the worker's is used: remove it with a PATCH that "
    "has null for it"
)


@dataclass(frozen=True, slots=True)
class Loading:
    """What reads connectors' configurations; `load_text` takes one and the text of a worker's file."""

    settings: WorkerSettings
    load_text: Callable[[Mapping[str, str], str], Settings]

    def __call__(self, record: ConnectorRecord) -> Settings:
        """The connector's settings.

        SettingsError with all problems, those of options that are the worker's included.
        """
        return self._load(record, self.settings.text)

    def past(self, record: ConnectorRecord) -> Settings:
        """What a stored configuration has meant until now, whatever the worker's file forbids by now."""
        return self._load(record, self.settings.unlimited_text)

    def _load(self, record: ConnectorRecord, text: str) -> Settings:
        if record.problem is not None:
            raise InvalidConfiguration(record.problem)
        problems = worker_problems(record.name, record.config, reserved=self.settings.name)
        of_folder = folder_problems(record.config)
        if record.created_ms is None:
            problems += of_folder
        config = {name: given for name, given in record.config.items() if canonical(name) != STATE_FOLDER}
        config |= {STATE_FOLDER: str(self.settings.frame.state_dir), "name": record.name}
        try:
            found = self.load_text(config, text)
        except SettingsError as error:
            raise SettingsError((*problems, *error.problems)) from error
        if not problems and found.name != record.name:
            problems = [Problem(option="name", message=f"is read as {found.name!r}", value=record.name)]
        if problems:
            raise SettingsError(tuple(problems))
        # One that an earlier version stored: it loses a cache by it, and nothing else.
        return replace(found, warnings=(*found.warnings, _FOLDER_WARNING)) if of_folder else found


_CALL_SECONDS: Final = 30.0
# After so long without what was written the topic is asked for its end: something else may be there.
_OVERWRITTEN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.01

Changes = Sequence[tuple[ControlKey, bytes | None]]


class Reading(Protocol):
    """One that follows the topic."""

    def reads_to(self, end: int, timeout: float) -> bool:
        """Whether all below the offset `end` is read in `timeout` seconds. Raises what has ended it."""


class Readable(Protocol):
    """What a reading has read."""

    def controls(self) -> Mapping[ControlKey, bytes]:
        """The control records."""


class LedReading(Reading, Protocol):
    """That of the worker that leads."""

    @property
    def cache(self) -> Readable:
        """What it has read."""


def is_read_to(end: int, led: Reading | None, reader: Reading | None, *, seconds: float) -> bool:
    """Whether all below this offset is read, whichever of the two is asked from now on. Blocks.

    Both are for who leads: when it hung, it may lose the lead while it reads here, and its reader, by which
    it then goes, hung as well. A reader that has failed is of no account next to one that leads: who asks it
    hears it, and begins another one. Raises what has ended the one that is asked now.
    """
    if led is not None:
        if not led.reads_to(end, seconds):
            return False
        with suppress(HeadraceError):
            return reader is None or reader.reads_to(end, seconds)
        return True
    return reader is not None and reader.reads_to(end, seconds)


def await_read_back(
    led: LedReading,
    changes: Changes,
    *,
    least: int,
    ask_end: Callable[[], int],
    failures: Sequence[HeadraceError],
    clock: Callable[[], float] | None = None,
) -> None:
    """Return when these are read, or what another program has written over them. Blocks; Unavailable.

    They are committed, and with them the topic's end is at `least` there. A broker that gives a lower one, as
    it may for a moment after it has become the partition's leader, does not know of them yet.
    """
    now = clock or time.monotonic
    began = asked = now()
    end: int | None = None
    while any(led.cache.controls().get(key) != raw for key, raw in changes):
        if failures:
            why = f"the configuration topic cannot be read: {failures[0]}"
            raise Unavailable(f"The change is written, but cannot be read back: {why}")
        if now() - began > _CALL_SECONDS:
            raise Unavailable("The change is written, but cannot be read back yet: is Kafka up?")
        with suppress(HeadraceError):
            if end is None and now() - asked > _OVERWRITTEN_SECONDS:
                asked = now()
                found = ask_end()
                end = found if found >= least else None
            if end is not None and led.reads_to(end, 0.0):
                return
        time.sleep(_LOOK_SECONDS)
