"""Connectors are created, configured and deleted: judged first, then written by the worker that leads.

A changed configuration is refused where it would give another meaning to what its connector has stored.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import Final, Protocol
from weakref import WeakValueDictionary

from msgspec.structs import replace

from headrace.kafka.cache_files import CachedEntry
from headrace.kafka.control_records import ConnectorRecord, connector_key, connector_records, encode
from headrace.kafka.ledger_reader import open_ledger_reader
from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError, Unavailable
from headrace.model.ledger_entry import ControlKey, LedgerEntry
from headrace.model.sink_entries import GroupingOptions
from headrace.model.text_formatting import and_more, printable
from headrace.options import Settings, SettingsError
from headrace.options.choices import FileNameMatch
from headrace.options.describe import options_hash, unresolved
from headrace.options.given import Problem, as_written, canonical
from headrace.options.secret import HIDDEN, MASK
from headrace.vendors.key_names import cut_of_bytes, options_of_object
from ingest.http.rest.plugins import without_shown_class
from ingest.http.rest.port import NotLeading
from ingest.http.rest.router import Refused
from ingest.source.catalogue.pending import is_begun, is_elsewhere
from ingest.source.object_selection import key_readers
from spark.sink.grouping_options import can_group_by, grouping_hash, grouping_options, options_that_keep_open

InHand = Callable[[Settings, str], Sequence[str]]
"""The keys of objects that a connector has begun and not finished, but for those begun under this hash.

Those too whose records have gone to another topic or partition than these settings read from the key.
"""

_LEDGER_SECONDS: Final = 30.0
# Each reads a whole ledger, with a client of its own.
_QUESTIONS_AT_ONCE: Final = 8
_SHOWN: Final = 3
_ANOTHER: Final = "delete this connector, and create one with another name"
_AGAIN: Final = "delete it and create it again with the same name: its ledger stays"


def changed_meaning(
    new: Settings, old: Settings, in_hand: InHand, *, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """What would be lost or mistaken, a sentence each, with the fix; `before` and `after` are the options."""
    found = list(_left_behind(new, old))
    if found:
        return found
    changed = ", ".join(sorted(name for name in {*before, *after} if before.get(name) != after.get(name)))
    if new.sink is None:
        return list(_begun_objects(new, old, in_hand, changed))
    return list(_open_objects(new, old, changed))


def _left_behind(new: Settings, old: Settings) -> Iterator[str]:
    if (new.sink is None) is not (old.sink is None):
        yield f"connector.class would turn a source into a sink, or a sink into a source: {_ANOTHER}"
    if new.kafka.ledger_topic != old.kafka.ledger_topic:
        yield f"offsets.storage.topic is where this connector's ledger is, so it cannot change: {_ANOTHER}"
    if not _addresses(new) & _addresses(old):
        yield (
            "bootstrap.servers is where this connector's ledger is, and has no address of before: if these "
            f"are brokers of the same cluster, {_AGAIN}; otherwise {_ANOTHER}"
        )
    if new.sink is not None and old.sink is not None and new.sink.group_id != old.sink.group_id:
        groups = f"from group {old.sink.group_id!r} to {new.sink.group_id!r}"
        yield f"this would move the offsets {groups}: {_ANOTHER}"


def _addresses(settings: Settings) -> set[str]:
    """The brokers to begin with; in any order, as the cluster names all others."""
    return {address.strip().lower() for address in settings.kafka.bootstrap_servers.split(",")}


def _begun_objects(new: Settings, old: Settings, in_hand: InHand, changed: str) -> Iterator[str]:
    """A position would be another row's, or of another topic: what is begun would be quarantined."""
    meaning = _hash(new)
    is_same, is_led = meaning == _hash(old), _reads_keys_otherwise(new, old)
    if is_same and not is_led and cut_of_bytes(new.format) == cut_of_bytes(old.format):
        return
    keys = in_hand(new, meaning)
    if is_same:
        elsewhere = set(_led_elsewhere(keys, new, old)) if is_led else set[str]()
        keys = [key for key in keys if key in elsewhere or _is_cut_otherwise(key, new, old)]
    if not keys:
        return
    shown = and_more([repr(printable(key)) for key in keys[:_SHOWN]], len(keys))
    yield (
        f"{changed} would give the position in each object that is begun another meaning, and it would be "
        f"quarantined: {shown}. Send this again once none is in progress; or stop the connector (PUT "
        f"/connectors/{old.name}/stop) and decide about each with PATCH /connectors/{old.name}/offsets: "
        'null reads it again from its start, which repeats its records, {"state": "done"} leaves the rest'
    )


def _open_objects(new: Settings, old: Settings, changed: str) -> Iterator[str]:
    """What a stop leaves open is known by what is archived under the converters and transforms of before."""
    if old.sink is None or new.sink is None or not (keeping := options_that_keep_open(old.sink)):
        return
    earlier = GroupingOptions(hash=grouping_hash(old.sink), options=grouping_options(old.sink))
    if not can_group_by(earlier, new.sink):
        yield (
            f"{changed} would change how records are read while {'=false, '.join(keeping)}=false leaves "
            "objects open, and their partitions would stop (grouping_changed): set "
            f"{'=true, '.join(keeping)}=true alone first, and change the rest with the next request, which "
            "then closes what is open"
        )


def _hash(settings: Settings) -> str:
    return options_hash(settings.format, settings.routing, settings.transforms)


def _reads_keys_otherwise(new: Settings, old: Settings) -> bool:
    """Whether a key may lead elsewhere under the same hash: this prefix is in none; a restore's is."""
    is_exact = new.routing.file_name_match is FileNameMatch.EXACT
    return is_exact and new.s3.prefix != old.s3.prefix


def _is_cut_otherwise(key: str, new: Settings, old: Settings) -> bool:
    return cut_of_bytes(new.format, key) != cut_of_bytes(old.format, key)


def _led_elsewhere(keys: Iterable[str], new: Settings, old: Settings) -> Iterator[str]:
    """Those that have another topic or partition now; what is not read any more is left as it is."""
    before, after = key_readers(old), key_readers(new)
    for key in keys:
        was, now = before.route(key), after.route(key)
        if now is not None and (was is None or (was.output, was.partition) != (now.output, now.partition)):
            yield key


def begun_in_ledger(settings: Settings, meaning: str) -> list[str]:
    """See `begun_otherwise`, of the ledger. Blocks while it is read. Unavailable."""
    reader = open_ledger_reader(settings, timeout=_LEDGER_SECONDS)
    if reader is None:
        return []
    with closing(reader):
        return begun_otherwise(reader.cache.unfinished(), settings, meaning)


def begun_otherwise(unfinished: Iterable[CachedEntry], settings: Settings, meaning: str) -> list[str]:
    """The keys of those with a position or splits under another hash, or of another topic or partition.

    What lies in another bucket, or outside the prefix, these settings do not read, however long it stays so.
    """
    readers = key_readers(settings)

    def is_otherwise(key: str, entry: LedgerEntry) -> bool:
        if entry.options != options_of_object(meaning, settings.format, key):
            return True
        route = readers.route(key)
        return route is not None and is_elsewhere(entry, route)

    return [
        cached.id.key
        for cached in unfinished
        if cached.id.bucket in settings.buckets
        and cached.id.key.startswith(settings.s3.prefix)
        and is_begun(cached.entry)
        and is_otherwise(cached.id.key, cached.entry)
    ]


STATE_FOLDER: Final = "state.dir"
_IN_ITS_FILE: Final = "is the worker's; set it in the worker's file"
_OF_THE_WORKER: Final = {
    **dict.fromkeys(("http.listen", "rest.listen", "rest.auth.file", STATE_FOLDER), _IN_ITS_FILE),
    "instance.id": "is of a process, and a worker's connectors are none; remove it",
}


_BLANK_ENDS: Final = "has blanks or line ends at its ends; expected 1 to 200 of a-z A-Z 0-9 . _ -"


class RecordTooLarge(HeadraceError):
    """The configuration topic does not take a record of this size."""

    def __init__(self, *, size: int, limit: int, name: str) -> None:
        super().__init__(
            f"it takes {size:,} bytes as a record of the configuration topic, and {limit:,} is the most "
            f"by {name}"
        )


class ConfigurationStore(Protocol):
    """Where configurations are."""

    def controls(self) -> Mapping[ControlKey, bytes]:
        """What is committed. Unavailable."""

    def write(self, changes: list[tuple[ControlKey, bytes | None]]) -> None:
        """Commit all of these or none; return when they can be read.

        NotLeading, RecordTooLarge, Unavailable.
        """


class ConnectorChanges:
    """Called by many threads at once; one change of a connector after the other."""

    def __init__(
        self,
        store: ConfigurationStore,
        load: Callable[[ConnectorRecord], Settings],
        *,
        load_past: Callable[[ConnectorRecord], Settings],
        in_hand: InHand,
    ) -> None:
        """`load_past` reads what is stored, without what is forbidden by now."""
        self._store = store
        self._load = load
        self._load_past = load_past
        self._in_hand = in_hand
        # Held while something is written, and never for a question.
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._questions = threading.Semaphore(_QUESTIONS_AT_ONCE)

    def create(
        self, name: str, config: Mapping[str, str], *, initial_state: str = "RUNNING"
    ) -> ConnectorRecord:
        """The new connector; 409 when there is one of this name, 400 with all that is wrong with it."""
        with self._turn(name):
            if self._found(name) is not None:
                raise Refused(HTTPStatus.CONFLICT, f"Connector {name} already exists")
            return self._put(name, config, None, initial_state, created_ms=wall_ms())

    def configure(self, name: str, config: Mapping[str, str]) -> tuple[ConnectorRecord, bool]:
        """The connector as it is now, and whether it is new. What it has already changes nothing."""
        with self._turn(name):
            before = self._found(name)
            # What was written over is no new one: whether it is stopped, its ledger says.
            is_lost = before is None and name in self._records()
            record = self._put(name, config, before, created_ms=None if is_lost else wall_ms())
            return record, before is None

    def patch(self, name: str, changes: Mapping[str, str | None]) -> ConnectorRecord:
        """The connector with these options changed, those that are None removed; 404 for an unknown name."""
        with self._turn(name):
            before = self._records().get(name)
            if before is None:
                raise Refused(HTTPStatus.NOT_FOUND, f"Connector {name} not found")
            if before.problem is not None:
                raise Refused(HTTPStatus.BAD_REQUEST, before.problem)
            merged: dict[str, str | None] = {**before.config, **changes}
            config = {option: text for option, text in merged.items() if text is not None}
            return self._put(name, config, before)

    def delete(self, name: str) -> None:
        """It is gone when this returns; its ledger and its group stay. 404 for an unknown name."""
        with self._turn(name), self._lock:
            if name not in self._records():
                raise Refused(HTTPStatus.NOT_FOUND, f"Connector {name} not found")
            self._store.write([(connector_key(name), None)])

    def _turn(self, name: str) -> threading.Lock:
        """What a change of this connector holds until it is written: the next is judged by what it left."""
        with self._lock:
            return self._turns.setdefault(name, threading.Lock())

    def _found(self, name: str) -> ConnectorRecord | None:
        """The connector; None too where its configuration is lost: it can be created again."""
        found = self._records().get(name)
        return None if found is None or found.problem is not None else found

    def _records(self) -> dict[str, ConnectorRecord]:
        return connector_records(self._store.controls())

    def _put(
        self,
        name: str,
        config: Mapping[str, str],
        before: ConnectorRecord | None,
        initial_state: str = "RUNNING",
        *,
        created_ms: int | None = None,
    ) -> ConnectorRecord:
        record = ConnectorRecord(
            name=name,
            config=kept_secrets(without_shown_class(config, before), before) | {"name": name},
            at_ms=wall_ms(),
            created_ms=created_ms if before is None else before.created_ms,
            initial_state=initial_state if before is None else before.initial_state,
        )
        if before is not None and before.config == record.config:
            return before
        self._judge(record, before)
        try:
            with self._lock:
                if self._found(name) != before:
                    why = f"another worker has led, and changed connector {name} meanwhile"
                    raise NotLeading(f"Cannot complete request momentarily: {why}", passes=True)
                self._store.write([(connector_key(name), encode(record))])
        except RecordTooLarge as error:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The configuration of connector {name} is too large: {error}. Raise that, or keep "
                "what is long in a file on the workers and name it (${file:PATH:KEY})",
            ) from error
        return record

    def _judge(self, record: ConnectorRecord, before: ConnectorRecord | None) -> None:
        """400 with every problem, as Connect words it."""
        # What is stored with one is still loaded: an earlier version took it.
        problems = [str(problem) for problem in folder_problems(record.config)]
        settings: Settings | None = None
        try:
            settings = self._load(record)
        except SettingsError as error:
            problems += [str(problem) for problem in error.problems]
        if settings is not None and before is not None and not problems:
            problems += [unresolved(one, settings) for one in self._lost_by(settings, record, before)]
        if problems:
            raise Refused(HTTPStatus.BAD_REQUEST, invalid_text(record, problems))

    def _lost_by(self, new: Settings, record: ConnectorRecord, before: ConnectorRecord) -> list[str]:
        """See `changed_meaning`. What is stored may have run though it cannot be loaded any more.

        The worker's file forbids it by now: it is compared as it ran. The file of a reference was replaced,
        or an earlier version took it: such options are compared as if they had been corrected before.
        """
        try:
            old = self._load_past(before)
        except SettingsError as error:
            broken = {canonical(problem.option) for problem in error.problems}
            try:
                old = self._load_past(
                    replace(before, config=_corrected(before.config, record.config, broken))
                )
            except SettingsError:
                named = ", ".join(sorted(broken - {""})) or "what is stored"
                why = (
                    f"what is stored cannot be loaded any more ({error.problems[0]}), so what this would "
                    f"change is not known: send the correction of {named} alone first; or {_AGAIN}"
                )
                return [why]
        found = changed_meaning(new, old, self._asked, before=before.config, after=record.config)
        return [unresolved(one, old) for one in found]

    def _asked(self, settings: Settings, meaning: str) -> Sequence[str]:
        """See `InHand`. 409 while the connector's brokers do not tell it, which clients ask again."""
        try:
            with self._questions:
                return self._in_hand(settings, meaning)
        except Unavailable as error:
            why = f"what connector {settings.name} has begun is not known: {error}"
            raise Refused(HTTPStatus.CONFLICT, f"Cannot complete request momentarily: {why}") from error


def _corrected(
    before: Mapping[str, str], after: Mapping[str, str], broken: Collection[str]
) -> dict[str, str]:
    """The configuration of before with these options as they are after, or without them."""
    kept = {option: text for option, text in before.items() if canonical(option) not in broken}
    return kept | {option: text for option, text in after.items() if canonical(option) in broken}


def folder_problems(config: Mapping[str, str]) -> list[Problem]:
    """That a connector's configuration names a folder for what is the worker's to keep, if it does."""
    return [one for one in _of_the_worker(config) if canonical(one.option) == STATE_FOLDER]


def worker_problems(name: str, config: Mapping[str, str], *, reserved: str) -> list[Problem]:
    """All else that a worker refuses in a connector's configuration, however it came to have it."""
    problems = [one for one in _of_the_worker(config) if canonical(one.option) != STATE_FOLDER]
    if name != name.strip():
        # Of the connector that it is without them it would be a second one, with the same ledger.
        problems.append(Problem(option="name", message=_BLANK_ENDS, value=name))
    if name.strip() == reserved:
        # Its leadership would be the workers' own.
        problems.append(
            Problem(
                option="name", message="is the name of the workers' own group; choose another", value=name
            )
        )
    return problems


def _of_the_worker(config: Mapping[str, str]) -> Iterator[Problem]:
    for option in config:
        known = canonical(option)
        if known.startswith("spark."):
            yield Problem(option=option, message=_IN_ITS_FILE)
        elif known in _OF_THE_WORKER:
            yield Problem(option=option, message=_OF_THE_WORKER[known])


def invalid_text(record: ConnectorRecord, problems: list[str]) -> str:
    """Connect's words for a configuration with problems."""
    plugin = record.config.get("connector.class")
    # A path has the class itself.
    plugin = plugin if plugin and "${" not in plugin else "{connectorType}"
    lines = "\n".join(problems)
    return (
        f"Connector configuration is invalid and contains the following {len(problems)} error(s):\n{lines}\n"
        "You can also find the above list of errors at the endpoint "
        f"`/connector-plugins/{plugin}/config/validate`"
    )


def shown_config(record: ConnectorRecord) -> dict[str, str]:
    """The configuration as it may be shown: secrets hidden, references as they were written."""
    return {option: _shown(option, text) for option, text in record.config.items()}


def kept_secrets(config: Mapping[str, str], before: ConnectorRecord | None) -> dict[str, str]:
    """The configuration with what is hidden in it as it was before."""
    kept = {} if before is None else before.config
    return {
        option: kept[option] if option in kept and _is_shown_of(option, kept[option], text) else text
        for option, text in config.items()
    }


def _is_shown_of(option: str, kept: str, text: str) -> bool:
    """Whether this is what is shown in place of a secret; white space and asterisks may be a value else."""
    shown = _shown(option, kept)
    if shown != kept and text.strip() in {shown, MASK}:
        return True
    # 1.0.0 hid more, such as the ids of access keys.
    return text.strip() == HIDDEN and as_written(option, text).is_mask


def _shown(option: str, text: str) -> str:
    entry = as_written(option, text)
    return HIDDEN if entry.is_hidden else entry.shown_whole
