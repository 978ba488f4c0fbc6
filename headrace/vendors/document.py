"""The tables of other vendors' options, as their pages have them.

`python -m headrace.vendors.document aiven` prints that of Aiven's sink, `confluent source` that of a source.
"""

import sys

from headrace.options.vendor import Vendor
from headrace.vendors.known_vendors import VENDORS


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


if __name__ == "__main__":
    is_sink = "source" not in sys.argv[2:]
    wanted = next(each for each in VENDORS if each.layout == sys.argv[1] and each.is_sink is is_sink)
    sys.stdout.write(options_table(wanted))
