"""Quix's own names for the options of its file sink, which a configuration of its layout may have."""

from collections.abc import Mapping
from typing import Final

from headrace.options.given import Problems
from headrace.options.properties import ReferenceMissing, References

_LAYOUT: Final = "output.layout"
_OURS: Final = {
    "directory": "aws.s3.prefix",
    "commit.interval": "rotate.age.ms",
    "commit.every": "rotate.records",
}
_MOST_SECONDS: Final = 7 * 24 * 3600


def is_quix(configuration: Mapping[str, str]) -> bool:
    """Whether a configuration has the layout of Quix's sink."""
    layouts = (text for name, text in configuration.items() if name.strip() == _LAYOUT)
    return next(layouts, "").strip().lower() == "quix"


def with_our_names(layer: Mapping[str, str], references: References, problems: Problems) -> dict[str, str]:
    """Return a layer of a configuration with our names in the place of Quix's."""
    found = {name.strip(): text for name, text in layer.items()}
    for theirs, ours in _OURS.items():
        if theirs not in found:
            continue
        if ours in found:
            problems.add(theirs, f"says what {ours} says; keep one of them", found[theirs])
        try:
            text = references.replaced(theirs, found.pop(theirs)).strip()
        except ReferenceMissing as error:
            problems.add(theirs, str(error))
            continue
        value = _value(theirs, text, problems)
        if value:
            found[ours] = value
    return found


def _value(name: str, text: str, problems: Problems) -> str:
    """What our option is given; empty where it is not."""
    if name == "directory":
        directory = text.strip("/")
        return f"{directory}/" if directory else ""
    if name == "commit.every":
        if not text.isdecimal():
            problems.add(name, "expected a whole number of records, or 0 for any number", text)
            return ""
        return text
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _MOST_SECONDS:
        problems.add(name, f"expected a number of seconds above 0 and up to {_MOST_SECONDS:,}", text)
        return ""
    return str(max(round(seconds * 1000), 1))
