"""The worker's file: where it listens, where its connectors' configurations are, and what these leave out.

Where they are files of a folder, they are read as they are added, changed and removed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replace_field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from headrace.kafka.control_records import ConnectorRecord, by_name
from headrace.model.errors import InvalidConfiguration
from headrace.names.archive_names import is_topic_name
from headrace.options import Settings
from headrace.options.configuration_text import FileKind, read_text
from headrace.options.given import Problems, SettingsError, as_written
from headrace.options.references import NoReference, ReferenceMissing, References
from headrace.options.value_types import HOST, LISTEN, TOPIC, Form, FormError, HostPort, integer
from headrace.options.worker_file import (
    LIMITS,
    Limit,
    decides_nothing,
    is_of_worker,
    limit_of,
    properties_text,
    refuse_connector,
    worker_limits,
    worker_pairs,
)
from headrace.process.own_process import read_regular_text
from headrace.vendors.leftovers import CONVERTERS
from headrace.vendors.load import load
from ingest.http.requests import ORIGINS, site_of

_log = structlog.get_logger(__name__)

DEFAULT_GROUP: Final = "headrace-workers"
_DEFAULT_REST: Final = "127.0.0.1:8083"
# Options of `headrace run` that are the process's: here they are the worker's.
_OF_THE_PROCESS: Final = ("http.listen", "rest.listen", "rest.auth.file", "state.dir")
_LARGEST: Final = "producer.max.request.size"
WORKER_OPTIONS: Final = frozenset(
    {
        "group.id",
        "config.storage.topic",
        "config.storage.replication.factor",
        "listeners",
        "rest.advertised.host.name",
        "rest.advertised.port",
        "session.timeout.ms",
        ORIGINS,
        "bootstrap.servers",
        _LARGEST,
        *LIMITS,
        *_OF_THE_PROCESS,
    }
)
# As long as brokers allow unless they are set otherwise.
_SESSION: Final = integer(6_000, 1_800_000)
# What records are measured by where nothing is set: 1 MiB, and what is around them.
_USUAL_REQUEST: Final = 1_114_112
_PORT: Final = integer(1, 65_535)
_REPLICATION: Final = integer(1, 32_767)
# A name and a bucket that no connector has: the worker is read by the same reader as its connectors.
_FRAME: Final = {"name": "worker", "aws.s3.bucket.name": "none", "topic": "none", "file.name.template": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What the worker's file decides. `frame` has its clients, its addresses and its Spark session."""

    frame: Settings
    group: str
    topic: str
    replication_factor: int | None
    session_timeout_ms: int
    advertised_host: str | None
    advertised_port: int | None
    text: str
    """The file as `.properties`: what connectors that leave it out take from it."""
    origins: frozenset[str]
    """The sites of others whose pages may change something here, as `site_of` names them."""
    unlimited_text: str
    """The same without what it forbids connectors."""
    resolved: Callable[[str, str], str]
    """An option's text with its references replaced, as connectors' are by now. Blocks. ReferenceMissing."""
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the workers' own ledger and group, which no connector may have."""
        return f"worker-{self.group}"


def read_worker(
    text: str, *, is_json: bool, environment: Mapping[str, str], read_file: Callable[[str], str]
) -> WorkerSettings:
    """The settings of a worker's file. SettingsError, InvalidConfiguration."""
    pairs = worker_pairs(text, is_json=is_json)
    written = dict(pairs)
    refuse_connector(written)
    limits = worker_limits(written)

    def references() -> References:
        return References(environment=environment, read_file=read_file, limits=limits.references)

    own = references()
    # What goes on to connectors keeps its references: they are resolved where it is used.
    given = {
        name: _resolved(own, name, value) if name in WORKER_OPTIONS - {ORIGINS} else value
        for name, value in written.items()
    }
    listen = _rest_listen(given)
    options: dict[str, str] = {name: given[name] for name in _OF_THE_PROCESS if name in given}
    options |= {name: value for name, value in given.items() if name.startswith("spark.")}
    is_larger = _is_larger(given.get(_LARGEST, ""))
    if is_larger:
        # A connector's configuration is a record of the worker's.
        options["producer.override.max.request.size"] = given[_LARGEST]
    # What the file forbids is forbidden to connectors: of its own it has the references alone limited.
    of_frame = {name: value for name, value in written.items() if limit_of(name) is not Limit.CONNECTORS}
    with _listeners_named(given):
        frame = load(
            json.dumps(_FRAME | options | {"rest.listen": listen}),
            kind="json",
            environment=environment,
            read_file=read_file,
            worker_config=properties_text(of_frame),
        )
    group = given.get("group.id", DEFAULT_GROUP)
    if not group.strip():
        raise InvalidConfiguration(
            f"group.id = {group!r}: expected a text that is not empty; leave it out for {DEFAULT_GROUP}."
        )
    unknown = sorted(
        name
        for name, value in given.items()
        if not _is_known(name) or decides_nothing(name, value) or (name == _LARGEST and not is_larger)
    )
    warnings = (f"accepted without a meaning here: {', '.join(unknown)}",) if unknown else ()
    if again := _given_twice(pairs):
        warnings = (*warnings, f"given twice, and the last counts: {', '.join(again)}")
    origins, of_origins = _origins(own, given.get(ORIGINS, ""))
    return WorkerSettings(
        frame=frame,
        group=group,
        topic=_topic(given, group),
        # -1 leaves the replication to the broker, as in Connect.
        replication_factor=None
        if given.get("config.storage.replication.factor", "").strip() == "-1"
        else _number(given, "config.storage.replication.factor", _REPLICATION),
        session_timeout_ms=_number(given, "session.timeout.ms", _SESSION) or 10_000,
        advertised_host=_advertised_host(given),
        advertised_port=_number(given, "rest.advertised.port", _PORT),
        text=properties_text(written),
        unlimited_text=properties_text(
            {name: value for name, value in written.items() if limit_of(name) is None}
        ),
        resolved=lambda option, text: references().replaced(option, text),
        origins=origins,
        warnings=(*warnings, *of_origins, *frame.warnings),
    )


def _rest_listen(given: Mapping[str, str]) -> str:
    """Where the worker answers, which it cannot be without: other workers and clients ask it there."""
    told = given.get("rest.listen")
    if told is None:
        return _listener(given.get("listeners")) or _DEFAULT_REST
    try:
        found = LISTEN.parse(told)
    except FormError:
        found = None
    if found is None:
        raise InvalidConfiguration(
            f"rest.listen = {told!r}: expected HOST:PORT, such as 0.0.0.0:8083; a worker answers there, so "
            f"leave it out for {_DEFAULT_REST}, or set listeners."
        )
    return told


@contextmanager
def _listeners_named(given: Mapping[str, str]) -> Iterator[None]:
    """Has problems of the address name `listeners`, where it is that which gave it."""
    try:
        yield
    except SettingsError as error:
        told = given.get("listeners", "").strip()
        if not told or "rest.listen" in given:
            raise
        raise SettingsError(
            tuple(
                replace_field(problem, option="listeners", value=told)
                if problem.option == "rest.listen"
                else problem
                for problem in error.problems
            )
        ) from error


def _listener(text: str | None) -> str | None:
    """Connect's `listeners`, of which the first that is HTTP counts: `http://host:port`, `http://:port`."""
    for one in (text or "").split(","):
        try:
            url = urlsplit(one.strip())
            if url.scheme == "http" and url.port != 0:
                return str(HostPort(url.hostname or "0.0.0.0", url.port or 8083))  # noqa: S104 - as Connect reads it
        except ValueError as error:
            raise InvalidConfiguration(f"listeners = {text!r}: expected http://HOST:PORT.") from error
    if text and text.strip():
        if "://" not in text or "http://" in text.lower():
            raise InvalidConfiguration(f"listeners = {text!r}: expected http://HOST:PORT.")
        raise InvalidConfiguration(
            f"listeners = {text!r}: only http:// is served; put a proxy with TLS before it, or set "
            "rest.listen."
        )
    return None


def _resolved(references: References, name: str, value: str) -> str:
    try:
        return references.replaced(name, value)
    except ReferenceMissing as error:
        raise InvalidConfiguration(f"{name} = {value!r}: {error}.") from error


def _number(given: Mapping[str, str], name: str, form: Form[int]) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return form.parse(text)
    except FormError as error:
        raise InvalidConfiguration(f"{name} = {text!r}: expected {form.expected}.") from error


def _advertised_host(given: Mapping[str, str]) -> str | None:
    """The host under which other workers find this one: each asks it all the time."""
    text = given.get("rest.advertised.host.name", "")
    if not text.strip():
        return None
    try:
        return HOST.parse(text)
    except FormError as error:
        raise InvalidConfiguration(
            f"rest.advertised.host.name = {text!r}: expected {HOST.expected}, without http:// and without a "
            "port, which is rest.advertised.port."
        ) from error


def _origins(references: References, written: str) -> tuple[frozenset[str], list[str]]:
    """The sites of others whose pages may change something, and what is wrong with those that may not.

    That refuses no file: earlier versions let in none, whatever it named. An asterisk, which is in many files
    of Connect's, lets none in: any page that is visited on the machine could restart connectors then.
    """
    try:
        text = references.replaced(ORIGINS, written)
    except ReferenceMissing as error:
        return frozenset(), [f"{ORIGINS} = {written!r} lets no page in: {error}"]
    found = {one.strip(): site_of(one) for one in text.split(",") if one.strip()}
    wrong = [one for one, site in found.items() if site is None]
    warnings = [
        f"{ORIGINS} has {as_written(ORIGINS, one).shown_whole!r}, which lets no page in: expected "
        "scheme://host[:port], several with commas"
        # What a reference leads to is shown nowhere.
        for one in (wrong if text == written else [written] if wrong else [])
    ]
    return frozenset(site for site in found.values() if site is not None), warnings


def _topic(given: Mapping[str, str], group: str) -> str:
    topic = given.get("config.storage.topic", f"{group}-configs")
    if not is_topic_name(topic):
        whence = "" if "config.storage.topic" in given else " (by group.id)"
        raise InvalidConfiguration(f"config.storage.topic = {topic!r}{whence}: expected {TOPIC.expected}.")
    return topic


def _is_larger(text: str) -> bool:
    """Whether requests may be larger than without it: what a Connect worker has as its default is not."""
    return text.strip().isdecimal() and int(text) > _USUAL_REQUEST


def _given_twice(pairs: Sequence[tuple[str, str]]) -> list[str]:
    names = [name for name, _ in pairs]
    return sorted({name for name in names if names.count(name) > 1})


def _is_known(name: str) -> bool:
    return (
        name in WORKER_OPTIONS
        or is_of_worker(name)
        or limit_of(name) is not None
        or name.startswith(("spark.", *CONVERTERS))
        or name == "offset.flush.interval.ms"
    )


_KINDS: Final[dict[str, FileKind]] = {".json": "json", ".properties": "properties"}
# Configurations by their names, as `headrace run` takes them.
_ALIKE: Final = frozenset({*_KINDS, ".yaml", ".yml"})

# Name, size, time of change and identity: what tells that a file is another.
_Mark = tuple[str, int, int, int]


class ConnectorFiles:
    """The connectors of a folder; `resolved` is what a worker has. Not thread-safe."""

    def __init__(self, folder: Path, resolved: Callable[[str, str], str] = lambda _, text: text) -> None:
        self.folder = folder
        self._resolved = resolved
        self._marks: tuple[_Mark, ...] | None = None
        self._records: dict[str, ConnectorRecord] = {}
        self._of_file: dict[str, ConnectorRecord] = {}
        self._warned = ""
        self._others: list[str] = []

    def records(self) -> dict[str, ConnectorRecord]:
        """All connectors by name; one whose file cannot be read has the reason as its problem.

        A folder or a file that cannot be read for a moment changes nothing: it is read when it can be.
        """
        try:
            # Editors keep locks and copies there whose names begin with a dot.
            there = sorted(path for path in self.folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            self._warn(str(error))
            return self._records
        others = [path.name for path in there if path.suffix.lower() in _ALIKE and path.suffix not in _KINDS]
        self._warn_of_others(others)
        found = [path for path in there if path.suffix in _KINDS]
        marks = tuple(_mark(path) for path in found)
        if marks != self._marks:
            read: dict[str, ConnectorRecord] = {}
            unreadable: list[str] = []
            for path in found:
                try:
                    read[path.name] = self._read(path)
                except (OSError, ReferenceMissing) as error:
                    unreadable.append(str(error))
                    read[path.name] = self._of_file.get(path.name) or _unread(path, str(error))
            # Rights may come back without a trace in what tells one version of a file from another.
            self._marks = None if unreadable else marks
            self._of_file = self._named_as_before(read)
            self._warn("; ".join(unreadable))
            records = by_name(self._unique(list(self._of_file.values())))
            if records != self._records:
                _log.info("connectors_read", folder=str(self.folder), connectors=len(records))
            self._records = records
        elif self._warned:
            self._warn("")
        return self._records

    @property
    def problem(self) -> str | None:
        """Why the folder or a file of it cannot be read at present, if so."""
        return self._warned or None

    def _warn(self, error: str) -> None:
        is_new, self._warned = error not in {"", self._warned}, error
        if is_new:
            _log.warning("connectors_not_read", folder=str(self.folder), error=error)

    def _warn_of_others(self, names: list[str]) -> None:
        if names and names != self._others:
            fix = "end their names with .json or .properties, and write them so"
            _log.warning("connector_files_not_read", folder=str(self.folder), files=names, fix=fix)
        self._others = names

    def _read(self, path: Path) -> ConnectorRecord:
        """What a file has, or that it is no configuration. OSError, ReferenceMissing of its name."""
        try:
            problems = Problems()
            config = read_text(read_regular_text(str(path)), _KINDS[path.suffix], problems)
            problems.raise_if_any()
            # Resolved at once: two files may come to one name.
            name = self._resolved("name", config.get("name", "")).strip() or path.stem.strip() or path.stem
        except (UnicodeDecodeError, SettingsError, NoReference) as error:
            return _unread(path, str(error))
        if _writable(name) != name:
            # Who runs which connector is written, in UTF-8: one that cannot be would keep all from it.
            why = "not UTF-8: rename the file, or give its connector a name"
            return _unread(path, f"the connector's name, {_writable(name)!r}, is {why}")
        return ConnectorRecord(name=name, config={**config, "name": name}, at_ms=0)

    def _named_as_before(self, read: Mapping[str, ConnectorRecord]) -> dict[str, ConnectorRecord]:
        """The connector of a file that is broken now is the one it had, unless another file has that."""
        taken = {record.name for record in read.values() if record.problem is None}
        kept = dict(read)
        for file, record in read.items():
            before = self._of_file.get(file)
            if record.problem is not None and before is not None and before.name not in taken:
                kept[file] = replace(record, name=before.name, config={"name": before.name})
        return kept

    def _unique(self, records: list[ConnectorRecord]) -> list[ConnectorRecord]:
        """Two files of one name are a problem of that connector: neither may win by its place."""
        names = [record.name for record in records]
        twice = {name for name in names if names.count(name) > 1}
        kept = [record for record in records if record.name not in twice]
        return kept + [
            ConnectorRecord(
                name=name,
                config={"name": name},
                at_ms=0,
                problem=f"several files in {self.folder} are of a connector {name!r}; keep one of them",
            )
            for name in sorted(twice)
        ]


def _mark(path: Path) -> _Mark:
    try:
        about = path.stat()
    except OSError:
        # A link whose file is gone: reading it says so.
        return path.name, -1, -1, -1
    return path.name, about.st_size, about.st_mtime_ns, about.st_ino


def _unread(path: Path, why: str) -> ConnectorRecord:
    name, problem = _writable(path.stem.strip() or path.stem), _writable(f"{path} cannot be read: {why}")
    return ConnectorRecord(name=name, config={"name": name}, at_ms=0, problem=problem)


def _writable(text: str) -> str:
    """The text with escapes for what is no character: bytes of a file's name, halves of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
