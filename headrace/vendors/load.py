"""Text to settings: read, gather, parse, translate, check, build; every problem told at once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from headrace.options.aws_region import machine_region
from headrace.options.build import build
from headrace.options.checks import check, check_transforms, transform_warnings, warnings
from headrace.options.client_translation import client_properties, layered
from headrace.options.declarations import reading_options
from headrace.options.declarations.foreign_options import IN_A_SINK
from headrace.options.describe import shown_values
from headrace.options.direction_forms import AIVEN_SOURCES, Direction
from headrace.options.directions import direction, options_without_meaning
from headrace.options.document_text import FileKind, read_text
from headrace.options.merge import Foreign, Gathered, gather
from headrace.options.problems import Problems
from headrace.options.references import References
from headrace.options.routes import GivenRoute, read_routes, refuse_routes
from headrace.options.settings import Settings
from headrace.options.sink_reading import read_settings, read_warnings
from headrace.options.spark_options import check_spark
from headrace.options.tls import ReadBytes
from headrace.options.transforms.read_chain import read_chain
from headrace.options.values import Values
from headrace.options.vendor import Vendor
from headrace.options.vendor_translation import Translated, translate
from headrace.options.worker_file import connector_defaults
from headrace.vendors import VENDORS, vendor_of
from headrace.vendors.leftovers import TOPIC_CREATION, is_leftover, is_leftover_of_a_source, names_of
from headrace.vendors.quix.translation import is_quix, with_our_names

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
    problems = Problems()
    references = References(environment=environment, read_file=read_file)
    file = read_text(text, kind, problems)
    worker = None if worker_config is None else connector_defaults(worker_config, problems)
    vendor = vendor_of({**file, **overrides}, vendors)
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
    if translated is not None:
        _spell(gathered, translated)
    values = Values(
        gathered.entries, problems, frozenset(gathered.broken), _machines(gathered, environment, read_file)
    )
    is_sink = direction(values) is Direction.SINK
    clients = client_properties(gathered, values, is_sink=is_sink, read_bytes=read_bytes, problems=problems)
    given = layered("consumer", gathered) if is_sink else {}
    reading = read_settings(given, problems)
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
        values, transforms, routed=frozenset(topic for route in routes for topic in route.topics)
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
            *read_warnings(given, reading),
            *transform_warnings(values, transforms),
        ),
        shown=shown_values(gathered.entries, values, environment),
        reading=reading,
        translated=translated,
    )


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

    return Foreign(owner="Aiven's S3 source", is_leftover=decides_nothing)


def _spell(gathered: Gathered, translated: Translated) -> None:
    """Have problems name the options that the configuration has."""
    for own, theirs in translated.spelled.items():
        if own in gathered.entries:
            gathered.entries[own] = replace(gathered.entries[own], spelled=theirs)


def _ignored(gathered: Gathered, values: Values) -> tuple[str, ...]:
    found = {*gathered.without_meaning, *options_without_meaning(values)}
    if not found:
        return ()
    names = ", ".join(sorted(found))
    of_topics = any(name.startswith(TOPIC_CREATION) for name in found)
    return (f"accepted without a meaning here: {names}{_TOPICS if of_topics else ''}",)
