"""Where a worker of ours answers otherwise than Kafka Connect's, and why: the table of docs/worker.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row of the table. `steps` are those of the conversation, with Connect's status and ours."""

    what: str
    connect: str
    here: str
    reason: str
    steps: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def row(self) -> str:
        """As docs/worker.md has it."""
        return f"| {self.what} | {self.connect} | {self.here} | {self.reason} |"


def _each(connect: int, here: int, *steps: str) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(steps, (connect, here))


DIFFERENCES: Final = (
    Difference(
        what="a body that is not JSON, is missing, or is of another form than it has to be",
        connect="500 with the sentence of its parser",
        here="400 with what is expected",
        reason="it is the client's mistake: 500 makes clients try again, and wakes people",
        steps=_each(
            500,
            400,
            "validate broken JSON",
            "validate nothing",
            "validate a list",
            "create without a config",
            "create with null for a config",
            "create with a text for a config",
            "create with a list as a value",
            "create with an unknown field",
            "create in an unknown state",
            "create from broken JSON",
            "create from a list",
            "create from a text",
            "create from nothing",
            "PUT broken JSON",
            "PUT a list",
            "PUT nothing",
            "PATCH broken JSON",
            "PATCH a list",
            "alter with broken JSON",
            "alter with a list",
            "alter without a partition",
            "alter a text",
        ),
    ),
    Difference(
        what="`validate` of an unknown plugin",
        connect="500",
        here="404",
        reason="as for `GET /connector-plugins/{class}/config`",
        steps=_each(500, 404, "validate an unknown plugin"),
    ),
    Difference(
        what="`validate` of a body without `connector.class`",
        connect="500",
        here="200",
        reason="the path names the class",
        steps=_each(500, 200, "validate without a class"),
    ),
    Difference(
        what="a connector's name",
        connect="anything but control signs; one with `/` can then be neither read nor deleted",
        here="1 to 200 of `a-z A-Z 0-9 . _ -`, else 400",
        reason="it is part of the names of topics, groups and transactions",
        steps={
            "create with a slash in the name": (201, 400),
            "read it back": (400, 404),
            "delete it": (400, 404),
        },
    ),
    Difference(
        what="`PATCH .../config` with another `name`",
        connect="200; the name in the configuration is another one then",
        here="400",
        reason="ledger and group hang on the name",
        steps=_each(200, 400, "PATCH another name"),
    ),
    Difference(
        what="`/topics` and `/topics/reset` of an unknown connector",
        connect="200 with an empty list, 202",
        here="404",
        reason="a mistyped name should be noticed",
        steps={"GET of nobody/topics": (200, 404), "PUT of nobody/topics/reset": (202, 404)},
    ),
    Difference(
        what="404 of a path that there is not, 405, 415",
        connect="without a body",
        here='`{"error_code", "message"}`, and `Allow` with 405',
        reason="the same shape for every error",
        steps={
            **_each(404, 404, "tasks-config", "unknown path", "unknown path of a connector"),
            **_each(405, 405, "pause by another method", "DELETE of all", "PUT of a connector"),
            **_each(405, 405, "POST of a status"),
            **_each(415, 415, "create from another type", "create from a form", "PUT another type"),
        },
    ),
    Difference(
        what="`OPTIONS`",
        connect="`Allow`, with an empty body called JSON",
        here="`Allow`, and the same as text",
        reason="an empty body is not JSON",
        steps=_each(
            200,
            200,
            "OPTIONS of /",
            "OPTIONS of /connectors",
            "OPTIONS of /connectors/orders",
            "OPTIONS of /connectors/orders/config",
            "OPTIONS of /connectors/orders/offsets",
            "OPTIONS of /connectors/orders/pause",
        ),
    ),
    Difference(
        what="`pause`, `stop` and offsets of a connector that has failed",
        connect="as of any",
        here="409 until it runs again",
        reason="its target state is in its own ledger, which who leads it writes",
    ),
    Difference(
        what="`GET .../topics` of a connector that has failed, or that no worker leads yet",
        connect="its list, which may be empty",
        here="409 until it runs",
        reason="the list is made of its own ledger, which a worker reads while it runs",
    ),
    Difference(
        what="`GET /connector-plugins?connectorsOnly=false`",
        connect="converters, transformations and predicates too",
        here="connectors only",
        reason="those are options here, no classes that could be added",
    ),
    Difference(
        what="secrets in `GET .../config`",
        connect="as they were given",
        here="`[hidden]`, and a `PUT` that brings this back keeps what is there",
        reason="who may look need not know them; references and all that is not a secret are shown as they "
        "were given",
    ),
    Difference(
        what="offsets of a sink after `DELETE .../offsets`",
        connect="an empty list",
        here="where each partition begins",
        reason="it is what will be read next",
    ),
)

# Both refuse with one status, and ours says it in a sentence of its own, which names the option.
OWN_WORDS: Final = frozenset(
    {
        "status of a task that is no number",
        "restart a task that is no number",
        "create without a name",
        "create with a name of blanks",
        "create with a line break in the name",
        "create with an empty config",
        "create of an unknown class",
        "create without a class",
        "create with a wrong number",
        "create with what lacks options",
        "create without a type",
        "PUT null",
        "PUT an invalid one",
        "PATCH an invalid one",
        "alter the sink without a topic",
        "alter the sink with a text",
    }
)
