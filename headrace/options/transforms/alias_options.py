"""The options of one transform or predicate, under its alias, read one by one; every problem is noted.

Paths of fields have Kafka's second syntax: names with dots between, in backticks where they hold dots.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from headrace.model.text_formatting import HINTED, did_you_mean, similar
from headrace.names.date_fields import DateKind, has_short_name, read_zone
from headrace.names.date_letters import DateDialect
from headrace.names.date_pattern import DatePattern, DatePatternError, read_date_pattern
from headrace.options.given import Entry, Problems
from headrace.options.transforms.java_regex import JavaRegexError, java_regex
from headrace.options.value_types import listed

T = TypeVar("T")

BLANKS: Final = "".join(map(chr, range(33)))
"""What Java's `trim` takes away from both ends of a text."""

# Of Connect's plugins (KIP-891); there is one version of each class here.
_VERSION: Final = "plugin.version"


# Whose classes read their options themselves; others have them trimmed by Kafka.
_AS_GIVEN: Final = "io.debezium."


class AliasOptions:
    """What is under `prefix` (`transforms.route.`). A value with a problem reads as if it were absent."""

    def __init__(self, prefix: str, entries: Mapping[str, Entry], problems: Problems) -> None:
        self.prefix = prefix
        self._entries = {
            name.removeprefix(prefix): entry
            for name, entry in entries.items()
            if name.startswith(prefix) and name != prefix + _VERSION
        }
        kind = self._entries.get("type")
        self._blanks = "" if kind is not None and kind.text.strip().startswith(_AS_GIVEN) else BLANKS
        self._problems = problems
        self._known: set[str] = set()

    def texts(self) -> dict[str, str]:
        """All options as they are given."""
        return {name: entry.text for name, entry in self._entries.items()}

    def text(self, name: str) -> str | None:
        """The text of an option, as its class has it; None where it is not given."""
        self._known.add(name)
        entry = self._entries.get(name)
        return None if entry is None else entry.text.strip(self._blanks)

    def filled(self, name: str) -> str | None:
        """The same, and an empty text is none."""
        return self.text(name) or None

    def required(self, name: str, expected: str) -> str | None:
        """The text of an option that has to be given, and is not empty."""
        text = self.filled(name)
        if text is None:
            self.refuse(name, f"is missing; expected {expected}")
        return text

    def names(self, name: str, *, also: str | None = None) -> tuple[str, ...]:
        """A comma-separated list; `also` is an older name of the option, which is read without it."""
        text = self.text(name)
        older = None if also is None else self.text(also)
        text = older if text is None else text
        return () if text is None else listed(text)

    def required_names(self, name: str) -> tuple[str, ...]:
        """A list that has to have something in it."""
        found = self.names(name)
        if not found:
            self.refuse(name, "is missing; expected a comma-separated list of names")
        return found

    def boolean(self, name: str, *, otherwise: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return otherwise
        if text.strip().lower() not in {"true", "false"}:
            self.refuse(name, "expected true or false")
        return text.strip().lower() == "true"

    def choice(self, name: str, values: Collection[str], otherwise: str | None) -> str | None:
        """One of some texts, upper or lower case; without `otherwise` it has to be given."""
        expected = f"one of {', '.join(values)}"
        text = self.filled(name) if otherwise is not None else self.required(name, expected)
        if text is None:
            return otherwise
        for value in values:
            if value.lower() == text.strip().lower():
                return value
        self.refuse(name, f"expected {expected}")
        return otherwise

    def number(self, name: str) -> int | None:
        """A whole number from 1."""
        text = self.filled(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or not int(text):
            self.refuse(name, "expected a whole number from 1")
            return None
        return int(text)

    def integer(self, name: str) -> int | None:
        """A whole number of 32 bits."""
        text = self.filled(name)
        if text is None:
            return None
        digits = text.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or not -(2**31) <= int(text) < 2**31:
            self.refuse(name, "expected a whole number of 32 bits")
            return None
        return int(text)

    def regex(self, name: str, expected: str) -> str | None:
        """A regular expression of Java's, as Python's."""
        text = self.required(name, expected)
        return None if text is None else self._read(name, text, java_regex, JavaRegexError)

    def dates(
        self,
        name: str,
        text: str,
        *,
        zone: str = "UTC",
        dialect: DateDialect = DateDialect.JAVA,
        is_read: bool = False,
    ) -> DatePattern | None:
        """A date pattern of Java's, which is in this option, for times of this zone."""

        def read(pattern: str) -> DatePattern:
            found = read_date_pattern(pattern, dialect, is_name=False, is_read=is_read)
            has_name = any(field.kind is DateKind.ZONE_NAME for field in found.fields)
            if has_name and not has_short_name(zone):
                raise DatePatternError(f"{zone} has no short name; write XXX for its offset")
            return found

        return self._read(name, text, read, DatePatternError)

    def timezone(self, name: str) -> str:
        """Return the name of a time zone, or its offset."""
        text = (self.filled(name) or "UTC").strip()
        try:
            return str(read_zone(text))
        except ValueError:
            self.refuse(name, "expected a time zone such as UTC, Europe/Berlin or +02:00")
            return "UTC"

    def refuse(self, name: str, message: str) -> None:
        """Note a problem of one option."""
        self._known.add(name)
        entry = self._entries.get(name)
        spelled = self.prefix + name if entry is None else entry.spelled
        self._problems.add(spelled, message, None if entry is None else entry.shown)

    def refuse_unknown(self, what: str) -> None:
        """Note the options that were not read: they mean nothing to `what`."""
        for name in sorted(self._entries.keys() - self._known):
            close = similar(name, sorted(self._known)) if len(self._problems) < HINTED else None
            meant = None if close is None else self.prefix + close
            self.refuse(name, f"is not an option of {what}; {did_you_mean(meant, otherwise='remove it')}")

    def _read(self, name: str, text: str, read: Callable[[str], T], wrong: type[ValueError]) -> T | None:
        try:
            return read(text)
        except wrong as error:
            self.refuse(name, str(error))
            return None


class FieldPathError(ValueError):
    """A path that cannot be read; the text says why."""


def nested_path(text: str) -> tuple[str, ...]:
    """The names of a path; within backticks a dot is part of a name, and a backtick has a backslash."""
    names: list[str] = []
    at = 0
    while True:
        if text.startswith("`", at):
            name, at = _quoted(text, at + 1)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            name, at = text[at:end], end
        names.append(name)
        if at == len(text):
            break
        at += 1
    if not all(names):
        raise FieldPathError("a part of the path is empty")
    return tuple(names)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The name within backticks, and where it ends: at a dot, or at the end of the path."""
    name = ""
    while at < len(text):
        if text.startswith("\\`", at):
            name, at = name + "`", at + 2
        elif text[at] == "`" and text[at + 1 : at + 2] in {"", "."}:
            return name, at + 1
        else:
            name, at = name + text[at], at + 1
    raise FieldPathError("a backtick (`) is not closed")
