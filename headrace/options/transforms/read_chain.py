"""The chain of transforms that a configuration asks for, every problem noted, and where it can lead.

Topics are those that a chain tells before any record is seen.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from headrace.model.text_formatting import HINTED, did_you_mean, similar
from headrace.options.declarations.option import PREDICATE_ALIASES, TRANSFORM_ALIASES
from headrace.options.given import Entry, Problems
from headrace.options.topic_expressions import matches, replaced
from headrace.options.transforms import chain as smt
from headrace.options.transforms.alias_options import AliasOptions
from headrace.options.transforms.readers import PREDICATES, TRANSFORM_NAMES, TRANSFORMS
from headrace.options.transforms.vendor_readers import INSTEAD
from headrace.options.value_types import listed

T = TypeVar("T")

_TRANSFORMS: Final = TRANSFORM_ALIASES.name
_PREDICATES: Final = PREDICATE_ALIASES.name
# They pass what has no schema, or refuse it.
_WITH_SCHEMA: Final = (smt.SetSchemaMetadata, smt.ExtractNewRecordState, smt.ByLogicalTableRouter)


def read_chain(entries: Mapping[str, Entry], problems: Problems, *, is_sink: bool) -> smt.TransformChain:
    """The chain; one with problems is not whole."""
    predicates = _predicates(entries, problems)
    steps: list[smt.TransformStep] = []
    texts: list[object] = []
    for alias in _aliases(entries, _TRANSFORMS, problems):
        options = AliasOptions(f"{_TRANSFORMS}.{alias}.", entries, problems)
        transform = _read(options, TRANSFORMS, TRANSFORM_NAMES)
        condition, name = _condition(options, predicates)
        _refuse_unknown(options)
        if transform is None:
            continue
        if isinstance(transform, smt.InsertField) and transform.offset is not None and not is_sink:
            options.refuse("offset.field", "is for sinks: a record that is produced has no offset yet")
        if isinstance(transform, _WITH_SCHEMA) and not is_sink:
            options.refuse("type", "is for sinks: it needs a schema, which what a source reads has not")
        if isinstance(transform, smt.Filter) and condition is None:
            options.refuse("predicate", "is missing: without one Filter would drop every record")
        steps.append(smt.TransformStep(alias=alias, transform=transform, condition=condition))
        texts.append([options.texts() | {"predicate": ""}, None if name is None else predicates[name][1]])
    text = json.dumps(texts, sort_keys=True, separators=(",", ":")) if steps else ""
    return smt.TransformChain(steps=tuple(steps), text=text)


def _predicates(
    entries: Mapping[str, Entry], problems: Problems
) -> dict[str, tuple[smt.Predicate | None, dict[str, str]]]:
    found: dict[str, tuple[smt.Predicate | None, dict[str, str]]] = {}
    for alias in _aliases(entries, _PREDICATES, problems):
        options = AliasOptions(f"{_PREDICATES}.{alias}.", entries, problems)
        predicate = _read(options, PREDICATES, ", ".join(PREDICATES))
        _refuse_unknown(options)
        found[alias] = (predicate, options.texts())
    return found


def _aliases(entries: Mapping[str, Entry], option: str, problems: Problems) -> list[str]:
    """The aliases that an option lists, each once; options of others are problems."""
    entry = entries.get(option)
    aliases = () if entry is None else listed(entry.text)
    for alias in (alias for alias, count in Counter(aliases).items() if count > 1):
        problems.add(option, f"names {alias} twice; give the second another alias")
    known = frozenset(aliases)
    for name, stray in entries.items():
        if not name.startswith(f"{option}."):
            continue
        rest = name.removeprefix(f"{option}.")
        # An alias may have dots.
        if not any(rest[:end] in known for end, sign in enumerate(rest) if sign == "."):
            alias = rest.partition(".")[0]
            close = similar(alias, aliases) if len(problems) < HINTED else None
            meant = None if close is None else f"{option}.{close}"
            hint = did_you_mean(meant, otherwise=f"add {alias} to {option}, or remove this")
            problems.add(stray.spelled, f"belongs to no alias that {option} lists; {hint}")
    return list(dict.fromkeys(aliases))


def _read(options: AliasOptions, readers: Mapping[str, Callable[[AliasOptions], T]], known: str) -> T | None:
    """What the options describe; None when something of it is wrong."""
    name = options.required("type", f"the name of a class: {known}")
    if name is None:
        return None
    read = readers.get(name.strip())
    if read is None:
        options.refuse("type", f"this class does not run here; {_meant(name.strip(), readers, known)}")
        return None
    return read(options)


def _meant(name: str, readers: Iterable[str], known: str) -> str:
    if name in INSTEAD:
        return f"{INSTEAD[name]}. Known are {known}"
    # Java's class names share their beginning, so that all of them resemble each other.
    close = similar(name, readers, least=0.85)
    return f"known are {known}" if close is None else f"{did_you_mean(close, otherwise='')} Known are {known}"


def _refuse_unknown(options: AliasOptions) -> None:
    """Note options that nothing has read; of a class that is not known here they are not known."""
    name = (options.text("type") or "").strip()
    if name in TRANSFORMS or name in PREDICATES:
        options.refuse_unknown(name.rpartition(".")[2])


def _condition(
    options: AliasOptions, predicates: Mapping[str, tuple[smt.Predicate | None, dict[str, str]]]
) -> tuple[smt.Condition | None, str | None]:
    """When the step applies, and the alias of its predicate."""
    alias = options.filled("predicate")
    negate = options.boolean("negate", otherwise=False)
    if alias is None:
        if options.text("negate") is not None:
            options.refuse("negate", "means nothing without predicate")
        return None, None
    alias = alias.strip()
    if alias not in predicates:
        hint = did_you_mean(similar(alias, predicates), otherwise="add it there, with its type")
        options.refuse("predicate", f"is not an alias that {_PREDICATES} lists; {hint}")
        return None, None
    predicate = predicates[alias][0]
    return (None if predicate is None else smt.Condition(predicate=predicate, negate=negate)), alias


_UTC: Final = ZoneInfo("UTC")


def reachable_topics(chain: smt.TransformChain, topic: str) -> frozenset[str]:
    """All of them; for every record's time is the same one."""
    found = frozenset({topic})
    for step in chain.steps:
        found = frozenset(_behind(step, found))
    return found


def routes_by_record(chain: smt.TransformChain) -> bool:
    """Whether topics are known only with a record, whose field or time is in the name."""
    return chain.routes_by_field or any(
        isinstance(step.transform, smt.TimestampRouter) for step in chain.steps
    )


def known_topics(chain: smt.TransformChain, topic: str | None) -> frozenset[str]:
    """Those of them whose names are known before any record is; of None, which keys name, there are none."""
    if topic is None or routes_by_record(chain):
        return frozenset()
    return reachable_topics(chain, topic)


def _behind(step: smt.TransformStep, topics: Iterable[str]) -> Iterable[str]:
    for topic in topics:
        applies, spares = _who(step, topic)
        if spares:
            yield topic
        if applies:
            yield _routed(step, topic)


def _who(step: smt.TransformStep, topic: str) -> tuple[bool, bool]:
    """Whether the step may apply to records of the topic, and whether it may not."""
    if step.condition is None:
        return True, False
    predicate = step.condition.predicate
    if not isinstance(predicate, smt.TopicNameMatches):
        return True, True
    is_match = matches(predicate.pattern, topic, is_ascii=True)
    applies = is_match is not step.condition.negate
    return applies, not applies


def _routed(step: smt.TransformStep, topic: str) -> str:
    """The topic to which the step sends a record of this one."""
    match step.transform:
        case (
            smt.RegexRouter(pattern=pattern, replacement=replacement)
            | smt.ByLogicalTableRouter(pattern=pattern, replacement=replacement)
        ):
            # One that became empty leaves the record where it is.
            return replaced(pattern, replacement, topic) or topic
        case smt.TimestampRouter(format=form, dates=dates):
            text = dates.text(0, _UTC) if "${timestamp}" in form else ""
            return form.replace("${topic}", topic).replace("${timestamp}", text)
        case _:
            return topic
