"""Text to settings: read, gather, parse, translate, check, build; every problem reported at once.

A connector of Kafka Connect passes over what it does not know: options of other connectors, of Connect's
worker, comments. In a configuration of another vendor's such lines decide nothing, and one warning says
which. What resembles an option that is known, or is of one of its groups, may be a misspelled or a newer one,
and stays a problem. What Spark may not be configured to do is refused here: its own retries would produce
records twice.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from headrace.options import client_names
from headrace.options.aws_forms import machine_region
from headrace.options.build import build
from headrace.options.checks import check, check_transforms, transform_warnings, warnings
from headrace.options.choices import InputFormat
from headrace.options.client_translation import (
    client_properties,
    group_read,
    layered,
    read_settings,
    read_warnings,
    timeout_warnings,
)
from headrace.options.configuration_text import (
    FileKind,
    ReferenceMissing,
    References,
    connector_defaults,
    read_text,
)
from headrace.options.connection_build import trace_warnings
from headrace.options.declarations import format_options, reading_options, record_options
from headrace.options.declarations.option import IN_A_SINK
from headrace.options.describe import shown_values
from headrace.options.given import Entry, Problem, Problems, SettingsError, canonical
from headrace.options.merge import SPELLINGS, Foreign, Gathered, gather, is_known, unlikely
from headrace.options.parsed_options import Values, direction, options_without_meaning
from headrace.options.secret import Secret, is_secret_name
from headrace.options.settings import Settings
from headrace.options.sink_build import GivenRoute, read_routes, refuse_routes
from headrace.options.suggestions import suggested, unknown_class
from headrace.options.tls import ReadBytes
from headrace.options.transforms.read_chain import read_chain
from headrace.options.value_types import FormError
from headrace.options.vendor import AIVEN_SOURCES, Direction, Vendor
from headrace.options.vendor_translation import Translated, translate
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.confluent.source_translation import CONFLUENT_SOURCE_VENDOR
from headrace.vendors.confluent.translation import CONFLUENT
from headrace.vendors.connect.options import CONNECT_OPTIONS, needless_of_converter
from headrace.vendors.lenses.source_translation import LENSES_SOURCE_VENDOR
from headrace.vendors.lenses.translation import LENSES
from headrace.vendors.quix.names import is_quix, with_our_names

VENDORS: Final[tuple[Vendor, ...]] = (
    AIVEN,
    CONFLUENT,
    LENSES,
    CONFLUENT_SOURCE_VENDOR,
    LENSES_SOURCE_VENDOR,
)


def vendor_of(configuration: Mapping[str, str], vendors: tuple[Vendor, ...] = VENDORS) -> Vendor | None:
    """The vendor whose connector `connector.class` names; None for our own classes and unknown ones."""
    named = configuration.get("connector.class", "").strip()
    return next((vendor for vendor in vendors if named in vendor.classes), None)


# The values that say what Headrace sets itself.
_DECIDED_HERE: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
# local[N,F] is Spark's other way to say spark.task.maxFailures=F.
_LOCAL_RETRIES: Final = re.compile(r"local\[[^,\]]*,\s*([0-9]+)\s*\]")


def check_spark(entries: Mapping[str, Entry], problems: Problems) -> None:
    """Note what would make Spark repeat tasks, and two places to run at once."""
    for name, value in _DECIDED_HERE.items():
        entry = entries.get(name)
        if entry is not None and entry.text.strip().lower() != value:
            problems.add(name, f"would weaken the guarantee; Headrace sets {value}: remove it", entry.shown)
    master, remote = entries.get("spark.master"), entries.get("spark.remote")
    if master is not None:
        retries = _LOCAL_RETRIES.fullmatch(master.text.strip())
        if retries is not None and int(retries[1]) != 1:
            problems.add(
                "spark.master",
                "lets Spark repeat tasks, as spark.task.maxFailures would; use local[N]",
                master.shown,
            )
        if remote is not None:
            problems.add("spark.remote", "says otherwise than spark.master; keep one of them", remote.shown)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of Connect itself, or often left over from examples; those that Connect reads have no counterpart here.
_NAMES: Final = _names(
    """
    tasks.max.enforce connector.plugin.version task.class plugin.discovery plugin.path
    schema.enable schemas.enable auto.offset.reset enable.auto.commit client.id group.id topic.creation.enable
    topic.creation.groups transaction.boundary exactly.once.source.support offset.flush.timeout.ms
    metadata.max.age.ms max.request.size
    """
)
_PREFIXES: Final = (
    "internal.key.converter",
    "internal.value.converter",
    "offset.storage.",
    "config.storage.",
    "config.providers",
    "status.storage.",
    "rest.",
    "avro.converter.",
    "producer.",
    "consumer.",
    "admin.",
)
TOPIC_CREATION: Final = "topic.creation."
_OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
# Names of these groups are of Connect as much as of any connector.
_COMMON: Final = _names(
    """
    topics topic schema schemas key value header errors config name max connector tasks transaction offsets
    log state http format
    """
)
_OF_CLIENTS: Final = frozenset().union(
    *client_names.KNOWN.values(), *client_names.RENAMED.values(), client_names.WITHOUT_COUNTERPART
)
CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


def is_leftover(option: str, own: Vendor | None, vendors: tuple[Vendor, ...]) -> bool:
    """Whether a line decides nothing in a connector whose options are `own`'s, and ours."""
    if option.startswith(_OVERRIDES):
        return option.split(".", 2)[2] in client_names.NEEDLESS
    if is_known(option):
        return False
    if option in _NAMES or option in _OF_CLIENTS or option.startswith(_PREFIXES):
        return True
    # What signs is never passed over, whichever sink calls it so.
    is_of_others = any(each is not own and each.option(option) is not None for each in vendors)
    if is_of_others and not is_secret_name(option) and not option.startswith("aws."):
        return True
    names = () if own is None else names_of(own)
    if suggested(option, (*SPELLINGS, *names)) is not None:
        return False
    return "." not in option or option.partition(".")[0] not in _groups(names)


def is_leftover_of_a_source(
    option: str,
    text: str,
    configuration: Mapping[str, str],
    vendors: tuple[Vendor, ...],
    own: Vendor | None = None,
) -> bool:
    """The same for a source, whose converters write: what they write is decided by their own options."""
    if option.startswith(TOPIC_CREATION):
        return not is_known(option)
    if any(each.matches(option) for each in CONNECT_OPTIONS if option.startswith(CONVERTERS)):
        part = next(name for name in CONVERTERS if option.startswith(name))
        suffix = option.removeprefix(f"{part}.")
        if is_known(option) or suffix == option:
            return False
        named = configuration.get(part, "").strip()
        return needless_of_converter(named, suffix, text, writes=True) is not None
    return is_leftover(option, own, vendors)


def names_of(vendor: Vendor) -> tuple[str, ...]:
    """The names of a maker's options, without families."""
    return tuple(row.name for row in vendor.options if not row.name.endswith("*"))


def _groups(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in (*SPELLINGS, *names)) - _COMMON


_TOPICS: Final = (
    "; missing topics are created with topic.creation.default.partitions and .replication.factor, and with "
    "the brokers' defaults: create those beforehand that need more"
)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def load(
    text: str,
    *,
    kind: FileKind,
    environment: Mapping[str, str],
    read_file: Callable[[str], str],
    overrides: Mapping[str, str] = _NONE,
    worker_config: str | None = None,
    read_bytes: ReadBytes = lambda path: Path(path).read_bytes(),
    vendors: tuple[Vendor, ...] = VENDORS,
) -> Settings:
    """Return the settings that a configuration's text describes.

    `overrides` (`--set`) win over the text, the text over `worker_config`, the text of a Connect worker's
    file. `read_file` and `read_bytes` are asked for the files that `${file:..}` and a PKCS12 trust store
    name, and may raise OSError; where no region is given, for those of AWS's profiles; nothing else is read.
    A configuration of another vendor's connector (`vendors`) is translated first. Raises SettingsError
    with all problems, and nothing else.
    """
    references = References(environment=environment, read_file=read_file)
    try:
        found = _load(
            text,
            kind,
            references,
            environment=environment,
            read_file=read_file,
            overrides=overrides,
            worker_config=worker_config,
            read_bytes=read_bytes,
            vendors=vendors,
        )
    except SettingsError as error:
        raise SettingsError(tuple(_hidden(problem, references) for problem in error.problems)) from None
    return replace(found, warnings=tuple(map(references.hidden, found.warnings)))


def _hidden(problem: Problem, references: References) -> Problem:
    """The problem with what references led to as it was written; its option too, where that is made of it."""
    is_given = problem.option in references.options or problem.option in SPELLINGS
    return replace(
        problem,
        option=problem.option if is_given else references.hidden(problem.option),
        message=references.hidden(problem.message),
        value=None if problem.value is None else references.hidden(problem.value),
    )


def _load(
    text: str,
    kind: FileKind,
    references: References,
    *,
    environment: Mapping[str, str],
    read_file: Callable[[str], str],
    overrides: Mapping[str, str],
    worker_config: str | None,
    read_bytes: ReadBytes,
    vendors: tuple[Vendor, ...],
) -> Settings:
    problems = Problems()
    file = read_text(text, kind, problems)
    # Given as something else than a text: said already.
    unread = {canonical(problem.option) for problem in problems}
    worker = None if worker_config is None else connector_defaults(worker_config, problems)
    vendor = vendor_of({**file, **overrides}, vendors)
    if vendor is None:
        _check_class({**file, **overrides}, problems)
    written = _written(file, overrides, references, canonical if vendor is None else str.strip)
    translated = None
    if vendor is not None:
        translated = translate(
            vendor,
            {**file, **overrides},
            worker=worker or {},
            references=references,
            problems=problems,
            is_leftover=_leftovers(vendor, {**file, **overrides}, vendors),
        )
        file, overrides = dict(translated.options), _NONE
    elif is_quix({**file, **overrides}):
        file = with_our_names(file, references, problems)
        overrides = with_our_names(overrides, references, problems)
    foreign = _foreign(vendor, {**file, **overrides}, vendors)
    gathered = gather(
        file, overrides, worker_config, references=references, problems=problems, foreign=foreign
    )
    gathered.broken |= unread
    if translated is not None:
        _spell(gathered, translated)
        gathered.broken |= translated.lost
    values = Values(
        gathered.entries, problems, frozenset(gathered.broken), _machines(gathered, environment, read_file)
    )
    is_sink = direction(values) is Direction.SINK
    takes_over = is_sink and translated is not None
    clients = client_properties(
        gathered,
        values,
        is_sink=is_sink,
        read_bytes=read_bytes,
        problems=problems,
        takes_over=takes_over,
    )
    given = layered("consumer", gathered) if is_sink else {}
    reading = read_settings(given, problems)
    group = group_read(given, problems) if takes_over else None
    check_spark(gathered.entries, problems)
    check(values)
    routes: tuple[GivenRoute, ...] = ()
    if is_sink:
        routes = read_routes(gathered.entries, values, frozenset(gathered.broken))
        for name in sorted(set(gathered.without_meaning) & IN_A_SINK.keys()):
            problems.add(name, IN_A_SINK[name])
    else:
        refuse_routes(gathered.entries, problems)
    transforms = read_chain(gathered.entries, problems, is_sink=is_sink)
    check_transforms(
        values, transforms, routes={topic: route.values for route in routes for topic in route.topics}
    )
    problems.raise_if_any()
    return build(
        values,
        clients=clients,
        entries=gathered.entries,
        routes=routes,
        transforms=transforms,
        environment=environment,
        warnings=(
            *(() if translated is None else translated.warnings),
            *_ignored(gathered, values),
            *warnings(values),
            *trace_warnings(values, environment),
            *unlikely(gathered),
            *read_warnings(given, reading),
            *timeout_warnings(gathered, values),
            *transform_warnings(values, transforms),
        ),
        shown=shown_values(gathered.entries, values, environment),
        written=written,
        reading=reading,
        group=group,
        translated=translated,
    )


def _check_class(configuration: Mapping[str, str], problems: Problems) -> None:
    """Raise SettingsError for a class that is not known: which options there are is decided by it."""
    named = configuration.get("connector.class", "").strip()
    message = None if "${" in named else unknown_class(named)
    if message is not None:
        problems.add("connector.class", message, named)
        problems.raise_if_any()


def _written(
    file: Mapping[str, str],
    overrides: Mapping[str, str],
    references: References,
    known_as: Callable[[str], str],
) -> tuple[tuple[str, Secret, Secret], ...]:
    """Return what is given by the names it has, each text as written and with its references replaced."""
    overridden = {known_as(name) for name in overrides}
    kept = {name: text for name, text in file.items() if known_as(name) not in overridden}
    found = []
    for name, raw in {**kept, **overrides}.items():
        try:
            text = references.replaced(name, raw)
        except ReferenceMissing:
            # A problem, unless the line decides nothing.
            text = raw
        found.append((name.strip(), Secret(raw), Secret(text)))
    return tuple(found)


def _machines(
    gathered: Gathered, environment: Mapping[str, str], read_file: Callable[[str], str]
) -> dict[str, str]:
    """Return the defaults that are this machine's."""
    name = reading_options.REGION.name
    region = None if name in gathered.entries else machine_region(environment, read_file)
    return {} if region is None else {name: region}


def _leftovers(
    vendor: Vendor, configuration: Mapping[str, str], vendors: tuple[Vendor, ...]
) -> Callable[[str], bool]:
    if vendor.is_sink:
        return partial(is_leftover, own=vendor, vendors=vendors)
    return lambda option: is_leftover_of_a_source(
        option, configuration.get(option, ""), configuration, vendors, own=vendor
    )


def _foreign(vendor: Vendor | None, configuration: Mapping[str, str], vendors: tuple[Vendor, ...]) -> Foreign:
    """Return what else a configuration may hold that names another vendor's connector."""
    if vendor is not None:
        return Foreign(owner=vendor.name, names=names_of(vendor))
    if configuration.get("connector.class", "").strip() not in AIVEN_SOURCES:
        return Foreign()

    def decides_nothing(option: str, text: str) -> bool:
        return is_leftover_of_a_source(option, text, configuration, vendors)

    trimmed = frozenset({reading_options.PREFIX.name, record_options.FILE_NAME_TEMPLATE.name})
    return Foreign(owner="Aiven's S3 source", is_leftover=decides_nothing, trimmed=trimmed)


def _spell(gathered: Gathered, translated: Translated) -> None:
    """Have problems name the options that the configuration has."""
    for own, theirs in translated.spelled.items():
        if own in gathered.entries:
            gathered.entries[own] = replace(gathered.entries[own], spelled=theirs, is_vendors=True)
    _drop_overruled(gathered)


def _drop_overruled(gathered: Gathered) -> None:
    """Drop what a vendor's format class says of lines where `input.format` of ours has none of them."""
    exact = gathered.entries.get(format_options.TEXT_EXACT.name)
    chosen = gathered.entries.get(record_options.INPUT_FORMAT.name)
    if exact is None or chosen is None or not exact.is_vendors or chosen.is_vendors:
        return
    form = record_options.INPUT_FORMAT.form
    with suppress(FormError):
        if form.parse(chosen.text) not in {InputFormat.TEXT, InputFormat.AUTO}:
            del gathered.entries[exact.option]


def _ignored(gathered: Gathered, values: Values) -> tuple[str, ...]:
    found = {*gathered.without_meaning, *options_without_meaning(values)}
    if not found:
        return ()
    names = ", ".join(sorted(found))
    of_topics = any(name.startswith(TOPIC_CREATION) for name in found)
    return (f"accepted without a meaning here: {names}{_TOPICS if of_topics else ''}",)
