"""From a configuration file and the environment to Settings. The only reader of the environment."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import printable
from headrace.options import Settings, SettingsError
from headrace.options.configuration_text import FileKind
from headrace.options.secret import NOT_FOR_CLIENTS, is_secret_name
from headrace.options.worker_file import is_json, properties_text, worker_pairs
from headrace.process.own_process import read_regular_text
from headrace.vendors.load import load

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*(?=[:\s]|$)")
KINDS: Final[dict[str, FileKind]] = {".properties": "properties", ".yaml": "yaml", ".yml": "yaml"}


def read_settings(
    file: Path, *, sets: Sequence[str], worker_config: Path | None, is_for_clients: bool = True
) -> Settings:
    """The settings of a configuration file, with `--set` and `--worker-config` applied.

    `is_for_clients`: what is shown in place of a secret is a problem, and else a warning. Raises
    InvalidConfiguration with every problem on a line of its own.
    """
    overrides = assignments(sets)
    if str(file) == str(worker_config) == "-":
        raise InvalidConfiguration("Standard input is the configuration: name the file of --worker-config.")
    text = read_text(file, "The configuration file")
    worker = None if worker_config is None else _worker_text(worker_config)
    try:
        return load(
            text,
            kind=KINDS.get(file.suffix.lower(), "json"),
            environment=environment(),
            read_file=read_regular_text,
            overrides=overrides,
            worker_config=worker,
            is_for_clients=is_for_clients,
        )
    except SettingsError as error:
        if _is_of_worker(error):
            raise InvalidConfiguration(
                f"{file} is a worker's file: `headrace worker {file}` runs it, `status` and `policy` take it "
                "with --worker; for a connector it is given by --worker-config."
            ) from error
        raise InvalidConfiguration(f"{file}: {error}") from error


# What a worker's file has and no connector's: a configuration with one of them, and without what each
# connector has, is none.
_OF_WORKERS: Final = frozenset({"config.storage.topic", "listeners", "plugin.path", "offset.storage.topic"})
_OF_CONNECTORS: Final = frozenset({"name", "aws.s3.bucket.name"})


def _is_of_worker(error: SettingsError) -> bool:
    """Whether the file that was read as a connector's will be a worker's."""
    named = {problem.option for problem in error.problems}
    missing = {problem.option for problem in error.problems if problem.message.startswith("is missing")}
    return missing >= _OF_CONNECTORS and not named.isdisjoint(_OF_WORKERS)


def read_apart(file: Path, *, sets: Sequence[str], worker_config: Path | None) -> Settings:
    """The same for what contacts nothing: what is shown in place of a secret is reported on stderr."""
    settings = read_settings(file, sets=sets, worker_config=worker_config, is_for_clients=False)
    for warning in settings.warnings:
        if warning.endswith(NOT_FOR_CLIENTS):
            sys.stderr.write(printable(f"warning: {warning}", limit=10_000) + "\n")
    return settings


def _worker_text(file: Path) -> str:
    """The options of a worker's file as `.properties`, whichever it is. InvalidConfiguration."""
    text = read_text(file, "--worker-config")
    if not is_json(text, file.suffix):
        return text
    try:
        return properties_text(dict(worker_pairs(text, is_json=True)))
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"--worker-config {file}: {error}") from error


def environment() -> Mapping[str, str]:
    """The process's environment."""
    return os.environ  # noqa: TID251 - this module is the composition root's reader of it


def read_text(file: Path, what: str) -> str:
    """The text of a file, or InvalidConfiguration that names it and says why it cannot be read."""
    try:
        # UTF-8 as a file, whatever the locale's encoding.
        return sys.stdin.buffer.read().decode() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfiguration(f"{what} {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidConfiguration(
            f"{what} {file} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from error


def assignments(sets: Sequence[str]) -> dict[str, str]:
    """What `--set` gives; InvalidConfiguration for what is no assignment."""
    return dict(_assignment(text) for text in sets)


def _assignment(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    named = _NAME.match(text.strip())
    # What is after the name may be a secret, which was given with another sign than =, and may end with it.
    is_other = named is not None and named[0] != name.strip() and is_secret_name(named[0])
    if not found or not name.strip() or is_other:
        raise InvalidConfiguration(f"--set{'' if named is None else f' {named[0]}'}: expected option=value.")
    return name.strip(), value


def refuse_sink(settings: Settings, why: str) -> None:
    """InvalidConfiguration for a sink; `why` says what of a source the command is about."""
    if settings.sink is not None:
        raise InvalidConfiguration(f"{settings.name!r} is a sink, and {why}.")
