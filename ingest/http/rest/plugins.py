"""The connector classes as Connect's plugins: options as definitions, and a configuration judged by them."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.kafka.control_records import ConnectorRecord
from headrace.model.errors import HeadraceError
from headrace.model.text_formatting import printable
from headrace.options.configuration_text import PropertiesError, parse_properties
from headrace.options.declarations import BY_NAME, OPTIONS
from headrace.options.declarations.option import Group, Option
from headrace.options.given import Problem, SettingsError, as_written, canonical, is_for
from headrace.options.references import has_reference
from headrace.options.secret import NO_VALUE
from headrace.options.vendor import AIVEN_SOURCE, SINK_CLASSES, WAYS, Direction, direction_of
from headrace.process.own_process import own_version, read_regular
from headrace.vendors.load import load

CLASS: Final = "connector.class"
_SHORT: Final = frozenset({"INT", "LONG", "BOOLEAN"})
# Place, type and password of a store are held against each other.
_STORE: Final = re.compile(r".*\bssl\.(key|trust)store\.")


class InvalidPluginConfig(HeadraceError):
    """What was sent to be judged is no configuration at all."""


def plugin_infos() -> list[dict[str, str]]:
    """`GET /connector-plugins`."""
    ours = own_version()
    return [{"class": name, "type": way.value, "version": ours} for name, way in WAYS.items()]


def plugin_class(name: str) -> str | None:
    """The class that a name means, whole or short, with or without its ending, as Connect takes it."""
    for known in WAYS:
        simple = known.rpartition(".")[2]
        if name in {known, simple, simple.removesuffix("Connector")}:
            return known
    return None


def default_class(way: Direction) -> str:
    """The class that is shown of a connector whose configuration names none.

    Of a source Aiven's, the name under which tools know it.
    """
    return AIVEN_SOURCE if way is Direction.SOURCE else SINK_CLASSES[0]


def way_of(config: Mapping[str, str]) -> Direction:
    """Which way the data goes, as far as the names of the options tell."""
    plugin = plugin_class(config.get(CLASS, "").strip())
    return direction_of(plugin or "", map(canonical, config))


def shown_class(config: Mapping[str, str]) -> str:
    """The class that is shown of a configuration without one."""
    return default_class(way_of(config))


def without_shown_class(config: Mapping[str, str], before: ConnectorRecord | None) -> Mapping[str, str]:
    """The configuration without a class that it has only because it was shown: it was configured without one.

    Who sends back what was shown changes nothing.
    """
    if before is None or before.problem is not None or CLASS in before.config:
        return config
    rest = {option: text for option, text in config.items() if option != CLASS}
    return rest if config.get(CLASS) == shown_class(before.config) == shown_class(rest) else config


def definitions(plugin: str) -> list[dict[str, Any]]:
    """`GET /connector-plugins/{class}/config`: its options, group by group in the order of their docs."""
    order: dict[Group, int] = defaultdict(int)
    found = []
    for option in OPTIONS:
        if is_for(option, WAYS[plugin]):
            order[option.group] += 1
            found.append(_definition(option, order[option.group]))
    return found


def validated(
    plugin: str, config: Mapping[str, str], worker_config: str, problems: Sequence[Problem]
) -> dict[str, Any]:
    """`PUT /connector-plugins/{class}/config/validate`: each option, its value and what is wrong with it.

    What a Connect worker knows (the brokers) is taken from `worker_config`, the text of its properties, where
    the configuration leaves it out. References, the worker's own included, are not followed: their values are
    not checked. `problems` are those that are found already.
    """
    texts = {CLASS: plugin, **config}
    errors: dict[str, list[str]] = defaultdict(list)
    found = _problems(texts, worker_config)
    if has_reference(texts[CLASS]) and not found:
        # It leads to the class that was asked about, if to one: that has the options.
        found = _problems({**texts, CLASS: plugin}, worker_config)
    for problem in (*problems, *found):
        errors[_option_of(problem)].append(problem.message)
    shown = {canonical(name): as_written(name, text).shown_whole for name, text in texts.items()}
    known = [
        {"definition": definition, "value": _value(definition["name"], shown, errors)}
        for definition in definitions(plugin)
    ]
    defined = {one["value"]["name"] for one in known}
    others = [
        {"definition": None, "value": _value(name, shown, errors)} for name in errors if name not in defined
    ]
    return {
        "name": plugin,
        "error_count": sum(map(len, errors.values())),
        "groups": [group.value for group in Group],
        "configs": [*known, *others],
    }


def _problems(texts: Mapping[str, str], worker_config: str) -> list[Problem]:
    """What is wrong with a configuration, but for what depends on the value of a reference."""
    try:
        load(
            json.dumps(texts),
            kind="json",
            environment={},
            read_file=_read_nothing,
            worker_config=worker_config,
            read_bytes=read_regular,
        )
    except SettingsError as error:
        is_unsure = _unsure(texts, worker_config)
        return [
            one
            for one in error.problems
            if one.is_forbidden
            or one.message == NO_VALUE
            or not (one.is_missing or is_unsure(_option_of(one)))
        ]
    return []


def _option_of(problem: Problem) -> str:
    """The option that a problem is shown at: that of a translated one also tells the name here."""
    return canonical(problem.option.partition(" (here ")[0])


def _unsure(texts: Mapping[str, str], worker_config: str) -> Callable[[str], bool]:
    """Whether what is wrong with an option may depend on a reference: its own, or one of the same store."""
    try:
        of_worker = dict(parse_properties(worker_config))
    except PropertiesError:
        of_worker = {}  # said by who reads it
    referring = {canonical(name) for name, text in {**of_worker, **texts}.items() if has_reference(text)}
    stores = tuple(found[0] for name in referring if (found := _STORE.match(name)) is not None)
    return lambda option: option in referring or option.startswith(stores)


def given(body: Any) -> dict[str, str | None]:
    """The options of a body as texts, None for null; InvalidPluginConfig when it is no flat JSON object."""
    if not isinstance(body, dict):
        raise InvalidPluginConfig("The body has to be a JSON object of option names and their values")
    for name, value in body.items():
        if isinstance(value, list):
            raise InvalidPluginConfig(
                f"{printable(name)}: the value is a list; write a text, with commas between several values"
            )
        if isinstance(value, dict):
            inside = "send what is in it alone, without name and config around it"
            fix = inside if name == "config" else "write a text"
            raise InvalidPluginConfig(f"{printable(name)}: the value is an object; {fix}")
    return {name: None if value is None else _text(value) for name, value in body.items()}


def texts_of(body: Any) -> dict[str, str]:
    """The options of a body, those that are null left out. InvalidPluginConfig when it is no flat object."""
    return {option: text for option, text in given(body).items() if text is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _definition(option: Option[Any], order: int) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.form.kind,
        "required": option.required,
        "default_value": option.default,
        "importance": option.importance,
        "documentation": option.doc,
        "group": option.group.value,
        "order": order,
        "width": "SHORT" if option.form.kind in _SHORT else "LONG",
        "display_name": option.name,
        "dependents": [],
    }


def _value(name: str, shown: Mapping[str, str], errors: Mapping[str, list[str]]) -> dict[str, Any]:
    option = BY_NAME.get(name)
    default = None if option is None else option.default
    return {
        "name": name,
        "value": shown.get(name, default),
        "recommended_values": [] if option is None else list(option.form.values),
        "errors": errors.get(name, []),
        "visible": True,
    }


def _read_nothing(path: str) -> str:
    raise PermissionError(1, "references are not followed here", path)
