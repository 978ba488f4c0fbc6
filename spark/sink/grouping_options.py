"""By which options records come into groups: those in force, as the ledger has them, and earlier ones.

What is archived of a partition is known by the groups that its records were in: records that are read again
are grouped as they were, by a sink made of the options of then.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import PartitionGrant
from headrace.names.name_template import (
    DATA,
    OF_THE_CLOCK,
    NameField,
    NameVariable,
    path_text,
    read_name_template,
    read_path,
)
from headrace.options.declarations.option import ROUTE
from headrace.options.sink_settings import (
    OF_REGISTRIES,
    ConverterKind,
    Converters,
    ConverterSettings,
    NameTimeSource,
    NameValues,
    SinkSettings,
)
from headrace.options.transforms.chain import KeyOrValue

_TRANSFORMS: Final = "transforms"
EXACT_NUMBERS: Final = "file.name.numbers"
"""No option: what tells groups of this version from those of earlier ones."""
WHOLE_PATHS: Final = "file.name.paths"
"""No option: that a member which has the whole path as its name comes first."""
CUT_TIMES: Final = "file.name.timestamp.fractions"
"""No option: that times of values are cut down to ms."""
DIGIT_TIMES: Final = "file.name.timestamp.digits"
"""No option: that times of values may be texts of digits, which are ms."""
EARLY_TIMES: Final = "file.name.timestamp.before"
"""No option: that times of values may be before 1970."""
COPIED_DATA: Final = "file.name.data"
"""No option: that names show Avro data which are copied and have no columns."""
CONNECT_ENVELOPES: Final = "envelopes"
"""No option: that JSON next to a `schema` which is none of Connect's stays as it is."""
FILLED_DEFAULTS: Final = "defaults"
"""No option: that null fields are the defaults that Connect's schemas have, of JSON and behind transforms."""
PLAIN_PROTOBUF: Final = "protobuf.values"
"""No option: that Google's wrappers are their values, and that decimals have their own scale."""
OWN_NULLS: Final = "file.name.nulls"
"""No option: that nulls have no schema's name, where earlier versions gave them that of a neighbour."""
_READINGS: Final = frozenset(
    {
        EXACT_NUMBERS,
        WHOLE_PATHS,
        CUT_TIMES,
        DIGIT_TIMES,
        EARLY_TIMES,
        COPIED_DATA,
        CONNECT_ENVELOPES,
        FILLED_DEFAULTS,
        PLAIN_PROTOBUF,
        OWN_NULLS,
    }
)
_OTHERWISE: Final = ", grouped otherwise than by 1.0.0"
"""Ends the transforms where any of these is noted: 1.0.0 passes over them, and stops at other transforms."""
_ON_STOP: Final = "rotate.on.stop"
_FORM: Final = ".form"
"""Ends the names of what is no option: how members of keys or values look in names."""
_WITHOUT_NUMBERS: Final = frozenset({ConverterKind.BYTES, ConverterKind.STRING})
_WITHOUT_FORMS: Final = frozenset(ConverterKind) - OF_REGISTRIES - {ConverterKind.JSON}
# Noted where times of typed values decide groups, and never by the versions that took dates for numbers.
_VALUE_FORM: Final = "value.form"


def grouping_options(sink: SinkSettings) -> dict[str, str]:
    """What decides into which group a record comes, without secrets, as an operator would name it."""
    found = _own_grouping(sink)
    is_other = not _READINGS.isdisjoint(found)
    for route in sink.routes:
        prefix, own = f"{ROUTE}{route.name}.", _own_grouping(route.sink)
        is_other = is_other or not _READINGS.isdisjoint(own)
        found[f"{prefix}topics"] = ",".join(sorted(route.topics))
        found |= {f"{prefix}{name}": text for name, text in own.items()}
    if sink.transforms or is_other:
        found[_TRANSFORMS] = sink.transforms.text + (_OTHERWISE if is_other else "")
    return found


def _noted_transforms(options: Mapping[str, str]) -> str:
    """The transforms that grouping options have; empty without any."""
    return options.get(_TRANSFORMS, "").removesuffix(_OTHERWISE)


def route_name(options: GroupingOptions, topic: str) -> str | None:
    """The route that a topic had by these options; None where it had none."""
    for name, topics in options.options.items():
        if name.startswith(ROUTE) and name.endswith(".topics") and topic in topics.split(","):
            return name.removeprefix(ROUTE).partition(".")[0]
    return None


def grouping_for_topic(options: GroupingOptions, topic: str) -> GroupingOptions:
    """What decided into which group the records of a topic came; `hash` stays that of the whole sink."""
    route = route_name(options, topic)
    own = {name: text for name, text in options.options.items() if not name.startswith(ROUTE)}
    if route is not None:
        prefix = f"{ROUTE}{route}."
        # What it does not note, such as how keys look that its names do not show, is not the sink's.
        own = {name: text for name, text in own.items() if name == _TRANSFORMS} | {
            name.removeprefix(prefix): text
            for name, text in options.options.items()
            if name.startswith(prefix)
        }
    return GroupingOptions(hash=options.hash, options=own)


def _own_grouping(sink: SinkSettings) -> dict[str, str]:
    converters, tombstones = sink.converters, sink.output.sidecars.tombstone_template
    shown = set(map(form_of, _looked_into(sink)))
    return {
        "file.name.template": sink.names.template,
        "file.name.timestamp.source": f"{sink.names.time_source}:{path_text(sink.names.value_path)}",
        "file.name.timestamp.timezone": sink.names.timezone,
        "file.name.timestamp.round.ms": str(sink.names.round_ms),
        "file.name.values": _noted_values(sink),
        "file.name.missing": sink.names.missing,
        "key.converter": f"{converters.key.kind}:{converters.key.schemas_enable}",
        "value.converter": f"{converters.value.kind}:{converters.value.schemas_enable}",
        "header.converter": f"{converters.header.kind}",
        # Only where it is set: the hashes of others stay what they were.
        **({} if tombstones is None else {"sidecars.tombstones.directory": tombstones}),
        **({EXACT_NUMBERS: "exact"} if _shows_exact_numbers(sink) else {}),
        **_readings(sink),
        **{name: form for name, form in _member_forms(sink).items() if name in shown},
    }


def _variables(sink: SinkSettings) -> list[NameVariable]:
    """What the names of objects show, those of tombstones apart among them."""
    templates = filter(None, (sink.names.template, sink.output.sidecars.tombstone_template))
    return [each for template in templates for each in read_name_template(template).variables]


def _noted_values(sink: SinkSettings) -> NameValues:
    """How values are in names; where Lenses' names show none they are plain, so the hash of 1.0.0 stays."""
    values = sink.names.values
    if values is NameValues.LENSES and not any(each.field in DATA for each in _variables(sink)):
        return NameValues.PLAIN
    return values


def _readings(sink: SinkSettings) -> dict[str, str]:
    """What 1.0.0, or a build since, read otherwise of what groups records here; others keep its hash."""
    variables = _variables(sink)
    has_times = sink.names.time_source is NameTimeSource.VALUE and any(
        each.date and each.field not in OF_THE_CLOCK for each in variables
    )
    paths = [(each.field, each.path) for each in variables if each.field in {NameField.KEY, NameField.VALUE}]
    paths += [(NameField.VALUE, sink.names.value_path)] if has_times else []
    return {
        **({WHOLE_PATHS: "whole"} if any(len(path) > 1 for _, path in paths) else {}),
        **({CUT_TIMES: "cut", DIGIT_TIMES: "ms", EARLY_TIMES: "1970"} if has_times else {}),
        **({COPIED_DATA: "read"} if paths and not _copied(sink).isdisjoint(dict(paths)) else {}),
        **({CONNECT_ENVELOPES: "connect"} if opens_envelopes(sink) else {}),
        **({FILLED_DEFAULTS: "filled"} if filled_groups(sink) else {}),
        **({PLAIN_PROTOBUF: "plain"} if protobuf_groups(sink) else {}),
        **({OWN_NULLS: "own"} if _shows_schemas_of_nulls(sink) else {}),
    }


def _shows_schemas_of_nulls(sink: SinkSettings) -> bool:
    """Whether nulls may come with a schema whose name would be in names of their objects."""
    template = sink.output.sidecars.tombstone_template or sink.names.template
    if NameField.SCHEMA_NAME not in read_name_template(template).fields:
        return False
    # Whatever becomes of tombstones: nulls of unions are written with them ignored, too.
    return sink.converters.value.kind in OF_REGISTRIES or bool(sink.transforms.looks_into)


def _copied(sink: SinkSettings) -> frozenset[NameField]:
    """The parts of records whose Avro data are copied."""
    if ConverterKind.AVRO not in {sink.converters.key.kind, sink.converters.value.kind}:
        return frozenset()
    # With all that converts records, which few names need.
    from headrace.conversion.sink_records import copied_fields

    return frozenset(NameField(each) for each in copied_fields(sink))


def opens_envelopes(sink: SinkSettings) -> bool:
    """Whether the groups of records depend on which JSON is an envelope of schema and payload."""
    decisive = _decisive(sink)
    if sink.output.sidecars.tombstone_template is not None:
        # A payload of null is one.
        decisive.add(NameField.VALUE)
    converters = ((NameField.KEY, sink.converters.key), (NameField.VALUE, sink.converters.value))
    return any(
        field in decisive and each.kind is ConverterKind.JSON and each.schemas_enable is None
        for field, each in converters
    )


def protobuf_groups(sink: SinkSettings) -> frozenset[NameField]:
    """The keys and values in Protobuf that decide groups."""
    converters = ((NameField.KEY, sink.converters.key), (NameField.VALUE, sink.converters.value))
    found = frozenset(field for field, each in converters if each.kind is ConverterKind.PROTOBUF)
    return found and found & _decisive(sink)


def filled_groups(sink: SinkSettings) -> frozenset[NameField]:
    """The keys and values whose nulls decide groups, and become the defaults of their fields' schemas."""
    found = transformed_avro(sink)
    if ConverterKind.JSON not in {sink.converters.key.kind, sink.converters.value.kind}:
        return found
    # With all that converts records, which few names need.
    from headrace.conversion.sink_records import filled_fields

    return found | (frozenset(NameField(each) for each in filled_fields(sink)) & _decisive(sink))


def transformed_avro(sink: SinkSettings) -> frozenset[NameField]:
    """The keys and values in Avro whose nulls transforms take for defaults, where groups depend on it."""
    if not sink.transforms.fills_defaults:
        return frozenset()
    opened, decisive = set(map(NameField, sink.transforms.looks_into)), _looked_into(sink)
    shows_headers = any(each.field is NameField.HEADER for each in _variables(sink))
    is_made = NameField.KEY in decisive & opened
    if is_made or shows_headers or sink.transforms.routes_by_field:
        # Keys, headers and topics may be made of values, and headers of keys.
        decisive |= opened
    converters = ((NameField.KEY, sink.converters.key), (NameField.VALUE, sink.converters.value))
    return frozenset(
        field for field, each in converters if field in decisive & opened and each.kind is ConverterKind.AVRO
    )


def _decisive(sink: SinkSettings) -> set[NameField]:
    """The keys and values that decide groups by their members, or by what transforms make of them."""
    decisive = _looked_into(sink) | set(map(NameField, sink.transforms.looks_into))
    if sink.output.sidecars.tombstone_template is not None:
        # They name such objects.
        decisive.add(NameField.KEY)
    return decisive


def form_of(field: NameField) -> str:
    """The name, of no option, under which it is noted how members of keys or values look."""
    return f"{field}{_FORM}"


def _looked_into(sink: SinkSettings) -> set[NameField]:
    """The keys and values whose members, and how they look, decide groups: names or their times show them."""
    variables = _variables(sink)
    has_times = sink.names.time_source is NameTimeSource.VALUE and any(each.date for each in variables)
    shown = {each.field for each in variables}
    fields = shown & {NameField.KEY, NameField.VALUE}
    if has_times or NameField.SCHEMA_NAME in shown:
        fields.add(NameField.VALUE)
    return fields


def _member_forms(sink: SinkSettings) -> dict[str, str]:
    """How members of keys and values look, as far as the output's format and `json.format` decide it."""
    if sink.converters.key.kind in _WITHOUT_FORMS and sink.converters.value.kind in _WITHOUT_FORMS:
        return {}
    # With all that converts records, which few names need.
    from headrace.conversion.sink_records import member_forms

    return {form_of(NameField(each)): form for each, form in member_forms(sink).items()}


def _shows_exact_numbers(sink: SinkSettings) -> bool:
    """Whether groups may be others than by earlier versions, which made doubles of all fractions."""
    # Transforms may make a number of a key, whatever it is read as.
    has_number_keys = (
        sink.converters.key.kind not in _WITHOUT_NUMBERS or KeyOrValue.KEY in sink.transforms.looks_into
    )
    has_numbers = any(
        variable.field in {NameField.KEY, NameField.VALUE} and (variable.path or has_number_keys)
        for variable in _variables(sink)
    )
    return has_numbers and sink.names.exact_numbers and sink.names.values is NameValues.ESCAPED


def can_group_by(earlier: GroupingOptions, sink: SinkSettings) -> bool:
    """Whether records can be grouped now as they were by earlier options: what reads them is the same."""
    now = grouping_options(sink)
    converters = [name for name in now if name.endswith(".converter")]
    if any(earlier.options.get(name) != now[name] for name in converters):
        return False
    if _noted_transforms(earlier.options) != _noted_transforms(now):
        return False
    return all(_looks_alike(earlier, sink, topic) for topic in _routed_topics(earlier, sink))


def _routed_topics(earlier: GroupingOptions, sink: SinkSettings) -> set[str]:
    """The topics that have, or had, a route, and one that has none."""
    ending = ".topics"
    had = {
        topic
        for name, topics in earlier.options.items()
        if name.startswith(ROUTE) and name.endswith(ending)
        for topic in topics.split(",")
    }
    return had.union(("",), *(route.topics for route in sink.routes))


def _looks_alike(earlier: GroupingOptions, sink: SinkSettings, topic: str) -> bool:
    """Whether the members that names of a topic showed look as they did.

    Earlier versions did not note it: an upgrade changes no option, and stops no partition.
    """
    route, before = sink.route(topic), grouping_for_topic(earlier, topic).options
    now = _member_forms(sink if route is None else route.sink)
    return all(before.get(name, form) == form for name, form in now.items())


def options_that_keep_open(sink: SinkSettings) -> list[str]:
    """The options, of the sink and of its routes, by which a clean stop leaves objects open."""
    routes = [f"{ROUTE}{each.name}.{_ON_STOP}" for each in sink.routes if not each.sink.rotation.on_stop]
    return routes if sink.rotation.on_stop else [_ON_STOP, *routes]


def grouping_changed(sink: SinkSettings, *, topic: str, behind: int) -> str:
    """What to do about objects of a topic that were open when what reads records was changed.

    Everything that is archived of the partition lies before the offset `behind`.
    """
    route = sink.route(topic)
    is_closing = (sink if route is None else route.sink).rotation.on_stop
    option = _ON_STOP if route is None else f"{ROUTE}{route.name}.{_ON_STOP}"
    closing = "" if is_closing else f" and set {option}=true"
    return (
        "objects were open when converters, transforms, or output.format or json.format of fields in names "
        f"were changed, and what is archived is known by the old ones only: set them back{closing}, let the "
        f"sink read this partition past offset {behind}, stop it cleanly once, which closes all objects, and "
        "change them then"
    )


def grouping_hash(sink: SinkSettings) -> str:
    """16 hex digits that change when a record would come into another group."""
    meaning = msgspec.json.encode(grouping_options(sink), order="sorted")
    return hashlib.sha256(meaning).hexdigest()[:16]


def refused_grouping(
    grant: PartitionGrant, earlier: Sequence[GroupingOptions], sink: SinkSettings
) -> str | None:
    """What to do about a partition whose archived records cannot be told any more from those that are not.

    None: they can, by the options of `earlier` that the grant refers to.
    """
    unknown = {one.hash for one in earlier if not can_group_by(one, sink)}
    if unknown.isdisjoint(one.options for one in grant.earlier):
        return None
    return grouping_changed(sink, topic=grant.topic, behind=grant.highest + 1)


def earlier_sink(options: GroupingOptions, sink: SinkSettings) -> SinkSettings:
    """The sink with the names that it had by earlier options."""
    source, _, path = options.options["file.name.timestamp.source"].partition(":")
    values = NameValues(options.options.get("file.name.values", NameValues.ESCAPED))
    names = replace(
        sink.names,
        template=options.options["file.name.template"],
        time_source=NameTimeSource(source),
        value_path=read_path(path) if path else (),
        timezone=options.options["file.name.timestamp.timezone"],
        values=values,
        # What reads them has not changed since, or nothing is read again.
        headers=sink.converters.header.kind if values is NameValues.LENSES else None,
        missing=options.options.get("file.name.missing", ""),
        round_ms=int(options.options.get("file.name.timestamp.round.ms", "0")),
        exact_numbers=EXACT_NUMBERS in options.options,
        typed_dates=_VALUE_FORM in options.options,
        whole_paths=WHOLE_PATHS in options.options,
        cut_times=CUT_TIMES in options.options,
        digit_times=DIGIT_TIMES in options.options,
        early_times=EARLY_TIMES in options.options,
        copied_data=COPIED_DATA in options.options,
        own_nulls=OWN_NULLS in options.options,
    )
    sidecars = replace(
        sink.output.sidecars, tombstone_template=options.options.get("sidecars.tombstones.directory")
    )
    return replace(sink, names=names, output=replace(sink.output, sidecars=sidecars))


def earlier_converters(options: GroupingOptions, was: SinkSettings) -> Converters:
    """What read the sink's keys and values by earlier options, as far as groups depend on it."""
    noted, filled, of_avro = options.options, filled_groups(was), transformed_avro(was)
    opens_all = CONNECT_ENVELOPES not in noted and opens_envelopes(was)
    of_messages = protobuf_groups(was) if PLAIN_PROTOBUF not in noted else frozenset[NameField]()

    def read_by(field: NameField, converter: ConverterSettings) -> ConverterSettings:
        # Builds between 1.0.0 and the first that notes it had defaults where they noted the form.
        keeps = field in filled and noted.keys().isdisjoint({FILLED_DEFAULTS, form_of(field)})
        fills = field in of_avro and FILLED_DEFAULTS not in noted
        return replace(
            converter,
            opens_all=opens_all,
            keeps_nulls=keeps,
            fills_fields=fills,
            keeps_messages=field in of_messages,
        )

    key, value = read_by(NameField.KEY, was.converters.key), read_by(NameField.VALUE, was.converters.value)
    return replace(was.converters, key=key, value=value)
