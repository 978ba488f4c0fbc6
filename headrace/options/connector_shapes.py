"""Where in a JSON or YAML document a connector's options are: alone, in an answer of Connect's, a resource.

Operators of Kubernetes keep a connector as a resource: Strimzi's `KafkaConnector` has the class, the number
of tasks and the options in `spec`, and is called as its connector; Confluent's `Connector` has other names.
https://strimzi.io/docs/operators/latest/configuring#type-KafkaConnectorSpec-reference
https://docs.confluent.io/operator/current/co-manage-connectors.html
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.text_formatting import printable
from headrace.options.given import Problem, Problems, SettingsError
from headrace.options.suggestions import other_tool


class Members(list[tuple[str, object]]):
    """The members of a JSON object in order, so that a name given twice is still seen."""


def broken(sentence: str) -> SettingsError:
    """Return the error of a text that is no configuration as a whole."""
    return SettingsError((Problem(option="", message=sentence),))


def refuse_tool(sentence: str | None) -> None:
    """Raise SettingsError with what there is to say of a configuration of another tool."""
    if sentence is not None:
        raise broken(sentence)


def flat(members: Members, problems: Problems) -> Sequence[tuple[str, object]]:
    """Return the options of any shape; in those of Connect and Kubernetes `name` is outside of them.

    Raises SettingsError where the document is an export of several connectors, another resource, or of a tool
    that has its own page.
    """
    members = _exported(members)
    if _is_resource(members):
        return _of_resource(members, problems)
    refuse_tool(other_tool(_sections(members)))
    configs = [value for name, value in members if name == "config" and isinstance(value, Members)]
    if not configs:
        return members
    for name, value in members:
        if name == "initial_state":
            problems.add(name, "is for the request that creates a connector in a worker; remove it")
        elif name not in {"name", "config"} and not isinstance(value, _OF_ANSWERS.get(name, ())):
            problems.add(name, 'is next to "config"; move it inside')
    if len(configs) > 1:
        problems.add("config", "given twice; keep one of them")
    outer = [(name, value) for name, value in members if name == "name"]
    inner = [pair for pair in configs[0] if pair not in outer[:1]]
    return [*outer, *inner]


# In the values of Vector's Helm chart its configuration is one of them.
_OF_A_CHART: Final = "customConfig"
# Redpanda Connect has lists of inputs and outputs; others have lists of sources.
_LISTED: Final = "_resources"


def _sections(members: Members) -> Iterator[str]:
    for name, value in members:
        if isinstance(value, Members) or (isinstance(value, list) and name.endswith(_LISTED)):
            yield name
        if name == _OF_A_CHART and isinstance(value, Members):
            yield from _sections(value)


# What Connect shows next to a connector's configuration.
_OF_ANSWERS: Final[dict[str, type]] = {"tasks": list, "type": str}

# What `GET /connectors?expand=info&expand=status` says of each connector.
_EXPORTED: Final = frozenset({"info", "status"})
_FEW: Final = 10


def _exported(members: Members) -> Members:
    """The connector that an export of a worker's has; the same members where this is none.

    SettingsError where it has several, or no configuration.
    """
    answers = {name: dict(value) for name, value in members if isinstance(value, Members) and value}
    if not answers or len(answers) < len(members):
        return members
    if not all(each.keys() <= _EXPORTED for each in answers.values()):
        return members
    names, one = [printable(name) for name in answers], next(iter(answers.values()))
    if len(answers) > 1:
        more = len(names) - _FEW
        shown = ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")
        raise broken(
            f"this is an export of {len(answers)} connectors ({shown}), and one is read: keep one of them in "
            f"the file, or save what GET /connectors/{names[0]} answers, each connector in a file of its own"
        )
    found = one.get("info")
    if not isinstance(found, Members):
        raise broken(
            f"this is an export of the connector {names[0]} without its configuration: save what "
            "GET /connectors?expand=info answers"
        )
    # Lists of tasks are texts in YAML, and options of their own nowhere.
    return Members(pair for pair in found if pair[0] in {"name", "config"})


@dataclass(frozen=True, slots=True)
class _Resource:
    """Where a resource has the name, the number of tasks and the options; a first name wins over others."""

    names: tuple[str, ...]
    tasks: str
    options: str


_RESOURCES: Final = {
    "KafkaConnector": _Resource(("metadata.name",), "spec.tasksMax", "spec.config"),
    # It may have a name that a resource cannot have.
    "Connector": _Resource(("spec.name", "metadata.name"), "spec.taskMax", "spec.configs"),
}
# What `kubectl get .. -o yaml` answers without a name.
_LIST: Final = "List"


def _is_resource(members: Members) -> bool:
    given = {name for name, value in members if isinstance(value, str)}
    return {"apiVersion", "kind"} <= given


def _of_resource(members: Members, problems: Problems) -> Sequence[tuple[str, object]]:
    """The options of a connector that an operator of Kubernetes keeps; its state is the operator's alone.

    SettingsError for another resource, which may be the workers', and for one without options.
    """
    kind = str(dict(members)["kind"])
    if kind == _LIST:
        raise broken(
            "this is a list of resources of Kubernetes, and one is read: save each connector in a file of "
            "its own (kubectl get kafkaconnector NAME -o yaml)"
        )
    if kind not in _RESOURCES:
        raise broken(
            f"this is a resource of Kubernetes ({printable(kind)}), and no connector's: those are "
            "KafkaConnector of Strimzi and Connector of Confluent"
        )
    own = _RESOURCES[kind]
    within = {**_within(members, "metadata", problems), **_within(members, "spec", problems)}
    given, inner = within.get(own.options), []
    if not isinstance(given, Members):
        raise broken(f"this is a {kind} without {own.options}, which is where its options are")
    _refuse_others(kind, within, problems)
    name = next((within[each] for each in own.names if within.get(each)), None)
    outer = (
        ("name", name),
        ("connector.class", within.get("spec.class")),
        ("tasks.max", within.get(own.tasks)),
    )
    found = [(option, value) for option, value in outer if value is not None]
    for option, value in given:
        if option not in dict(found):
            inner.append((option, value))
        elif (option, value) not in found:
            problems.add(option, f"is another one outside of {own.options}; keep that one alone")
    return [*found, *inner]


def _within(members: Members, section: str, problems: Problems) -> dict[str, object]:
    """What a section of a resource has, by its path."""
    found: dict[str, object] = {}
    for name, value in next(
        (each for at, each in members if at == section and isinstance(each, Members)), ()
    ):
        path = f"{section}.{name}"
        if path in found:
            problems.add(path, "given twice; keep one of them")
        found.setdefault(path, value)
    if [name for name, _ in members].count(section) > 1:
        problems.add(section, "given twice; keep one of them")
    return found


def _refuse_others(kind: str, within: Mapping[str, object], problems: Problems) -> None:
    """Note what the other operator calls it: this one passes over it, and so would this."""
    own = _RESOURCES[kind]
    for other in _RESOURCES.values():
        for theirs, ours in (
            (other.names[0], own.names[0]),
            (other.tasks, own.tasks),
            (other.options, own.options),
        ):
            if theirs in within and theirs not in {*own.names, own.tasks, own.options}:
                problems.add(theirs, f"is of another kind of resource; a {kind} has {ours}")
