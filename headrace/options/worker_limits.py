"""What a Connect worker's file forbids its connectors: files, variables, options of clients, new topics.

As Kafka's classes read it: FileConfigProvider and DirectoryConfigProvider (`allowed.paths`),
EnvVarConfigProvider (`allowlist.pattern`), the policies of `connector.client.config.override.policy`, and
`topic.creation.enable`. What is not set forbids nothing.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Final

from headrace.options import client_names
from headrace.options.given import Problem, SettingsError, canonical, kind_of
from headrace.options.value_types import listed

_PROVIDERS: Final = "config.providers"
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
    _PROVIDERS: Limit.ALL,
    _POLICY: Limit.CONNECTORS,
    _ALLOWLIST: Limit.CONNECTORS,
    _TOPICS: Limit.CONNECTORS,
}
_OF_ANOTHER_CLUSTER: Final = (
    "remove it if these are brokers of the worker's cluster; on another one this connector's ledger is "
    "there, and all would be done again without it: permit bootstrap.servers with Allowlist"
)


class NotAllowed(LookupError):
    """A reference to what the worker's file does not give to its connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLimits:
    """Which references are followed, by their kind (`file`, `dir`, `env`); None: all of a kind."""

    paths: Mapping[str, tuple[PurePosixPath, ...] | None] = field(default_factory=dict)
    variables: tuple[re.Pattern[str], ...] | None = None
    closed: frozenset[str] = frozenset()
    """Kinds of which there is no provider, next to one with a limit."""

    def path(self, kind: str, path: str) -> str:
        """Return the path to read. NotAllowed."""
        self._require_open(kind)
        allowed = self.paths.get(kind)
        if allowed is None:
            return path
        # What is judged is what is read: without `..`, whatever links would make of that.
        plain = _plain(path)
        if not any(plain.is_relative_to(one) for one in allowed):
            raise NotAllowed(
                f"the worker's file does not let connectors read {path}: it is outside of allowed.paths of "
                f"its provider of {kind!r}"
            )
        return str(plain)

    def variable(self, name: str) -> str:
        """Return the variable to read. NotAllowed."""
        self._require_open("env")
        if self.variables is not None and not any(one.fullmatch(name) for one in self.variables):
            raise NotAllowed(
                f"the worker's file does not let connectors read the variable {name}: it is not of "
                "allowlist.pattern of its provider of 'env'"
            )
        return name

    def _require_open(self, kind: str) -> None:
        if kind in self.closed:
            raise NotAllowed(
                f"the worker's file limits what connectors may read and has no provider of {kind!r}: add one "
                f"to {_PROVIDERS}"
            )


NO_REFERENCE_LIMITS: Final = ReferenceLimits()


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
    names = listed(given.get(_PROVIDERS, ""))
    for name in dict.fromkeys([*names, *providers]):
        about = providers.get(name, {})
        kind = _KINDS.get(about["class"].rpartition(".")[2]) if "class" in about else kind_of(name)
        if kind in _PARAMETERS:
            text = about.get(_PARAMETERS[kind], "")
            if name in names or text:
                into = named if name in names else others
                into[kind].append((f"{_PROVIDERS}.{name}.{_PARAMETERS[kind]}", text))
    return {**others, **named}


def _paths(option: str, text: str) -> Iterator[PurePosixPath]:
    # As Java splits it: what is empty at the end is none.
    for one in text.rstrip(", ").split(","):
        path = _plain(one.strip())
        if not path.is_absolute():
            raise _refused(option, "expected absolute paths, separated by commas", text)
        yield path


def _plain(path: str) -> PurePosixPath:
    """Return the path without `..` and repeated slashes; POSIX keeps two at the start, and Java does not."""
    found = posixpath.normpath(path)
    return PurePosixPath(f"/{found.lstrip('/')}" if found.startswith("/") else found)


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
