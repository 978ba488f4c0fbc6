"""Options that Kafka Connect itself has for every sink: converters, and how errors are handled.

What Headrace has under the same name and with the same meaning (`topics`, `tasks.max`, `errors.tolerance`,
`consumer.override.*` ..) stands in no table: it is passed on.
"""

from typing import Final

from ingest.settings.vendors.translation import Translation
from ingest.settings.vendors.vendor import Fate, VendorOption

_PARTS: Final = ("key", "value", "header")
_DEFAULT_HEADER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
# Of JsonConverter and AvroConverter: what decides only how they write, or how much they remember.
_NEEDLESS_SUFFIXES: Final = {
    "schemas.cache.size": "schemas are remembered anyway",
    "schemas.cache.config": "schemas are remembered anyway",
    "schema.cache.size": "schemas are remembered anyway",
    "max.schemas.per.subject": "schemas are remembered anyway",
    "decimal.format": "decimals are read in either form",
    "use.latest.version": "a sink reads each record by the schema that it names",
    "latest.compatibility.strict": "a sink reads each record by the schema that it names",
    "value.subject.name.strategy": "a sink reads each record by the schema that it names",
    "key.subject.name.strategy": "a sink reads each record by the schema that it names",
    "auto.register.schemas": "a sink registers no schema",
}


def _converter_options() -> tuple[VendorOption, ...]:
    found: list[VendorOption] = []
    for part in _PARTS:
        name = f"{part}.converter"
        absent = (
            "SimpleHeaderConverter" if part == "header" else "that of the worker's file (`--worker-config`)"
        )
        found.append(VendorOption(name=name, fate=Fate.KEPT, note=f"`{name}`; where it is absent, {absent}"))
        if part != "header":
            found += [
                VendorOption(name=f"{name}.{suffix}", fate=Fate.NEEDLESS, note=note)
                for suffix, note in _NEEDLESS_SUFFIXES.items()
            ]
        found.append(VendorOption(name=f"{name}.*", fate=Fate.KEPT, note=f"`{name}.*`, of the same names"))
    return tuple(found)


CONNECT_OPTIONS: Final[tuple[VendorOption, ...]] = (
    *_converter_options(),
    VendorOption(
        name="errors.deadletterqueue.context.headers.enable",
        fate=Fate.NEEDLESS,
        note="the headers that say why a record was refused are always written",
    ),
    VendorOption(
        name="errors.log.include.messages",
        fate=Fate.NEEDLESS,
        note="the content of records is never logged",
    ),
    VendorOption(
        name="errors.retry.timeout",
        fate=Fate.NEEDLESS,
        note="what may pass by itself is tried again without end, visibly",
    ),
    VendorOption(
        name="errors.retry.delay.max.ms",
        fate=Fate.NEEDLESS,
        note="calls of S3 are repeated as `aws.s3.backoff.*` says",
    ),
    VendorOption(
        name="config.action.reload",
        fate=Fate.NEEDLESS,
        note="values behind references are read at each start",
    ),
)
"""For the table of every sink of Kafka Connect."""


def translate_connect(given: Translation) -> None:
    """Write the converters: the connector's own, else the worker's; a missing one is a problem."""
    for part in _PARTS:
        _translate_converter(given, f"{part}.converter")


def _translate_converter(given: Translation, converter: str) -> None:
    if given.is_given(converter):
        given.rename(converter, converter)
        for option in given.family(f"{converter}."):
            if option.removeprefix(f"{converter}.") not in _NEEDLESS_SUFFIXES:
                given.rename(option, option)
        return
    of_worker = given.worker_family(converter)
    if converter in of_worker:
        for option, value in of_worker.items():
            if option.removeprefix(f"{converter}.") not in _NEEDLESS_SUFFIXES:
                given.own(option, value)
    elif converter == "header.converter":
        given.own(converter, _DEFAULT_HEADER)
    else:
        given.refuse(
            converter,
            "is missing; name the class that Connect's worker has as its default, such as "
            "org.apache.kafka.connect.storage.StringConverter, or give the worker's file by --worker-config",
        )
