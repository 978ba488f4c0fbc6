"""The tables of other makers' options, as their pages have them.

`python -m headrace.vendors.document aiven` prints that of Aiven's sink.
"""

import sys
from typing import Final

from headrace.options.vendor import Vendor
from headrace.vendors.known_vendors import VENDORS

BEGIN: Final = "<!-- options: begin -->\n"
END: Final = "<!-- options: end -->\n"


def options_table(vendor: Vendor) -> str:
    """A line for each option of a maker's sink: what becomes of it."""
    rows = (f"| `{each.name}` | {each.fate} | {each.note} |\n" for each in vendor.options)
    return "".join(["| option | | here |\n", "| --- | --- | --- |\n", *rows])


def filled(page: str, vendor: Vendor) -> str:
    """The page with the maker's table between its marks; ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the table of options")
    return before + begin + options_table(vendor) + end + behind


if __name__ == "__main__":
    wanted = sys.argv[1]
    sys.stdout.write(options_table(next(each for each in VENDORS if each.layout == wanted)))
