"""Kafka Connect's JSON: of servers, connectors, states and errors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from headrace.kafka.control_records import TargetState
from headrace.options.direction_forms import Direction
from ingest.http.http_server import RETRY, Response
from ingest.http.rest.port import ConnectorCondition

# The version of Kafka Connect whose interface this is. Tools decide by it what they may ask for: `stop` came
# with 3.5, changing offsets with 3.6.
CONNECT_VERSION: Final = "4.1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What does not change while the process runs. `config` is as it may be shown, secrets masked."""

    name: str
    config: Mapping[str, str]
    worker_id: str
    version: str
    type: Direction = Direction.SOURCE


def error_response(status: HTTPStatus, message: str) -> Response:
    """An error as Connect words it."""
    return Response.of_json({"error_code": int(status), "message": message}, status)


def conflict(message: str, *, passes: bool) -> Response:
    """409; where it `passes` nothing was carried out, and `Retry-After` says so."""
    answer = error_response(HTTPStatus.CONFLICT, message)
    return replace(answer, headers=RETRY) if passes else answer


def server_info(version: str, cluster_id: str | None) -> dict[str, Any]:
    """`GET /`."""
    return {
        "version": CONNECT_VERSION,
        "commit": f"headrace-{version}",
        "kafka_cluster_id": cluster_id,
    }


def connector_info(identity: Identity, condition: ConnectorCondition | None) -> dict[str, Any]:
    """`GET /connectors/{name}`; before anybody leads (None) there are no tasks."""
    tasks = () if condition is None else condition.slots
    return {
        "name": identity.name,
        "config": dict(identity.config),
        "tasks": [{"connector": identity.name, "task": number} for number, _ in tasks],
        "type": identity.type,
    }


def connector_status(
    identity: Identity, condition: ConnectorCondition, *, restarting: frozenset[int] | None = None
) -> dict[str, Any]:
    """`GET /connectors/{name}/status`; `restarting` says that a restart was asked for, and of which tasks."""
    worker_id = condition.worker_id or identity.worker_id
    connector = {"state": _state(condition), "worker_id": worker_id, "version": identity.version}
    if condition.problems:
        connector["trace"] = "\n".join(condition.problems)
    if restarting is not None:
        connector["state"] = "RESTARTING"
    return {
        "name": identity.name,
        "connector": connector,
        "tasks": [
            task_status(identity, condition, number, is_restarting=number in (restarting or ()))
            for number, _ in condition.slots
        ],
        "type": identity.type,
    }


def task_status(
    identity: Identity, condition: ConnectorCondition, number: int, *, is_restarting: bool = False
) -> dict[str, Any]:
    """`GET /connectors/{name}/tasks/{id}/status`, of a task that there is."""
    state = condition.target.value.upper()
    if is_restarting or (number, True) in condition.slots:
        state = "RESTARTING"
    worker_id = condition.worker_id or identity.worker_id
    return {"id": number, "state": state, "worker_id": worker_id, "version": identity.version}


def task_infos(identity: Identity, condition: ConnectorCondition) -> list[dict[str, Any]]:
    """`GET /connectors/{name}/tasks`."""
    return [
        {"id": {"connector": identity.name, "task": number}, "config": dict(identity.config)}
        for number, _ in condition.slots
    ]


def _state(condition: ConnectorCondition) -> str:
    if condition.state is not None:
        return condition.state
    # What fails is tried again by itself; FAILED is how people and their alerts learn of it.
    if condition.target is TargetState.RUNNING and condition.problems:
        return "FAILED"
    return condition.target.value.upper()
