"""The options, declared once: parsing, error texts, `docs/options.md` and the REST interface come from here.

`connection` holds what Headrace is and talks to, `reading` how objects are found and read, `records` what
becomes of them, `format` where their schemas are and how rows are distinguished, `restore` what an archive
is, `sink` and `layout` what a sink writes.
`option` has what an option is, those under a name that the configuration chooses (transforms, routes), and
names of other tools that are accepted without a meaning.
"""

from types import ModuleType
from typing import Any, Final

from headrace.options.declarations import (
    connection_options,
    format_options,
    layout_options,
    option,
    reading_options,
    record_options,
    restore_options,
    sink_options,
)
from headrace.options.declarations.option import Family, Option


def _declared(module: ModuleType) -> list[Option[Any]]:
    return [value for value in vars(module).values() if isinstance(value, Option)]


OPTIONS: Final[tuple[Option[Any], ...]] = (
    *_declared(connection_options),
    *_declared(reading_options),
    *_declared(record_options),
    *_declared(format_options),
    *_declared(restore_options),
    *_declared(option),
    *_declared(sink_options),
    *_declared(layout_options),
)
FAMILIES: Final[tuple[Family, ...]] = (
    *connection_options.FAMILIES,
    *option.FAMILIES,
    *option.ROUTE_FAMILIES,
)
BY_NAME: Final[dict[str, Option[Any]]] = {option.name: option for option in OPTIONS}
CANONICAL: Final[dict[str, str]] = {
    spelling: option.name for option in OPTIONS for spelling in (option.name, *option.aliases)
}

__all__ = ["BY_NAME", "CANONICAL", "FAMILIES", "OPTIONS"]
