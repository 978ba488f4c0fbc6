"""`headrace status` and `headrace plan` of a query of Spark: its options as a file, with `state.path`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.model.errors import (
    Exit,
    FrameRefused,
    HeadraceError,
    InvalidConfiguration,
    ObjectForbidden,
    Unavailable,
    exit_code,
)
from headrace.model.text_formatting import bytes_text, counted, printable
from headrace.options.configuration_text import read_text as read_options
from headrace.options.given import Problems, SettingsError
from ingest.cli.cli_options import Report
from ingest.cli.configuration import KINDS, assignments, read_text

Shape = dict[str, Any]


def frames_options(config: Path, sets: Sequence[str]) -> dict[str, str] | None:
    """The options of a query of frames, None for a connector's, which have no state.path."""
    if str(config) == "-" or not config.is_file():
        # A pipe can be read once, by whoever reads a connector's; and what is missing is reported there.
        return None
    text = read_text(config, "The configuration file")
    try:
        options = read_options(text, KINDS.get(config.suffix.lower(), "json"), Problems())
    except SettingsError:
        # Whoever reads it as a connector's says what is wrong with it.
        return None
    options |= assignments(sets)
    return options if "state.path" in options else None


def frames_status(options: dict[str, str], *, as_json: bool) -> None:
    """Print what the discovery log says."""
    # Spark is loaded with them.
    from spark.frames.discovery_log import log_status, settings_of

    with _as_of_a_command():
        shape = log_status(settings_of(options))
    Report(shape, _status_lines(shape)).show(as_json=as_json)


def frames_plan(options: dict[str, str], *, as_json: bool) -> None:
    """Print what the next batches would have."""
    # Spark is loaded with them.
    from headrace.s3 import new_s3_calls
    from spark.frames.discovery_log import log_plan, settings_of

    settings = settings_of(options)
    s3 = settings.shared.s3
    with _as_of_a_command():
        shape = log_plan(settings, new_s3_calls(s3).listed(s3.bucket, s3.prefix))
    Report(shape, _plan_lines(shape)).show(as_json=as_json)


@contextmanager
def _as_of_a_command() -> Iterator[None]:
    """No query fails here: `state.path` is out of reach, or names what is no log of this query."""
    try:
        yield
    except FrameRefused as refused:
        cause = refused.__cause__
        is_away = isinstance(cause, HeadraceError) and exit_code(cause) is Exit.UNUSABLE
        kind = Unavailable if is_away or isinstance(cause, ObjectForbidden) else InvalidConfiguration
        raise kind(str(refused)) from refused


def _status_lines(shape: Shape) -> Iterator[str]:
    yield f"{printable(shape['url'])}: discovery log at {printable(shape['state_path'])}"
    yield from _without_log(shape)
    yield f"known     {counted(shape['known'], 'object')}, the last batch is {shape['last_batch']}"
    done = shape["committed_ms"]
    when = "" if done is None else f", at {datetime.fromtimestamp(done / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield f"committed batch {shape['committed_batch']}{when}"
    yield f"pending   {counted(shape['pending_objects'], 'object')}, {bytes_text(shape['pending_bytes'])}"


def _plan_lines(shape: Shape) -> Iterator[str]:
    yield f"{printable(shape['url'])}: discovery log at {printable(shape['state_path'])}"
    yield from _without_log(shape)
    yield f"new       {counted(shape['pending_objects'], 'object')}, {bytes_text(shape['pending_bytes'])}"
    yield f"in log    {counted(shape['in_log'], 'object')}"
    for reason, count in shape["left_out"].items():
        yield f"left out  {counted(count, 'object')}: {reason}"


def _without_log(shape: Shape) -> Iterator[str]:
    if shape["made_ms"] is None:
        yield "no log    is there yet: the query has not run, or its state.path is another one"
