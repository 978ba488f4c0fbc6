"""A Connect worker's file: its text, what connectors take from it, and what it forbids them.

The text is `.properties`, or the same as one JSON object. It may forbid files, variables, options of
clients, and new topics, as Kafka's classes read it: FileConfigProvider and DirectoryConfigProvider
(`allowed.paths`), EnvVarConfigProvider (`allowlist.pattern`), the policies of
`connector.client.config.override.policy`, and `topic.creation.enable`. What is not set forbids nothing.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Final

from headrace.model.errors import InvalidConfiguration
from headrace.options import client_names
from headrace.options.configuration_text import PropertiesError, parse_properties
from headrace.options.connector_shapes import Members
from headrace.options.given import Problem, Problems, SettingsError, canonical
from headrace.options.references import (
    NO_REFERENCE_LIMITS,
    PROVIDERS,
    ReferenceLimits,
    kind_of,
    plain_path,
)
from headrace.options.value_types import listed

_POLICY: Final = "connector.client.config.override.policy"
_ALLOWLIST: Final = "connector.client.config.override.allowlist"
_TOPICS: Final = "topic.creation.enable"
# A name may have dots.
_PROVIDER: Final = re.compile(
    r"config\.providers\.(.+)\.(class|param\.(?:allowed\.paths|allowlist\.pattern))"
)
_KINDS: Final = {
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
}
_PARAMETERS: Final = {
    "file": "param.allowed.paths",
    "dir": "param.allowed.paths",
    "env": "param.allowlist.pattern",
}
# What Principal leaves to connectors, in Java's words and in librdkafka's.
_PRINCIPAL: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "security.protocol",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
    }
)
_OVERRIDE: Final = re.compile(r"(?:producer|consumer|admin)\.override\.(.+)")
BROKERS: Final = "bootstrap.servers"
_OF_CLIENTS: Final = frozenset({BROKERS, *client_names.TOP_LEVEL})
TOPIC_CREATION: Final = "topic.creation."


class Limit(Enum):
    """Whom an option of a worker's file limits."""

    ALL = "all"
    """References: those of the worker's file as well, as in Connect."""
    CONNECTORS = "connectors"


LIMITS: Final = {
    PROVIDERS: Limit.ALL,
    _POLICY: Limit.CONNECTORS,
    _ALLOWLIST: Limit.CONNECTORS,
    _TOPICS: Limit.CONNECTORS,
}
_OF_ANOTHER_CLUSTER: Final = (
    "remove it if these are brokers of the worker's cluster; on another one this connector's ledger is "
    "there, and all would be done again without it: permit bootstrap.servers with Allowlist"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """What a worker's file forbids its connectors."""

    references: ReferenceLimits = NO_REFERENCE_LIMITS
    policy: str = "All"
    clients: frozenset[str] | None = None
    """The options of clients that connectors may set; None: all."""
    creates_topics: bool = True

    def problems(self, options: Iterable[str]) -> Iterator[Problem]:
        """Yield a problem for each option of clients that a connector may not set."""
        for option in options:
            if self.forbids(option):
                yield Problem(
                    option=option,
                    message=f"the worker's file does not let connectors set this ({_POLICY}={self.policy}); "
                    + (_OF_ANOTHER_CLUSTER if canonical(option).endswith(BROKERS) else "remove it"),
                )

    def forbids(self, option: str) -> bool:
        """Whether it is an option of clients that a connector may not set."""
        known = canonical(option)
        found = _OVERRIDE.fullmatch(known)
        name = found[1] if found is not None else known if known in _OF_CLIENTS else None
        return self.clients is not None and name is not None and name not in self.clients

    def without_topics(self, layer: dict[str, str]) -> tuple[dict[str, str], Sequence[str]]:
        """Return a configuration without what would make topics, as Connect reads it; and what it was."""
        if self.creates_topics:
            return layer, ()
        left_out = [name for name in layer if canonical(name).startswith(TOPIC_CREATION)]
        return {name: text for name, text in layer.items() if name not in left_out}, left_out


NO_LIMITS: Final = WorkerLimits()


def topics_warning(left_out: Sequence[str]) -> tuple[str, ...]:
    """Return the warning for options that would make topics, where no connector may."""
    if not left_out:
        return ()
    names = ", ".join(sorted(left_out))
    return (f"passed over, as the worker's file has {_TOPICS}=false: {names}; create the topics beforehand",)


def limit_of(name: str) -> Limit | None:
    """Return whom an option of a worker's file limits; None: it is not one that is read here."""
    return Limit.ALL if _PROVIDER.fullmatch(name) is not None else LIMITS.get(name)


def worker_limits(given: Mapping[str, str]) -> WorkerLimits:
    """Return what a worker's file forbids. SettingsError for what cannot be honoured."""
    policy, clients = _clients(given)
    return WorkerLimits(
        references=_reference_limits(given),
        policy=policy,
        clients=clients,
        creates_topics=_creates_topics(given),
    )


def _reference_limits(given: Mapping[str, str]) -> ReferenceLimits:
    limits = _limits_by_kind(given)
    limited = {kind: texts for kind, texts in limits.items() if all(text for _, text in texts)}
    is_any = any(text for texts in limits.values() for _, text in texts)
    return ReferenceLimits(
        paths={
            kind: tuple(path for one in limited[kind] for path in _paths(*one)) if kind in limited else None
            for kind in ("file", "dir")
        },
        variables=tuple(_pattern(*one) for one in limited["env"]) if "env" in limited else None,
        closed=frozenset(_PARAMETERS.keys() - limits.keys()) if is_any else frozenset(),
    )


def _limits_by_kind(given: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the limit of each provider, which is empty without one, with its option.

    Each that is listed can be had in Connect, by its name: here by the kind's. Of a kind that is not listed
    a limit counts all the same; a line that was left from a provider neither opens nor lifts.
    """
    providers: dict[str, dict[str, str]] = defaultdict(dict)
    for option, text in given.items():
        found = _PROVIDER.fullmatch(option)
        if found is not None:
            providers[found[1]][found[2]] = text.strip()
    named: dict[str, list[tuple[str, str]]] = defaultdict(list)
    others: dict[str, list[tuple[str, str]]] = defaultdict(list)
    names = listed(given.get(PROVIDERS, ""))
    for name in dict.fromkeys([*names, *providers]):
        about = providers.get(name, {})
        kind = _KINDS.get(about["class"].rpartition(".")[2]) if "class" in about else kind_of(name)
        if kind in _PARAMETERS:
            text = about.get(_PARAMETERS[kind], "")
            if name in names or text:
                into = named if name in names else others
                into[kind].append((f"{PROVIDERS}.{name}.{_PARAMETERS[kind]}", text))
    return {**others, **named}


def _paths(option: str, text: str) -> Iterator[PurePosixPath]:
    # As Java splits it: what is empty at the end is none.
    for one in text.rstrip(", ").split(","):
        path = plain_path(one.strip())
        if not path.is_absolute():
            raise _refused(option, "expected absolute paths, separated by commas", text)
        yield path


def _pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise _refused(option, f"expected a regular expression ({error})", text) from None


def _clients(given: Mapping[str, str]) -> tuple[str, frozenset[str] | None]:
    text = given.get(_POLICY, "").strip() or "All"
    named = text.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    match named.lower():
        case "all":
            return named, None
        case "none":
            return named, frozenset()
        case "principal":
            return named, _PRINCIPAL
        case "allowlist":
            return named, frozenset(listed(given.get(_ALLOWLIST, "")))
    raise _refused(_POLICY, "expected All, None, Principal or Allowlist: no other class can be asked", text)


def _creates_topics(given: Mapping[str, str]) -> bool:
    text = given.get(_TOPICS, "true")
    if text.strip().lower() not in {"true", "false"}:
        raise _refused(_TOPICS, "expected true or false", text)
    return text.strip().lower() == "true"


def _refused(option: str, message: str, text: str) -> SettingsError:
    return SettingsError((Problem(option=option, message=f"of the worker's file: {message}", value=text),))


# What a Connect worker says of Kafka, and of how its sinks read: the rest is about running connectors.
_WORKER: Final = re.compile(
    r"(?:(?:producer|consumer|admin)\.)?(bootstrap\.servers|security\.protocol|(?:sasl|ssl)\..+)"
    r"|consumer\.(isolation\.level|auto\.offset\.reset|group\.id)"
)


def is_of_worker(option: str) -> bool:
    """Whether connectors take this option of Kafka's clients from a Connect worker's file."""
    found = _WORKER.fullmatch(option)
    # A worker's file has more of `ssl.` and `sasl.`: what its own REST interface asks of who connects.
    return found is not None and (found[1] or "") not in client_names.OF_SERVERS | client_names.TUNING


def decides_nothing(option: str, text: str) -> bool:
    """Whether an option of Kafka's clients in a Connect worker's file has no effect here, by its value."""
    found = _WORKER.fullmatch(option)
    return found is not None and client_names.is_without_effect(found[1] or "", text)


_DEFAULTS: Final = re.compile(r"(key|value|header)\.converter(\..+)?|offset\.flush\.interval\.ms")


def connector_defaults(text: str, problems: Problems) -> dict[str, str]:
    """The converters and the flush interval of a worker's `.properties` text; broken text is a problem."""
    try:
        pairs = parse_properties(text.removeprefix("\ufeff"))
    except PropertiesError as error:
        problems.add("", f"the worker's .properties text is broken: {error}")
        return {}
    return {name: value for name, value in pairs if _DEFAULTS.fullmatch(name)}


_BOM: Final = "\ufeff"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
_ESCAPES_OF_NAMES: Final = str.maketrans({sign: f"\\{sign}" for sign in "=: #!"})


def is_json(text: str, suffix: str) -> bool:
    """Whether a worker's file is JSON, by the end of its name or by what it holds.

    No option begins with a brace: such a text has none of a worker's options as `.properties`, and what it
    forbids connectors would not hold.
    """
    return suffix.lower() == ".json" or text.removeprefix(_BOM).lstrip().startswith("{")


def worker_pairs(text: str, *, is_json: bool) -> list[tuple[str, str]]:
    """Return the options of a worker's file in order, one given twice twice. InvalidConfiguration."""
    content = text.removeprefix(_BOM)
    try:
        pairs = _json_pairs(content) if is_json else parse_properties(content)
    except (PropertiesError, ValueError) as error:
        raise InvalidConfiguration(f"The worker's file cannot be read: {error}.") from error
    return [(name, value if _has_own_blanks(name) else value.strip()) for name, value in pairs]


def _json_pairs(text: str) -> list[tuple[str, str]]:
    """Return the options that have a value; ValueError of a text that is no JSON."""
    try:
        found = json.loads(text, object_pairs_hook=Members)
    except RecursionError:
        raise InvalidConfiguration("The worker's file cannot be read: it is nested too deeply.") from None
    if isinstance(found, Members) and isinstance(dict(found).get("config"), Members):
        raise _of_connector("config")
    if not isinstance(found, Members) or any(isinstance(value, list) for _, value in found):
        raise InvalidConfiguration("The worker's file has to be one JSON object of options and their values.")
    last = dict(found)
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in found
        if last[name] is not None
    ]


# A line of one of them may be left over.
_BY_CHANCE: Final = 1
_OF_CONNECTORS: Final = (
    "connector.class",
    "topic",
    "topics",
    "topics.regex",
    "aws.s3.bucket.name",
    "s3.bucket.name",
    "connect.s3.kcql",
)


def refuse_connector(written: Mapping[str, str]) -> None:
    """InvalidConfiguration of a connector's: it would run as a worker that does nothing of it."""
    found = [name for name in _OF_CONNECTORS if name in written]
    if "connector.class" in found or len(found) > _BY_CHANCE:
        raise _of_connector(", ".join(found))


def _of_connector(named: str) -> InvalidConfiguration:
    """What to say of the configuration of a connector in place of a worker's file, by options of it."""
    return InvalidConfiguration(
        f"The worker's file is the configuration of a connector ({named}): create it at a worker that runs "
        "(POST /connectors), or put the file into the folder of --connectors; `headrace run` runs it alone."
    )


def _has_own_blanks(name: str) -> bool:
    """Whether blanks at the ends of the value are its own.

    Kafka cuts them off from whatever it knows, other secrets included; a password of SASL it has in
    `sasl.jaas.config` only, in quotes.
    """
    return name.endswith("sasl.password")


def properties_text(given: Mapping[str, str]) -> str:
    """Return the options as `.properties` text, every sign that means something there escaped."""
    lines = []
    for name, value in given.items():
        key, text = name.translate(_ESCAPES | _ESCAPES_OF_NAMES), value.translate(_ESCAPES)
        lines.append(f"{key}=\\{text}" if text.startswith(" ") else f"{key}={text}")
    return "\n".join(lines)
