"""Names of classes as Kafka Connect takes them: whole, without their package, and without their ending."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from headrace.options.given import Problems
from headrace.options.record_forms import KINDS
from headrace.options.references import ReferenceMissing, References, note_missing
from headrace.options.suggestions import unknown_class
from headrace.options.vendor import OTHER_SINKS

_CLASS: Final = "connector.class"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_AIVEN, _CONFLUENT, _LENSES = OTHER_SINKS
_OF_CONFLUENT: Final = frozenset({"s3.bucket.name", "storage.class"})
_OF_LENSES: Final = "connect.s3."


def _aliases(names: Iterable[str], ending: str) -> dict[str, str]:
    """The classes by their short names, but for those that several have."""
    found: dict[str, list[str]] = {}
    for name in names:
        simple = name.rpartition(".")[2]
        for alias in {simple, simple.removesuffix(ending)}:
            found.setdefault(alias, []).append(name)
    return {alias: each[0] for alias, each in found.items() if len(each) == 1}


_SINKS: Final = _aliases(OTHER_SINKS, "Connector")
_KNOWN_CONVERTERS: Final = _aliases(KINDS, "Converter")
# Two makers call theirs so.
_SHARED: Final = frozenset({"S3SinkConnector", "S3Sink"})


def sink_class(name: str, options: Iterable[str]) -> str | None:
    """The class of another vendor's sink that a short name means; None for another name.

    Where two makers have that name, the options that are given decide, and None is that they do not.
    """
    if name not in _SHARED:
        return _SINKS.get(name)
    names = set(options)
    of_lenses = any(each.startswith(_OF_LENSES) for each in names)
    if of_lenses is not names.isdisjoint(_OF_CONFLUENT):
        return None
    return _LENSES if of_lenses else _CONFLUENT


def unclear_class(name: str) -> str | None:
    """What is wrong with a short name that two makers have, and options do not decide; None for another."""
    if name not in _SHARED:
        return None
    return f"is the name of two classes; write the whole name: {_CONFLUENT} or {_LENSES}"


def with_whole_names(
    configuration: Mapping[str, str], options: Iterable[str] | None = None
) -> dict[str, str]:
    """The configuration with whole names of classes; `options` are those of all it, where it is not whole."""
    found = dict(configuration)
    for name, text in configuration.items():
        known = None
        if name.strip() == _CLASS:
            known = sink_class(text.strip(), configuration if options is None else options)
        elif name.strip() in _CONVERTERS:
            known = _KNOWN_CONVERTERS.get(text.strip())
        if known is not None:
            found[name] = known
    return found


def with_class(configuration: Mapping[str, str], references: References) -> Mapping[str, str]:
    """The configuration with its class as it counts; one whose reference leads nowhere is a problem later."""
    with suppress(ReferenceMissing):
        if _CLASS in configuration:
            return {**configuration, _CLASS: references.replaced(_CLASS, configuration[_CLASS])}
    return configuration


def whole_name(option: str, text: str) -> str:
    """The whole name of the class that an option has by a reference; what is no converter's stays."""
    return _KNOWN_CONVERTERS.get(text.strip(), text) if option.strip() in _CONVERTERS else text


def with_converters(worker: Mapping[str, str], references: References) -> dict[str, str]:
    """What a worker's file gives connectors, the converters of known classes by their whole names.

    By the class it is decided which of its options mean something.
    """
    found = dict(worker)
    for name in found.keys() & {*_CONVERTERS}:
        with suppress(ReferenceMissing):
            text = references.replaced(name, found[name]).strip()
            found[name] = text if text in KINDS else found[name]
    return found


def check_class(configuration: Mapping[str, str], references: References, problems: Problems) -> None:
    """Raise SettingsError for a class that is not known: which options there are is decided by it.

    Of a reference that leads nowhere the class is not known either.
    """
    raw = configuration.get(_CLASS, "")
    try:
        named = references.replaced(_CLASS, raw).strip()
    except ReferenceMissing as error:
        note_missing(problems, _CLASS, error)
    else:
        message = unclear_class(named) or unknown_class(named)
        if message is None:
            return
        problems.add(_CLASS, message, raw)
    problems.raise_if_any()
