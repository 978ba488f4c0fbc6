"""The version of Headrace that runs: it is read from a file, and a worker has many connectors."""

from functools import cache
from importlib.metadata import version


@cache
def own_version() -> str:
    """Of the code that this process began with, whatever is installed over it meanwhile."""
    return version("headrace")
