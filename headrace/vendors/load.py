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
from types import MappingProxyType
from typing import Final

from headrace.options.aws_forms import machine_region
from headrace.options.build import build
from headrace.options.checks import check, check_transforms, transform_warnings, warnings
from headrace.options.choices import InputFormat
from headrace.options.client_translation import (
    client_properties,
    group_read,
    layered,
    of_worker,
    read_settings,
    read_warnings,
)
from headrace.options.configuration_text import FileKind, PropertiesError, parse_properties, read_text
from headrace.options.connection_build import trace_warnings
from headrace.options.declarations import BY_NAME, format_options, reading_options, record_options
from headrace.options.declarations.option import IN_A_SINK, ROUTE
from headrace.options.describe import shown_values
from headrace.options.given import (
    Entry,
    Problem,
    Problems,
    SettingsError,
    Values,
    as_written,
    canonical,
    direction,
)
from headrace.options.masks import leave_out_registry, mask_warnings, masks, refuse_masks
from headrace.options.merge import SPELLINGS, Gathered, gather, unlikely
from headrace.options.references import ReferenceMissing, References
from headrace.options.secret import Secret
from headrace.options.settings import Settings
from headrace.options.sink_build import GivenRoute, read_routes, refuse_routes
from headrace.options.tls import ReadBytes
from headrace.options.transforms.read_chain import read_chain
from headrace.options.value_types import FormError
from headrace.options.vendor import Direction, Fate, Vendor
from headrace.options.vendor_translation import Translated, translate
from headrace.options.worker_file import (
    BROKERS,
    NO_LIMITS,
    TOPIC_CREATION,
    WorkerLimits,
    connector_defaults,
    topics_warning,
    worker_limits,
)
from headrace.process.own_process import read_store
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.class_names import (
    check_class,
    sink_class,
    whole_name,
    with_class,
    with_converters,
    with_whole_names,
)
from headrace.vendors.confluent.source_translation import CONFLUENT_SOURCE_VENDOR
from headrace.vendors.confluent.translation import CONFLUENT
from headrace.vendors.leftovers import foreign_to, is_leftover, is_leftover_of_a_source
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
    named = sink_class(named, configuration) or named
    return next((vendor for vendor in vendors if named in vendor.classes), None)


# The values that say what Headrace sets itself.
_DECIDED_HERE: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
# local[N,F] is Spark's other way to say spark.task.maxFailures=F.
_LOCAL_RETRIES: Final = re.compile(r"local\[[^,\]]*,\s*([0-9]+)\s*\]")


# Java reads the driver's, without blanks, Spark the executors': a JVM that is given another ends at once. A
# bare number is bytes to Java, of which Spark wants 450 MiB.
_MEMORY: Final = {
    "spark.driver.memory": (
        re.compile(r"[0-9]+[kmgt]|[0-9]{9,}", re.IGNORECASE),
        "a size as Java takes it, such as 512m or 2g",
    ),
    "spark.executor.memory": (
        re.compile(r"\s*[0-9]+(?:[kmgtp]?b|[kmgtp])?\s*", re.IGNORECASE),
        "a size such as 512m or 2g",
    ),
}


def check_spark(entries: Mapping[str, Entry], problems: Problems) -> None:
    """Note what would make Spark repeat tasks, and two places to run at once."""
    for name, value in _DECIDED_HERE.items():
        entry = entries.get(name)
        if entry is not None and entry.text.strip().lower() != value:
            problems.add(name, f"would weaken the guarantee; Headrace sets {value}: remove it", entry.shown)
    for name, (form, expected) in _MEMORY.items():
        entry = entries.get(name)
        if entry is not None and form.fullmatch(entry.text) is None:
            problems.add(name, f"expected {expected}", entry.shown)
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
    read_bytes: ReadBytes = read_store,
    vendors: tuple[Vendor, ...] = VENDORS,
    is_for_clients: bool = True,
) -> Settings:
    """Return the settings that a configuration's text describes.

    `overrides` (`--set`) win over the text, the text over `worker_config`, the text of a Connect worker's
    file, and what that forbids its connectors is refused. `read_file` and `read_bytes` are asked for the
    files that `${file:..}` and a PKCS12 trust store name, and may raise OSError; where no region is given,
    for those of AWS's profiles; nothing else is read.
    A configuration of another vendor's connector (`vendors`) is translated first. What is shown in place of a
    secret is a problem, and a warning where no client is made of it (`is_for_clients`). Raises SettingsError
    with all problems, and nothing else.
    """
    limits = _limits(worker_config)
    references = References(
        environment=environment, read_file=read_file, limits=limits.references, meant=whole_name
    )
    try:
        found = _load(
            text,
            kind,
            references,
            limits,
            environment=environment,
            read_file=read_file,
            overrides=overrides,
            worker_config=worker_config,
            read_bytes=read_bytes,
            vendors=vendors,
            is_for_clients=is_for_clients,
        )
    except SettingsError as error:
        raise SettingsError(tuple(_hidden(problem, references) for problem in error.problems)) from None
    # What connectors may not set, and is there, is of the worker's file.
    kept = frozenset(filter(limits.forbids, (BROKERS, *(name for name, _ in found.of_worker))))
    return replace(found, warnings=tuple(map(references.hidden, found.warnings)), kept_by_worker=kept)


def _limits(worker_config: str | None) -> WorkerLimits:
    if worker_config is None:
        return NO_LIMITS
    try:
        given = parse_properties(worker_config.removeprefix("\ufeff"))
    except PropertiesError:
        return NO_LIMITS  # a problem of the text, which is read again
    return worker_limits(dict(given))


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
    limits: WorkerLimits,
    *,
    environment: Mapping[str, str],
    read_file: Callable[[str], str],
    overrides: Mapping[str, str],
    worker_config: str | None,
    read_bytes: ReadBytes,
    vendors: tuple[Vendor, ...],
    is_for_clients: bool,
) -> Settings:
    problems = Problems()
    file = read_text(text, kind, problems)
    # Given as something else than a text: said already.
    unread = {canonical(problem.option) for problem in problems}
    for problem in limits.problems({**file, **overrides}):
        problems.add(problem.option, problem.message)
    worker = None if worker_config is None else with_whole_names(connector_defaults(worker_config, problems))
    names = {*file, *overrides}
    file, overrides = with_whole_names(file, names), with_whole_names(overrides, names)
    of_class = with_class({**file, **overrides}, references)
    vendor = vendor_of(of_class, vendors)
    if vendor is None:
        check_class({**file, **overrides}, references, problems)
    written = _written(file, overrides, references, canonical if vendor is None else str.strip)
    file, without_topics = limits.without_topics(file)
    translated = None
    if vendor is not None:
        translated = translate(
            vendor,
            {**file, **overrides},
            worker=with_converters(worker or {}, references),
            references=references,
            problems=problems,
            is_leftover=_leftovers(vendor, {**file, **overrides}, vendors),
        )
        file, overrides = dict(translated.options), _NONE
    elif is_quix({**file, **overrides}):
        file = with_our_names(file, references, problems)
        overrides = with_our_names(overrides, references, problems)
    foreign = foreign_to(vendor, with_class({**file, **overrides}, references), vendors)
    if vendor is not None:
        foreign = replace(foreign, given=frozenset(map(str.strip, names)))
    gathered = gather(
        file, overrides, worker_config, references=references, problems=problems, foreign=foreign
    )
    gathered.broken |= unread
    if translated is not None:
        _spell(gathered, translated)
        gathered.broken |= translated.lost
    leave_out_registry(gathered)
    masked = masks(gathered, written, needless=_needless(gathered, translated))
    refuse_masks(gathered, masked if is_for_clients else (), problems)
    values, found = _checked(gathered, problems, _machines(gathered, environment, read_file))
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
    problems.include(found)
    routes = _routes(gathered, values, problems, is_sink=is_sink)
    transforms = read_chain(gathered.entries, problems, is_sink=is_sink)
    check_transforms(
        values, transforms, routes={topic: route.values for route in routes for topic in route.topics}
    )
    problems.raise_if_any()
    return build(
        values,
        clients=clients.properties,
        entries=gathered.entries,
        routes=routes,
        transforms=transforms,
        environment=environment,
        warnings=(
            *(() if translated is None else translated.warnings),
            *_ignored(gathered),
            *topics_warning(without_topics),
            *warnings(values),
            *trace_warnings(values, environment),
            *unlikely(gathered),
            *mask_warnings(masked),
            *read_warnings(given, reading),
            *clients.warnings,
            *transform_warnings(values, transforms),
        ),
        shown=shown_values(gathered.entries, values, environment),
        written=written,
        reading=reading,
        group=group,
        translated=None if translated is None else translated.lines,
        of_worker=of_worker(gathered, is_sink=is_sink),
    )


def _checked(gathered: Gathered, problems: Problems, machines: Mapping[str, str]) -> tuple[Values, Problems]:
    """Return the options parsed, without defaults of another vendor that mean nothing next to the others.

    Problems of one option alone are noted, those of several next to each other returned.
    """
    while True:
        parsed, found = Problems(), Problems()
        values = Values(gathered.entries, parsed, frozenset(gathered.broken), machines)
        values.problems = found
        check(values)
        if not values.idle:
            break
        for name in values.idle:
            del gathered.entries[name]
    problems.include(parsed)
    values.problems = problems
    return values, found


def _routes(
    gathered: Gathered, values: Values, problems: Problems, *, is_sink: bool
) -> tuple[GivenRoute, ...]:
    if not is_sink:
        refuse_routes(gathered.entries, problems)
        return ()
    for name in sorted(set(gathered.without_meaning) & IN_A_SINK.keys()):
        problems.add(name, IN_A_SINK[name])
    routes = read_routes(gathered.entries, values, frozenset(gathered.broken))
    for route in routes:
        for name in route.unfit:
            # Else what is shown and translated would say that the route has the sink's.
            option, text = f"{ROUTE}{route.name}.{name}", BY_NAME[name].default
            assert text is not None, "a format or a codec"
            gathered.entries[option] = replace(as_written(option, text), is_default=True)
    return routes


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


def _spell(gathered: Gathered, translated: Translated) -> None:
    """Have problems name the options that the configuration has."""
    for own, theirs in translated.spelled.items():
        if own in gathered.entries:
            gathered.entries[own] = replace(gathered.entries[own], spelled=theirs, is_vendors=True)
    for own in translated.defaults & gathered.entries.keys():
        gathered.entries[own] = replace(gathered.entries[own], is_default=True)
    _drop_overruled(gathered)


def _needless(gathered: Gathered, translated: Translated | None) -> set[str]:
    lines = () if translated is None else translated.lines
    return {*gathered.without_meaning, *(line.option for line in lines if line.fate is Fate.NEEDLESS)}


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


def _ignored(gathered: Gathered) -> tuple[str, ...]:
    found = set(gathered.without_meaning)
    if not found:
        return ()
    names = ", ".join(sorted(found))
    of_topics = any(name.startswith(TOPIC_CREATION) for name in found)
    return (f"accepted without a meaning here: {names}{_TOPICS if of_topics else ''}",)
