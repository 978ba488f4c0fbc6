"""The options of a configuration, parsed one by one; what one means next to another is for `checks`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from headrace.options.declarations import OPTIONS
from headrace.options.declarations.option import Option
from headrace.options.given import Entry, Problems, canonical
from headrace.options.value_types import FormError

T = TypeVar("T")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Values:
    """Parsed values by option: `values[POLL_INTERVAL]` is an int. Options with a problem are not `good`."""

    __slots__ = ("_bad", "_defaults", "_given", "_lost", "_parsed", "problems")

    def __init__(
        self,
        given: Mapping[str, Entry],
        problems: Problems,
        broken: frozenset[str],
        defaults: Mapping[str, str] = _NONE,
    ) -> None:
        """Parse all options; `broken` names those that have a problem before parsing.

        `defaults` are those that this machine has, in the place of the options' own.
        """
        self.problems = problems
        self._given = given
        self._defaults = defaults
        self._lost = broken
        self._bad = set(broken)
        self._parsed: dict[str, object] = {}
        for option in OPTIONS:
            if option.name not in self._bad:
                self._parse(option)

    def __getitem__(self, option: Option[T]) -> T:
        return cast("T", self._parsed[option.name])

    def is_given(self, option: Option[Any]) -> bool:
        """Whether the configuration names the option, well or badly, and does not leave it to its default."""
        return option.name in self._given or option.name in self._lost

    def text(self, option: Option[Any]) -> str | None:
        """The text of an option as given, references replaced; None when it is not."""
        entry = self._given.get(option.name)
        return None if entry is None else entry.text

    def are_good(self, *options: Option[Any]) -> bool:
        """Whether all of these have a value, so that they can be held against each other."""
        return not any(option.name in self._bad for option in options)

    def refuse(self, option: Option[Any], message: str) -> None:
        """Note a problem of an option, with the value given."""
        entry = self._given.get(option.name)
        self.problems.add(_named(option, entry), message, None if entry is None else entry.shown)

    def _parse(self, option: Option[Any]) -> None:
        entry = self._given.get(option.name)
        if entry is None:
            self._parse_default(option)
            return
        if entry.text == "" and not option.form.empty:
            self._refuse_entry(entry, f"is empty; expected {option.form.expected}")
            return
        try:
            entry.text.encode()
            self._parsed[option.name] = option.form.parse(entry.text)
        except UnicodeEncodeError:
            self._refuse_entry(entry, "holds half of a surrogate pair, which is no character")
            return
        except FormError as error:
            reason = f"; {error}" if str(error) else ""
            self._refuse_entry(entry, f"expected {option.form.expected}{reason}")

    def _parse_default(self, option: Option[Any]) -> None:
        if option.required:
            self._bad.add(option.name)
            self.problems.add(option.name, f"is missing; expected {option.form.expected}")
        elif option.name in self._defaults:
            self._parse_machines(option, self._defaults[option.name])
        else:
            self._parsed[option.name] = None if option.default is None else option.form.parse(option.default)

    def _parse_machines(self, option: Option[Any], text: str) -> None:
        try:
            self._parsed[option.name] = option.form.parse(text)
        except FormError:
            self._bad.add(option.name)
            self.problems.add(option.name, f"is {text!r} on this machine; set it to {option.form.expected}")

    def _refuse_entry(self, entry: Entry, message: str) -> None:
        self._bad.add(entry.option)
        spelled = _other_name(entry)
        self.problems.add(entry.spelled, f"{message}{spelled}", entry.shown)


def _named(option: Option[Any], entry: Entry | None) -> str:
    """The name that the configuration has for an option."""
    if entry is None or canonical(entry.spelled) == option.name:
        return option.name
    return f"{entry.spelled} (here {option.name})"


def _other_name(entry: Entry) -> str:
    if entry.spelled == entry.option:
        return ""
    if canonical(entry.spelled) == entry.option:
        return f" (an old spelling of {entry.option})"
    return f" (here {entry.option})"
