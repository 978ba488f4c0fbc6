"""The conversation that a real Connect worker and ours have, in its order."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.ingest.connect.connect_conversation import Step

Check = Callable[[Any], bool]

_ONE: Final = "/connectors/$orders"
_SINK: Final = "/connectors/$archive"
_NOBODY: Final = "/connectors/$nobody"


def _state_is(state: str) -> Check:
    return lambda shown: _state(shown) == state


def _has_tasks(shown: Any) -> bool:
    states = [task["state"] for task in shown.get("tasks", ())]
    return _state(shown) == "RUNNING" and states != [] and set(states) == {"RUNNING"}


def _is_stopped(shown: Any) -> bool:
    return _state(shown) == "STOPPED" and not shown["tasks"]


def _state(shown: Any) -> Any:
    return shown.get("connector", {}).get("state")


def _topics_are(count: int) -> Check:
    return lambda shown: [len(one.get("topics", ())) for one in shown.values()] == [count]


def _offsets_are(count: int) -> Check:
    return lambda shown: len(shown.get("offsets", ())) == count


def steps() -> Iterator[Step]:
    """All of it."""
    yield from _plugins()
    yield from _creating()
    yield from _reading()
    yield from _refused_creations()
    yield from _configuring()
    yield from _steering()
    yield from _offsets()
    yield from _unknown_names()
    yield from _http()
    yield from _loggers()
    yield from _deleting()


def _plugins() -> Iterator[Step]:
    validate = "/connector-plugins/@source_class/config/validate"
    unknown = "/connector-plugins/NoSuchClass/config"
    other = {"connector.class": "@sink_class", "name": "x", "topics": "t"}
    yield Step("root", "GET", "/")
    yield Step("health", "GET", "/health")
    yield Step("no connectors", "GET", "/connectors")
    yield Step("plugins", "GET", "/connector-plugins")
    yield Step("all plugins", "GET", "/connector-plugins?connectorsOnly=false")
    yield Step("definitions", "GET", "/connector-plugins/@source_class/config")
    yield Step("definitions of a sink", "GET", "/connector-plugins/@sink_class/config")
    yield Step("definitions of an unknown plugin", "GET", unknown)
    yield Step("validate", "PUT", validate, {"@": "source", "name": "$orders"})
    yield Step("validate what lacks options", "PUT", validate, {"connector.class": "@source_class"})
    yield Step("validate an unknown plugin", "PUT", f"{unknown}/validate", {"a": "b"})
    yield Step("validate another class", "PUT", validate, other)
    yield Step("validate without a class", "PUT", validate, {"name": "x", "topic": "t"})
    yield Step("validate broken JSON", "PUT", validate, "{")
    yield Step("validate nothing", "PUT", validate)
    yield Step("validate a list", "PUT", validate, [])


def _creating() -> Iterator[Step]:
    yield Step("create a source", "POST", "/connectors", {"name": "$orders", "config": {"@": "source"}})
    yield Step("create a sink by PUT", "PUT", f"{_SINK}/config", {"@": "sink"})
    yield Step("create it again", "POST", "/connectors", {"name": "$orders", "config": {"@": "source"}})
    yield Step("status until it runs", "GET", f"{_ONE}/status", until=_has_tasks)
    yield Step("status of the sink", "GET", f"{_SINK}/status", until=_has_tasks)
    for state in ("STOPPED", "PAUSED", "RUNNING"):
        name = f"$first-{state.lower()}"
        body = {"name": name, "config": {"@": "source"}, "initial_state": state}
        yield Step(f"create {state}", "POST", "/connectors", body)
        is_so = _has_tasks if state == "RUNNING" else _state_is(state)
        yield Step(f"created {state}", "GET", f"/connectors/{name}/status", until=is_so)
        yield Step(f"tasks of one created {state}", "GET", f"/connectors/{name}/tasks")
        yield Step(f"delete one created {state}", "DELETE", f"/connectors/{name}")


def _reading() -> Iterator[Step]:
    yield Step("connectors", "GET", "/connectors")
    yield Step("connectors with status", "GET", "/connectors?expand=status")
    yield Step("connectors with info", "GET", "/connectors?expand=info")
    yield Step("connectors with both", "GET", "/connectors?expand=status&expand=info")
    yield Step("connectors with nonsense", "GET", "/connectors?expand=nonsense")
    yield Step("connector", "GET", _ONE)
    yield Step("connector with a slash", "GET", f"{_ONE}/")
    yield Step("config", "GET", f"{_ONE}/config", is_map=True)
    yield Step("tasks", "GET", f"{_ONE}/tasks")
    yield Step("tasks of the sink", "GET", f"{_SINK}/tasks")
    yield Step("tasks-config", "GET", f"{_ONE}/tasks-config")
    yield Step("task status", "GET", f"{_ONE}/tasks/0/status")
    yield Step("status of an unknown task", "GET", f"{_ONE}/tasks/99/status")
    yield Step("status of a task that is no number", "GET", f"{_ONE}/tasks/x/status")
    yield Step("topics", "GET", f"{_ONE}/topics", until=_topics_are(1))
    yield Step("topics of the sink", "GET", f"{_SINK}/topics", until=_topics_are(1))
    for one in (_ONE, _SINK):
        yield Step(f"reset topics of {one[13:]}", "PUT", f"{one}/topics/reset")
        yield Step(f"topics of {one[13:]} after the reset", "GET", f"{one}/topics", until=_topics_are(0))


def _refused_creations() -> Iterator[Step]:
    def create(name: str, body: Any, content_type: str | None = "application/json") -> Step:
        return Step(f"create {name}", "POST", "/connectors", body, content_type)

    config = {"@": "source"}
    yield create("without a name", {"config": config})
    yield create("with a name of blanks", {"name": " ", "config": config})
    yield create("with a line break in the name", {"name": "a\nb", "config": config})
    yield create("with a slash in the name", {"name": "$a/b", "config": config})
    yield Step("read it back", "GET", "/connectors/$a%2Fb")
    yield Step("delete it", "DELETE", "/connectors/$a%2Fb")
    yield create("with the name in the config", {"config": {"@": "source", "name": "$inside"}})
    yield Step("delete that", "DELETE", "/connectors/$inside")
    yield create("with two names", {"name": "$x", "config": {"@": "source", "name": "$y"}})
    yield create("without a config", {"name": "$x"})
    yield create("with an empty config", {"name": "$x", "config": {}})
    yield create("with null for a config", {"name": "$x", "config": None})
    yield create("with a text for a config", {"name": "$x", "config": "text"})
    yield create("with a list as a value", {"name": "$x", "config": {"@": "source", "topic": ["t"]}})
    yield create("with an unknown field", {"name": "$x", "config": config, "colour": "blue"})
    yield create("in an unknown state", {"name": "$x", "config": config, "initial_state": "SLEEPING"})
    yield create("in small letters", {"name": "$small", "config": config, "initial_state": "paused"})
    yield Step("delete small", "DELETE", "/connectors/$small")
    yield create("of an unknown class", {"name": "$x", "config": {"connector.class": "NoSuchClass"}})
    yield create("without a class", {"name": "$x", "config": {"topic": "t"}})
    yield create("with a wrong number", {"name": "$x", "config": {"@": "source", "tasks.max": "many"}})
    yield create("with what lacks options", {"name": "$x", "config": {"connector.class": "@source_class"}})
    yield create("from broken JSON", "{")
    yield create("from a list", [])
    yield create("from a text", '"text"')
    yield create("from nothing", "")
    yield create("from another type", '{"name": "$x"}', "text/plain")
    yield create("from a form", "a=b", "application/x-www-form-urlencoded")
    yield create("without a type", '{"name": "$x", "config": {}}', None)


def _configuring() -> Iterator[Step]:
    config = f"{_ONE}/config"
    yield Step("PUT what it has", "PUT", config, {"@": "source"})
    yield Step("PUT a change", "PUT", config, {"@": "source", "tasks.max": "2"})
    yield Step("PUT a number", "PUT", config, {"@": "source", "tasks.max": 1})
    yield Step("PUT null", "PUT", config, {"@": "source", "tasks.max": None})
    yield Step("PUT another name", "PUT", config, {"@": "source", "name": "$other"})
    yield Step("PUT broken JSON", "PUT", config, "{")
    yield Step("PUT a list", "PUT", config, [])
    yield Step("PUT nothing", "PUT", config, "")
    yield Step("PUT an invalid one", "PUT", config, {"@": "source", "tasks.max": "many"})
    yield Step("PUT another type", "PUT", config, "{}", "text/plain")
    yield Step("PATCH", "PATCH", config, {"tasks.max": "1"})
    yield Step("PATCH null", "PATCH", config, {"tasks.max": None})
    yield Step("PATCH nothing", "PATCH", config, {})
    yield Step("PATCH broken JSON", "PATCH", config, "{")
    yield Step("PATCH a list", "PATCH", config, [])
    yield Step("PATCH an invalid one", "PATCH", config, {"tasks.max": "many"})
    yield Step("PATCH another name", "PATCH", config, {"name": "$other"})
    yield Step("status until it runs again", "GET", f"{_ONE}/status", until=_has_tasks)


def _steering() -> Iterator[Step]:
    yield Step("pause", "PUT", f"{_ONE}/pause")
    yield Step("status until paused", "GET", f"{_ONE}/status", until=_state_is("PAUSED"))
    yield Step("pause a paused one", "PUT", f"{_ONE}/pause")
    yield Step("restart a paused one", "POST", f"{_ONE}/restart")
    yield Step("resume", "PUT", f"{_ONE}/resume")
    yield Step("status until resumed", "GET", f"{_ONE}/status", until=_has_tasks)
    yield Step("resume a running one", "PUT", f"{_ONE}/resume")
    yield Step("pause by another method", "POST", f"{_ONE}/pause")
    yield Step("restart", "POST", f"{_ONE}/restart")
    yield Step("status after the restart", "GET", f"{_ONE}/status", until=_has_tasks)
    yield Step("restart with tasks", "POST", f"{_ONE}/restart?includeTasks=true")
    yield Step("status after that restart", "GET", f"{_ONE}/status", until=_has_tasks)
    yield Step("restart what failed", "POST", f"{_ONE}/restart?onlyFailed=true")
    yield Step("restart all that failed", "POST", f"{_ONE}/restart?includeTasks=true&onlyFailed=true")
    yield Step("restart with nonsense", "POST", f"{_ONE}/restart?includeTasks=maybe")
    yield Step("restart a task", "POST", f"{_ONE}/tasks/0/restart")
    yield Step("status after the task's restart", "GET", f"{_ONE}/status", until=_has_tasks)
    yield Step("restart an unknown task", "POST", f"{_ONE}/tasks/99/restart")
    yield Step("restart a task that is no number", "POST", f"{_ONE}/tasks/x/restart")


def _offsets() -> Iterator[Step]:
    offsets = f"{_ONE}/offsets"
    sink = f"{_SINK}/offsets"
    item = {"partition": {"@": "partition"}, "offset": {"@": "offset"}}
    of_sink = {"partition": {"kafka_topic": "@topic", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}
    yield Step("offsets", "GET", offsets, until=_offsets_are(1))
    yield Step("alter while it runs", "PATCH", offsets, {"offsets": [item]})
    yield Step("reset while it runs", "DELETE", offsets)
    yield Step("stop", "PUT", f"{_ONE}/stop")
    yield Step("status until stopped", "GET", f"{_ONE}/status", until=_is_stopped)
    yield Step("tasks of a stopped one", "GET", f"{_ONE}/tasks")
    yield Step("connector that is stopped", "GET", _ONE)
    yield Step("stop a stopped one", "PUT", f"{_ONE}/stop")
    yield Step("restart a stopped one", "POST", f"{_ONE}/restart")
    yield Step("alter", "PATCH", offsets, {"offsets": [item]})
    yield Step("offsets that were altered", "GET", offsets, until=_offsets_are(1))
    yield Step("alter nothing", "PATCH", offsets, {"offsets": []})
    yield Step("alter without offsets", "PATCH", offsets, {})
    yield Step("alter with broken JSON", "PATCH", offsets, "{")
    yield Step("alter with a list", "PATCH", offsets, [])
    yield Step("alter without a partition", "PATCH", offsets, {"offsets": [{"offset": {"@": "offset"}}]})
    yield Step("alter a text", "PATCH", offsets, {"offsets": ["text"]})
    yield Step("reset", "DELETE", offsets)
    yield Step("offsets that were reset", "GET", offsets, until=_offsets_are(0))
    yield Step("stop the sink", "PUT", f"{_SINK}/stop")
    yield Step("status until the sink is stopped", "GET", f"{_SINK}/status", until=_is_stopped)
    yield Step("alter the sink", "PATCH", sink, {"offsets": [of_sink]})
    yield Step("offsets of the sink", "GET", sink, until=_offsets_are(1))
    no_topic: dict[str, Any] = {"partition": {}, "offset": None}
    no_number = {**of_sink, "offset": {"kafka_offset": "x"}}
    yield Step("alter the sink without a topic", "PATCH", sink, {"offsets": [no_topic]})
    yield Step("alter the sink with a text", "PATCH", sink, {"offsets": [no_number]})
    yield Step("reset the sink", "DELETE", sink)
    yield Step("offsets of the sink that were reset", "GET", sink)
    yield Step("resume the stopped one", "PUT", f"{_ONE}/resume")
    yield Step("status until it runs at last", "GET", f"{_ONE}/status", until=_has_tasks)


def _unknown_names() -> Iterator[Step]:
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/config"),
        ("PATCH", "/config"),
        ("GET", "/status"),
        ("GET", "/tasks"),
        ("GET", "/tasks/0/status"),
        ("POST", "/tasks/0/restart"),
        ("POST", "/restart"),
        ("POST", "/restart?includeTasks=true"),
        ("PUT", "/pause"),
        ("PUT", "/resume"),
        ("PUT", "/stop"),
        ("GET", "/topics"),
        ("PUT", "/topics/reset"),
        ("GET", "/offsets"),
        ("PATCH", "/offsets"),
        ("DELETE", "/offsets"),
    ):
        body = {"offsets": [{"partition": {"a": "b"}, "offset": None}]} if path == "/offsets" else {"a": "b"}
        has_body = method == "PATCH"
        yield Step(f"{method} of nobody{path}", method, f"{_NOBODY}{path}", body if has_body else None)


def _http() -> Iterator[Step]:
    yield Step("unknown path", "GET", "/nowhere")
    yield Step("unknown path of a connector", "GET", f"{_ONE}/nowhere")
    yield Step("DELETE of all", "DELETE", "/connectors")
    yield Step("PUT of a connector", "PUT", _ONE, {})
    yield Step("POST of a status", "POST", f"{_ONE}/status")
    yield Step("HEAD", "HEAD", "/connectors")
    for path in ("/", "/connectors", _ONE, f"{_ONE}/config", f"{_ONE}/offsets", f"{_ONE}/pause"):
        yield Step(f"OPTIONS of {path.replace('$', '')}", "OPTIONS", path)


def _loggers() -> Iterator[Step]:
    one = "/admin/loggers/root"
    yield Step("loggers", "GET", "/admin/loggers", is_map=True)
    yield Step("logger", "GET", one)
    yield Step("set a level", "PUT", one, {"level": "DEBUG"})
    yield Step("level that was set", "GET", one)
    yield Step("set a level in small letters", "PUT", one, {"level": "info"})
    yield Step("set an unknown level", "PUT", one, {"level": "LOUD"})
    yield Step("set no level", "PUT", one, {})
    yield Step("set a level on all workers", "PUT", f"{one}?scope=cluster", {"level": "INFO"})
    yield Step("set a level in an unknown scope", "PUT", f"{one}?scope=moon", {"level": "INFO"})
    yield Step("unknown logger", "GET", "/admin/loggers/no.such.logger")


def _deleting() -> Iterator[Step]:
    yield Step("delete", "DELETE", _ONE)
    yield Step("deleted one", "GET", _ONE)
    yield Step("status of a deleted one", "GET", f"{_ONE}/status")
    yield Step("delete it again", "DELETE", _ONE)
    yield Step("delete the sink", "DELETE", _SINK)
    yield Step("no connectors any more", "GET", "/connectors")
