"""The worker's file: where it listens, where its connectors' configurations are, and what these leave out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings
from headrace.options.configuration_text import (
    PropertiesError,
    ReferenceMissing,
    References,
    parse_properties,
)
from headrace.options.value_types import LISTEN, FormError
from headrace.vendors.load import load

DEFAULT_GROUP: Final = "headrace-workers"
_DEFAULT_REST: Final = "127.0.0.1:8083"
# Options of `headrace run` that are the process's: here they are the worker's.
_OF_THE_PROCESS: Final = ("http.listen", "rest.listen", "rest.auth.file", "state.dir")
WORKER_OPTIONS: Final = frozenset(
    {
        "group.id",
        "config.storage.topic",
        "config.storage.replication.factor",
        "listeners",
        "rest.advertised.host.name",
        "rest.advertised.port",
        "session.timeout.ms",
        "bootstrap.servers",
        *_OF_THE_PROCESS,
    }
)
_CLIENTS: Final = ("security.", "sasl.", "ssl.", "producer.", "consumer.", "admin.")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
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
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the workers' own ledger and group, which no connector may have."""
        return f"worker-{self.group}"


def read_worker(
    text: str, *, is_json: bool, environment: Mapping[str, str], read_file: Callable[[str], str]
) -> WorkerSettings:
    """The settings of a worker's file. SettingsError, InvalidConfiguration."""
    written = _pairs(text, is_json=is_json)
    references = References(environment=environment, read_file=read_file)
    # What goes on to connectors keeps its references: they are resolved where it is used.
    given = {
        name: _resolved(references, name, value) if name in WORKER_OPTIONS else value
        for name, value in written.items()
    }
    listen = _rest_listen(given)
    options: dict[str, str] = {name: given[name] for name in _OF_THE_PROCESS if name in given}
    options |= {name: value for name, value in given.items() if name.startswith("spark.")}
    file = _properties(written)
    frame = load(
        json.dumps(_FRAME | options | {"rest.listen": listen}),
        kind="json",
        environment=environment,
        read_file=read_file,
        worker_config=file,
    )
    group = given.get("group.id", DEFAULT_GROUP)
    unknown = sorted(name for name in given if not _is_known(name))
    warnings = (f"accepted without a meaning here: {', '.join(unknown)}",) if unknown else ()
    return WorkerSettings(
        frame=frame,
        group=group,
        topic=given.get("config.storage.topic", f"{group}-configs"),
        replication_factor=_number(given, "config.storage.replication.factor"),
        session_timeout_ms=_number(given, "session.timeout.ms") or 10_000,
        advertised_host=given.get("rest.advertised.host.name"),
        advertised_port=_number(given, "rest.advertised.port"),
        text=file,
        warnings=warnings,
    )


def _pairs(text: str, *, is_json: bool) -> dict[str, str]:
    content = text.removeprefix("\ufeff")
    try:
        if not is_json:
            return {name: value.strip() for name, value in parse_properties(content)}
        found = json.loads(content)
    except (PropertiesError, ValueError) as error:
        raise InvalidConfiguration(f"The worker's file cannot be read: {error}.") from error
    if not isinstance(found, dict) or any(isinstance(value, dict | list) for value in found.values()):
        raise InvalidConfiguration("The worker's file has to be one JSON object of options and their values.")
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
        if value is not None
    }


def _properties(given: Mapping[str, str]) -> str:
    """The options as `.properties` text, every sign that means something there escaped."""
    lines = []
    for name, value in given.items():
        escaped = [
            text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            for text in (name, value)
        ]
        key = escaped[0].replace("=", "\\=").replace(":", "\\:").replace(" ", "\\ ")
        lines.append(f"{key}={escaped[1]}")
    return "\n".join(lines)


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


def _listener(text: str | None) -> str | None:
    """Connect's `listeners`, of which the first that is HTTP counts: `http://host:port`, `http://:port`."""
    for one in (text or "").split(","):
        url = urlsplit(one.strip())
        if url.scheme.lower() == "http":
            try:
                return f"{url.hostname or '0.0.0.0'}:{url.port or 8083}"  # noqa: S104 - as Connect reads it
            except ValueError as error:
                raise InvalidConfiguration(f"listeners = {text!r}: expected http://HOST:PORT.") from error
    if text and text.strip():
        if "://" not in text:
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


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError as error:
        raise InvalidConfiguration(f"{name} = {text!r}: expected a whole number.") from error
    # -1 leaves the replication to the broker, as in Connect.
    return None if found == -1 else found


def _is_known(name: str) -> bool:
    is_client = name.startswith((*_CLIENTS, "spark."))
    return (
        name in WORKER_OPTIONS
        or is_client
        or name.startswith(_CONVERTERS)
        or name == "offset.flush.interval.ms"
    )
