"""The forms that a value may take: each a sentence saying what is expected, and the parser that holds to it.

A parser gets text and returns a value or raises FormError. The reason it gives never contains the text, which
may be a secret; the one that reports the problem decides whether the value may be shown next to it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from ipaddress import IPv6Address
from typing import Final, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from headrace.names.archive_names import is_topic_name
from headrace.options.secret import Secret

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)

Kind = Literal["STRING", "INT", "LONG", "BOOLEAN", "LIST", "PASSWORD", "CLASS"]
"""Kafka Connect's names of types, as its REST interface gives them."""

_INT_MAX: Final = 2**31 - 1
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_HOST: Final = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\])"
_HOST_PORT: Final = re.compile(rf"({_HOST}):([0-9]{{1,5}})")
_PORT_MAX: Final = 65535
_BARE_HOST: Final = re.compile(rf"localhost|{_HOST}:[0-9]{{1,5}}|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_VISIBLE: Final = re.compile(r"[^\x00-\x20\x7f]+")


class FormError(ValueError):
    """A value does not have its form; the text adds to what the form expects and never holds the value."""


def check_tag(name: str) -> None:
    """Raises FormError for the name of a tag that S3 refuses on each object, in any case of its letters."""
    if name.lower().startswith("aws:"):
        raise FormError("names of tags that begin with aws: are AWS's own, which S3 takes from no client")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form(Generic[T_co]):
    """What an option's value looks like: for parsing, for the error text, for the docs and for REST."""

    kind: Kind
    expected: str
    parse: Callable[[str], T_co]
    values: tuple[str, ...] = ()
    empty: bool = False
    """Whether the empty text is a value; elsewhere it is a problem of its own."""

    def takes(self, text: str) -> bool:
        """Whether a text has this form."""
        try:
            self.parse(text)
        except FormError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return (
            self.host in {"localhost", "::1"} or re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host) is not None
        )


def integer(low: int, high: int | None = None, *, unit: str = "", also: int | None = None) -> Form[int]:
    """Return the form of a whole number between two bounds, or one special value next to them."""
    top = _INT_MAX if high is None else high
    numbers = f"a whole number{f' of {unit}' if unit else ''} from {low:,}"
    expected = (
        f"{numbers}{f' to {top:,}' if high is not None else ''}{f', or {also}' if also is not None else ''}"
    )

    def parse(text: str) -> int:
        if not WHOLE_NUMBER.fullmatch(text.strip()):
            raise FormError
        number = int(text)
        if not (low <= number <= top or number == also):
            raise FormError
        return number

    return Form(kind="INT" if top <= _INT_MAX else "LONG", expected=expected, parse=parse)


def long(low: int, *, unit: str = "") -> Form[int]:
    """Return the form of a whole number of up to 63 bits."""
    form = integer(low, 2**63 - 1)
    return Form(
        kind="LONG", expected=f"a whole number{f' of {unit}' if unit else ''} from {low:,}", parse=form.parse
    )


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise FormError


BOOLEAN: Final = Form(kind="BOOLEAN", expected="true or false", parse=_boolean, values=("true", "false"))


def choice(kinds: type[E]) -> Form[E]:
    """Return the form of one of an enum's values, upper or lower case as the Aiven connector takes them."""
    names = tuple(kinds)

    def parse(text: str) -> E:
        try:
            return kinds(text.strip().lower())
        except ValueError:
            raise FormError from None

    return Form(kind="STRING", expected=_one_of(names), parse=parse, values=names)


def choices(kinds: type[E]) -> Form[tuple[E, ...]]:
    """Return the form of a comma-separated list of an enum's values."""
    one = choice(kinds)

    def parse(text: str) -> tuple[E, ...]:
        return tuple(dict.fromkeys(one.parse(item) for item in text.split(",")))

    return Form(kind="LIST", expected=f"a comma-separated list of {_one_of(one.values)}", parse=parse)


def _one_of(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def matching(pattern: str, expected: str) -> Form[str]:
    """Return the form of a text that a regular expression matches as a whole, blanks around it removed."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str:
        stripped = text.strip()
        if not compiled.fullmatch(stripped):
            raise FormError
        return stripped

    return Form(kind="STRING", expected=expected, parse=parse)


def _any_text(text: str) -> str:
    if "\x00" in text:
        raise FormError("a NUL character is in it")
    return text


_BLANKS: Final = "".join(map(chr, range(33)))


def trimmed(text: str) -> str:
    """A text as Java's `trim` has it, which Kafka's classes do with all texts and passwords that they parse.

    A secret that is mounted as a file most often has a line end.
    """
    return text.strip(_BLANKS)


def _trimmed_text(text: str) -> str:
    found = trimmed(_any_text(text))
    if not found:
        raise FormError
    return found


CHARACTERS: Final = Form(kind="STRING", expected="characters of any kind", parse=str)
TEXT: Final = Form(kind="STRING", expected="a text that is not empty", parse=_any_text)
TRIMMED: Final = Form(kind="STRING", expected="a text that is not empty", parse=_trimmed_text)


def listed(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list, without blanks around them and without empty ones."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _aliases(text: str) -> tuple[str, ...]:
    found = listed(text)
    if not all(re.fullmatch(r"[A-Za-z0-9_-]+", alias) for alias in found):
        raise FormError
    return found


ALIASES: Final = Form(
    kind="LIST",
    expected="a comma-separated list of aliases of A-Z a-z 0-9 _ -",
    parse=_aliases,
    empty=True,
)


def _key_text(text: str) -> str:
    # S3 limits a key to 1,024 bytes of UTF-8.
    if len(_any_text(text).encode()) > 1024:  # noqa: PLR2004  # as said above
        raise FormError("S3 keys end at 1,024 bytes")
    return text


KEY_PREFIX: Final = Form(kind="STRING", expected="the beginning of keys", parse=_key_text, empty=True)
KEY: Final = Form(kind="STRING", expected="an object key", parse=_key_text)


def _secret(text: str) -> Secret:
    if not _VISIBLE.fullmatch(text.strip()):
        raise FormError
    return Secret(text.strip())


SECRET: Final = Form(kind="PASSWORD", expected="a text without blanks", parse=_secret)


def _topic(text: str) -> str:
    if not is_topic_name(text.strip()):
        raise FormError
    return text.strip()


TOPIC: Final = Form(kind="STRING", expected="a topic name: 1 to 249 of a-z A-Z 0-9 . _ -", parse=_topic)


def _url(text: str, *, path_needed: bool = False, bare_host: bool = False) -> str:
    stripped = text.strip()
    if bare_host and _BARE_HOST.fullmatch(stripped):
        stripped = f"https://{stripped}"
    if not _VISIBLE.fullmatch(stripped):
        raise FormError
    try:
        address = urlsplit(stripped)
        port = address.port
    except ValueError:
        raise FormError from None
    if address.username is not None:
        raise FormError("user and password do not belong in it")
    if address.scheme not in {"http", "https"} or not address.hostname or port == 0:
        raise FormError
    host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
    if re.fullmatch(_HOST, host) is None or address.query or address.fragment:
        raise FormError
    if path_needed and not address.path.strip("/"):
        raise FormError("the path that names it is missing")
    return stripped


URL: Final = Form(kind="STRING", expected="a URL such as https://host:port", parse=_url)
ENDPOINT: Final = Form(
    kind="STRING",
    expected="a URL such as https://host:port (https where the scheme is left out)",
    parse=partial(_url, bare_host=True),
)
QUEUE_URL: Final = Form(
    kind="STRING",
    expected="the URL of a queue (not its name or ARN), such as https://sqs.us-east-1.amazonaws.com/123456789012/queue",
    parse=partial(_url, path_needed=True),
)


def _host_port(text: str) -> HostPort:
    found = _HOST_PORT.fullmatch(text.strip())
    if found is None or int(found[2]) > _PORT_MAX:
        raise FormError
    return HostPort(found[1].strip("[]"), int(found[2]))


def _host(text: str) -> str:
    host = text.strip()
    try:
        if ":" in host or host.startswith("["):
            return str(IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host))
        host.encode("idna")
    except ValueError as error:
        raise FormError from error
    if re.fullmatch(_HOST, host) is None:
        raise FormError
    return host


HOST: Final = Form(
    kind="STRING",
    expected="the name or address of a host, such as worker-1.example or 10.0.0.1",
    parse=_host,
)


def _listen(text: str) -> HostPort | None:
    return _host_port(text) if text.strip() else None


LISTEN: Final = Form(kind="STRING", expected="host:port, or empty for off", parse=_listen, empty=True)


def _servers(text: str) -> str:
    servers = [_host_port(item) for item in text.split(",") if item.strip()]
    if not servers or any(server.port == 0 for server in servers):
        raise FormError
    return ",".join(map(str, servers))


SERVERS: Final = Form(kind="LIST", expected="a comma-separated list of host:port", parse=_servers)


_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


def _buckets(text: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in text.split(","))
    if any(name.startswith("arn:") and ":accesspoint" in name for name in names):
        raise FormError("an access point is named by its alias, which ends with -s3alias")
    if not all(map(_BUCKET.fullmatch, names)):
        raise FormError
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormError(f"{twice} is there twice")
    return names


BUCKETS: Final = Form(
    kind="LIST",
    expected="the bare name of a bucket, 3 to 63 characters, or of several, separated by commas",
    parse=_buckets,
)


GLOBS: Final = Form(kind="LIST", expected="a comma-separated list of globs", parse=listed, empty=True)


def _beginnings(text: str) -> tuple[str, ...]:
    if not _SIGNS_OF_GLOBS.isdisjoint(text):
        # Read letter by letter they would leave out nothing.
        raise FormError("globs (*, ? and [) go into object.exclude")
    return listed(text)


_SIGNS_OF_GLOBS: Final = frozenset("*?[")
BEGINNINGS: Final = Form(
    kind="LIST", expected="a comma-separated list of beginnings of keys", parse=_beginnings, empty=True
)


def _manifests(text: str) -> tuple[str, ...]:
    found = listed(text)
    for url in found:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        if not url.startswith("s3://") or not re.fullmatch(r"[A-Za-z0-9._-]{3,63}", bucket):
            raise FormError
        if key.rpartition("/")[2] != "manifest.json":
            raise FormError("each ends in manifest.json")
    return found


MANIFESTS: Final = Form(
    kind="LIST",
    expected="a comma-separated list of s3://BUCKET/KEY, each of a manifest.json",
    parse=_manifests,
    empty=True,
)


# As keys have them: Quix's have blanks too.
_ARCHIVED_TOPIC: Final = re.compile(r"[A-Za-z0-9._ -]{1,249}")


def _topic_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        before, colon, after = item.rpartition(":")
        if not colon or not before.strip() or before.strip() in pairs:
            raise FormError
        if not _ARCHIVED_TOPIC.fullmatch(before.strip()):
            raise FormError(f"{before.strip()!r} is no topic: a topic is named as it is, not by a pattern")
        pairs[before.strip()] = _topic(after)
    return tuple(pairs.items())


TOPIC_MAP: Final = Form(
    kind="LIST",
    expected="a comma-separated list of from:to, each `from` once",
    parse=_topic_map,
    empty=True,
)
