"""Protections of the worker, taken out one at a time.

`python -m tests.simulation.worker_mutations [NAME ..]` prints their table of `docs/simulation.md`.
"""

from typing import Final

from tests.simulation.mutations import Mutation, main

_CHANGES: Final = "ingest/connect/changes.py"
_HOSTED: Final = "ingest/connect/hosted_connector.py"
_ALL_HOSTED: Final = "ingest/connect/hosted_connectors.py"
_TOPIC: Final = "ingest/connect/connector_configurations.py"
_READING: Final = "ingest/connect/connector_loading.py"
_ROUTES: Final = "ingest/connect/worker_routes.py"
_VIEW: Final = "ingest/connect/worker_view.py"
_PHASE: Final = "ingest/service/leadership_phase.py"

_CREATE: Final = """        with self._turn(name):
            if self._found(name) is not None:
                raise Refused(HTTPStatus.CONFLICT"""
_CONFIGURE: Final = """        with self._turn(name):
            before = self._found(name)
            # What was written over"""

MUTATIONS: Final = {
    "one change after the other": Mutation(
        "worker",
        "what is judged is still so when it is written",
        _CHANGES,
        _CREATE,
        _CREATE.replace("with self._turn(name)", "if True"),
        (
            (_CHANGES, _CONFIGURE, _CONFIGURE.replace("with self._turn(name)", "if True")),
            (_CHANGES, "if self._found(name) != before:", "if False:"),
        ),
    ),
    "a change is read back": Mutation(
        "worker",
        "a change is answered when the worker that leads reads it",
        _READING,
        "while any(led.cache.controls().get(key) != raw for key, raw in changes):",
        "while False:",
    ),
    "what has ended the reading": Mutation(
        "worker",
        "a worker reads the configuration topic again after its reading has ended",
        _TOPIC,
        "reader.wait_for(lambda: False, 0.0)",
        "reader.wait_for(lambda: True, 0.0)",
    ),
    "nothing changed": Mutation(
        "worker",
        "a PUT of what is there starts nothing again",
        _CHANGES,
        "        if before is not None and before.config == record.config:\n            return before\n",
        "",
        ((_ALL_HOSTED, "return record.config, record.problem, record.created_ms", "return (record,)"),),
    ),
    "secrets are kept": Mutation(
        "worker",
        "a PUT that brings `[hidden]` back keeps what is there",
        _CHANGES,
        "config=kept_secrets(without_shown_class(config, before), before) | ",
        "config=without_shown_class(config, before) | ",
    ),
    "another life": Mutation(
        "worker",
        "what is deleted and made again is another one, and starts again",
        _ALL_HOSTED,
        "return record.config, record.problem, record.created_ms",
        "return record.config, record.problem",
        (
            (
                _VIEW,
                "if hosted is None or runs_as(hosted.record) != runs_as(record):",
                "if hosted is None:",
            ),
        ),
    ),
    "the life before": Mutation(
        "worker",
        "nothing is asked of the life before that is still being stopped",
        _VIEW,
        "if hosted is None or runs_as(hosted.record) != runs_as(record):",
        "if hosted is None:",
    ),
    "known before": Mutation(
        "worker",
        "a worker reads the topic to its end before each change",
        _ROUTES,
        "unread = self._membership.read_to_end()\n",
        "unread = None\n",
    ),
    "who leads reads too": Mutation(
        "worker",
        "a worker that hung while another one led reads the topic to its end before each change",
        _TOPIC,
        "        led, reader = self._led, self._reader\n",
        "        if self._led:\n            return\n        led, reader = None, self._reader\n",
    ),
    "as it was created": Mutation(
        "worker",
        "the first leadership of a connector writes what it was created to do",
        _HOSTED,
        "    if record.created_ms is None:\n        return None\n",
        "    if record.created_ms is not None:\n        return None\n",
    ),
    "mended": Mutation(
        "worker",
        "a PUT over a record that another program wrote is no creation",
        _CHANGES,
        "created_ms=None if is_lost else wall_ms()",
        "created_ms=wall_ms()",
    ),
    "created once": Mutation(
        "worker",
        "what it was created to do is written once, and later wishes stay",
        _PHASE,
        "if creation is None or ledger.control(CREATION) == creation:",
        "if creation is None:",
    ),
    "what is deleted is stopped": Mutation(
        "worker",
        "a connector without a record is stopped",
        _ALL_HOSTED,
        "if record is None or hosted.is_outdated or runs_as(record) != runs_as(hosted.record):",
        "if record is not None and runs_as(record) != runs_as(hosted.record):",
    ),
    "who runs it answers": Mutation(
        "worker",
        "a request about a connector goes to the worker that runs it",
        _ROUTES,
        "return None if worker in (None, own) else workers.workers[str(worker)].url",
        "return None",
    ),
    "who leads changes": Mutation(
        "worker",
        "a change goes to the worker that leads",
        _ROUTES,
        "        if is_change(method, segments):\n",
        "        if False:\n",
    ),
    "not carried out": Mutation(
        "worker",
        "only what was certainly not carried out is sent again",
        _ROUTES,
        "gone = isinstance(error, ConnectionRefusedError | OtherGroup)",
        "gone = True",
    ),
    "cut off from the brokers": Mutation(
        "worker",
        "a worker that alone does not reach the brokers for a session gives its connectors up",
        "ingest/connect/connector_configurations.py",
        "        return self._contact.problem is not None\n",
        "        return False\n",
    ),
}


if __name__ == "__main__":
    main(MUTATIONS)
