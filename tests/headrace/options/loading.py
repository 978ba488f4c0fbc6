"""A configuration that is complete, and the ways in which tests change it."""

import json
from collections.abc import Mapping
from functools import lru_cache

from headrace.options import Problem, Settings, SettingsError
from headrace.vendors.load import load

COMPLETE: Mapping[str, str] = {
    "name": "uploads",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topic": "events",
    "file.name.template": ".*",
}


def no_file(path: str) -> str:
    """Read a file of which there is none."""
    raise FileNotFoundError(2, "No such file or directory", path)


def load_with(changes: Mapping[str, str | None] | None = None, **environment: str) -> Settings:
    """Load the complete configuration with some options changed, or left out where None."""
    options = {**COMPLETE, **(changes or {})}
    given = {name: value for name, value in options.items() if value is not None}
    text = json.dumps(given)
    # What leads to files is read each time: they may have changed.
    if environment or any(value.startswith("/") for value in given.values()):
        return load(text, kind="json", environment=environment, read_file=no_file)
    return _loaded(text)


@lru_cache(maxsize=256)
def _loaded(text: str) -> Settings:
    """Settings cannot be changed, and tests of restores load each thirty times."""
    return load(text, kind="json", environment={}, read_file=no_file)


def problems_with(changes: Mapping[str, str | None]) -> tuple[Problem, ...]:
    """Return the problems of the complete configuration with some options changed."""
    try:
        load_with(changes)
    except SettingsError as error:
        return error.problems
    return ()


def own_options(settings: Settings) -> dict[str, str]:
    """The options of ours that a configuration gives, or is translated to; references are not replaced."""
    return {name: raw.reveal() for name, raw, _ in settings.texts}
