"""`headrace status WORKER --worker`: how a worker and all its connectors are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.model.text_formatting import counted, printable
from headrace.options import SettingsError
from ingest.checks.probes.running_service import NoAnswer, read_running_connector, read_running_worker
from ingest.cli.configuration import environment, read_text
from ingest.connect.worker_settings import WorkerSettings, read_worker


def worker_settings(file: Path) -> WorkerSettings:
    """The settings of a worker's file. InvalidConfiguration with every problem."""
    try:
        return read_worker(
            read_text(file, "The worker's file"),
            is_json=file.suffix == ".json",
            environment=environment(),
            read_file=lambda path: Path(path).read_text(encoding="utf-8"),
        )
    except SettingsError as error:
        raise InvalidConfiguration(f"{file}: {error}") from error


def ask_worker(file: Path, connector: str | None = None) -> dict[str, Any]:
    """What the worker of this file answers at http.listen, of all or of one connector.

    InvalidConfiguration, Unavailable.
    """
    listen = worker_settings(file).frame.http.listen
    answer = read_running_worker(listen) if connector is None else read_running_connector(listen, connector)
    if isinstance(answer, NoAnswer):
        if connector is not None:
            raise Unavailable(f"The connector {connector!r}: {answer.why}.")
        raise Unavailable(f"The worker does not say how it is: {answer.why}.")
    return answer


def worker_lines(shape: dict[str, Any]) -> Iterator[str]:
    """What people are shown: the worker, its connectors, and where the others are."""
    leads = ", leads the group" if shape["leader"] == shape["worker"] else ""
    yield f"{printable(shape['worker'])}: group {printable(shape['group'])}{leads}"
    for problem in shape["problems"]:
        yield f"problem   {printable(problem)}"
    connectors = shape["connectors"]
    width = max((len(name) for name in connectors), default=0)
    for name, one in sorted(connectors.items()):
        yield f"  {printable(name):{width}}  {_state(one)}{_left(one)}"
        for sentence in (one.get("problems") or {}).values():
            yield f"  {'':{width}}  {printable(sentence)}"
    for worker, one in sorted(shape["workers"].items()):
        if worker != shape["worker"] and one["connectors"]:
            names = ", ".join(map(printable, one["connectors"]))
            yield f"elsewhere {printable(one['url'] or worker)}: {names}"


def _state(one: dict[str, Any]) -> str:
    if one["role"] != "leader":
        return str(one["role"])
    if one["target"] != "running":
        return str(one["target"])
    return "running" if one["ready"] else "has problems"


def _left(one: dict[str, Any]) -> str:
    if one.get("sink") is not None:
        return f", {counted(one['sink']['lag'], 'offset')} not archived yet"
    if "pending_objects" in one:
        return f", {counted(one['pending_objects'], 'object')} pending"
    return ""
