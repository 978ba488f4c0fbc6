"""The tables of other vendors' options as Markdown: `python -m headrace.vendors.tables lenses`."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.options.vendor import VendorOption
from headrace.vendors.lenses.options import OPTIONS, PROPERTIES
from headrace.vendors.lenses.source_translation import SOURCE_OPTIONS, SOURCE_PROPERTIES

TABLES: Final = {
    "lenses": (
        ("option", OPTIONS),
        ("property", PROPERTIES),
        ("option of the source", SOURCE_OPTIONS),
        ("property of the source", SOURCE_PROPERTIES),
    )
}


def tables(name: str) -> str:
    """The tables of a maker, one below the other."""
    return "\n".join(line for what, rows in TABLES[name] for line in _table(what, rows))


def _table(what: str, rows: Iterable[VendorOption]) -> Iterator[str]:
    yield f"| {what} | | what it is here |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.fate} | {row.note} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(tables(sys.argv[1]))
