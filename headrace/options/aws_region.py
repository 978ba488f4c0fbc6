"""The region that this machine has for AWS's clients, asked for where a configuration names none."""

import configparser
from collections.abc import Callable, Mapping
from typing import Final

# botocore reads the second alone; AWS's other libraries, containers and functions set the first.
_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
# With a file's place where nothing says another; a credentials file wins, as for botocore.
_FILES: Final = (
    ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    ("AWS_CONFIG_FILE", "config"),
)


def machine_region(environment: Mapping[str, str], read_file: Callable[[str], str]) -> str | None:
    """Return the region of the environment, else of the profile in force; None where there is none."""
    for name in _VARIABLES:
        if environment.get(name, "").strip():
            return environment[name].strip()
    for path in filter(None, (_path(environment, *each) for each in _FILES)):
        found = _region_of(_read(path, read_file), _profile(environment))
        if found:
            return found
    return None


def _path(environment: Mapping[str, str], variable: str, name: str) -> str | None:
    home = environment.get("HOME", "")
    given = environment.get(variable, "").strip()
    if given.startswith("~/"):
        return f"{home}{given[1:]}" if home else None
    return given or (f"{home}/.aws/{name}" if home else None)


def _profile(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"


def _read(path: str, read_file: Callable[[str], str]) -> str:
    try:
        return read_file(path)
    except (OSError, ValueError):
        # What cannot be read is told of where credentials are looked for in it.
        return ""


def _region_of(text: str, profile: str) -> str:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return ""
    for section in (profile, f"profile {profile}"):
        if parser.has_section(section):
            region = parser.get(section, "region", fallback=None)
            if region:
                return region.strip()
    return ""
