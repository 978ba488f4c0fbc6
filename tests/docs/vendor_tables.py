"""The tables of vendors' options as the pages have them.

`python -m tests.docs.vendor_tables aiven` prints that of Aiven's sink, `confluent source` that of a source,
`lenses tables` all of Lenses' options and properties.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.options.vendor import Vendor, VendorOption
from headrace.vendors.lenses.options import OPTIONS, PROPERTIES, SOURCE_OPTIONS, SOURCE_PROPERTIES
from headrace.vendors.load import VENDORS


def options_table(vendor: Vendor) -> str:
    """A line for each option of a vendor's connector: what becomes of it."""
    rows = (f"| `{each.name}` | {each.fate} | {each.note} |\n" for each in vendor.options)
    return "".join(["| option | | here |\n", "| --- | --- | --- |\n", *rows])


def filled(page: str, vendor: Vendor) -> str:
    """The page with the vendor's table between its marks; ValueError where it has none."""
    marked = "options" if vendor.is_sink else "source options"
    before, begin, rest = page.partition(f"<!-- {marked}: begin -->\n")
    _, end, behind = rest.partition(f"<!-- {marked}: end -->\n")
    if not begin or not end:
        raise ValueError("the page has no marks for the table of options")
    return before + begin + options_table(vendor) + end + behind


TABLES: Final = {
    "lenses": (
        ("option", OPTIONS),
        ("property", PROPERTIES),
        ("option of the source", SOURCE_OPTIONS),
        ("property of the source", SOURCE_PROPERTIES),
    )
}


def tables(name: str) -> str:
    """The tables of a vendor, one below the other."""
    return "\n".join(line for what, rows in TABLES[name] for line in _table(what, rows))


def _table(what: str, rows: Iterable[VendorOption]) -> Iterator[str]:
    yield f"| {what} | | what it is here |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.fate} | {row.note} |"
    yield ""


def _wanted(name: str, *which: str) -> str:
    if "tables" in which:
        return tables(name)
    is_sink = "source" not in which
    return options_table(next(each for each in VENDORS if each.layout == name and each.is_sink is is_sink))


if __name__ == "__main__":
    sys.stdout.write(_wanted(*sys.argv[1:]))
