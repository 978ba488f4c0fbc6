"""`route.NAME.*`: topics of a sink whose objects are other ones, in another bucket or under other names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.options.declarations import BY_NAME, sink_options
from headrace.options.declarations.route_options import ROUTE, is_routable
from headrace.options.given import Entry, Problems, canonical
from headrace.options.sink_checks import check_sink
from headrace.options.sink_forms import TOPICS
from headrace.options.value_types import FormError
from headrace.options.values import Values

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRoute:
    """A route as it is given: `values` are the sink's own where the route has none."""

    name: str
    topics: tuple[str, ...]
    values: Values


def read_routes(
    entries: Mapping[str, Entry], values: Values, broken: frozenset[str]
) -> tuple[GivenRoute, ...]:
    """The routes of a sink in their order; what is wrong with them is noted as problems of `values`."""
    by_name: dict[str, dict[str, Entry]] = {}
    for option, entry in entries.items():
        if option.startswith(ROUTE):
            name, _, rest = option.removeprefix(ROUTE).partition(".")
            if _is_option(name, canonical(rest), entry, values.problems):
                by_name.setdefault(name, {})[canonical(rest)] = replace(entry, option=canonical(rest))
    of_sink = {option: entry for option, entry in entries.items() if not option.startswith(ROUTE)}
    found = [
        GivenRoute(name=name, topics=topics, values=_values(of_sink, own, values.problems, broken))
        for name, own in by_name.items()
        if (topics := _topics(name, own.pop("topics", None), values)) is not None
    ]
    _check_once(found, values.problems)
    return tuple(found)


def refuse_routes(entries: Mapping[str, Entry], problems: Problems) -> None:
    """Note the routes of a source."""
    for option, entry in entries.items():
        if option.startswith(ROUTE):
            problems.add(entry.spelled, "is an option of a sink (connector.class=HeadraceSink); remove it")


def _is_option(name: str, option: str, entry: Entry, problems: Problems) -> bool:
    if _NAME.fullmatch(name) is None:
        problems.add(
            entry.spelled, "names no route: write route.NAME.topics, NAME of letters, digits, - and _"
        )
        return False
    known = BY_NAME.get(option)
    if option == "topics" or (known is not None and is_routable(known)):
        return True
    what = "is for the whole sink" if known is not None else "is not an option of Headrace"
    problems.add(
        entry.spelled,
        f"{option} {what}; a route has topics, and options of where and how objects are written",
    )
    return False


def _topics(name: str, entry: Entry | None, values: Values) -> tuple[str, ...] | None:
    """The topics of a route; None, and a problem, where it cannot have them."""
    option = f"{ROUTE}{name}.topics"
    if entry is None:
        values.problems.add(option, "is missing; a route is for topics that are named")
        return None
    try:
        topics: tuple[str, ...] = TOPICS.parse(entry.text)
    except FormError as error:
        reason = f"; {error}" if str(error) else ""
        values.problems.add(entry.spelled, f"expected {TOPICS.expected}{reason}", entry.shown)
        return None
    for topic in topics:
        if not _is_archived(topic, values):
            values.problems.add(
                entry.spelled, f"{topic} is not one of the sink's topics (topics, topics.regex)"
            )
    return topics


def _is_archived(topic: str, values: Values) -> bool:
    names, pattern = sink_options.TOPIC_NAMES, sink_options.TOPICS_REGEX
    if not values.are_good(names, pattern):
        return True
    chosen, regex = values[names], values[pattern]
    if chosen is not None:
        return topic in chosen
    return regex is None or re.fullmatch(regex, topic, re.ASCII) is not None


def _values(
    entries: Mapping[str, Entry], own: Mapping[str, Entry], problems: Problems, broken: frozenset[str]
) -> Values:
    """The sink's options with a route's own in their place, checked; no problem is noted twice."""
    found = Problems()
    values = Values({**entries, **own}, found, broken)
    check_sink(values)
    told = {(problem.option, problem.message) for problem in problems}
    for problem in found:
        if (problem.option, problem.message) not in told:
            problems.add(problem.option, problem.message, problem.value)
    return values


def _check_once(routes: list[GivenRoute], problems: Problems) -> None:
    first: dict[str, str] = {}
    for route in routes:
        for topic in route.topics:
            other = first.setdefault(topic, route.name)
            if other != route.name:
                problems.add(f"{ROUTE}{route.name}.topics", f"{topic} is in {ROUTE}{other}.topics as well")
