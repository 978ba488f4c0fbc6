"""Options that Kafka Connect itself has for every sink and source: converters, and how errors are handled.

What Headrace has under the same name and with the same meaning (`topics`, `tasks.max`, `errors.tolerance`,
`consumer.override.*` ..) is in no table: it is passed on. A source's converters say how values are written,
or restored.
"""

from collections.abc import Collection
from typing import Final

from headrace.options.merge import is_known
from headrace.options.value_types import listed
from headrace.options.vendor import Fate, VendorOption, changed, kept, needless
from headrace.options.vendor_translation import Translation

_TOLERANCE: Final = "errors.tolerance"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROLES: Final = ("key", "value", "header")
_DEFAULT_HEADER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
# Of JsonConverter and AvroConverter: what decides only how they write, or how much they remember.
_JSON_CLASS: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO_CLASS: Final = "io.confluent.connect.avro.AvroConverter"
# Converters that have no options but `encoding`.
_PLAIN: Final = tuple(
    f".{kind}Converter"
    for kind in (
        "String",
        "ByteArray",
        "SimpleHeader",
        "Short",
        "Integer",
        "Long",
        "Float",
        "Double",
        "Boolean",
    )
)
_BESIDE: Final = "means nothing without JsonConverter, as in Connect"
_DEFAULT: Final = "as it is without, which is how it is read here"
# What AvroConverter reads otherwise with another value than this one, which a sink here does not.
_AVRO_DEFAULTS: Final = {
    "enhanced.avro.schema.support": "false",
    "connect.meta.data": "true",
    "flatten.unions": "false",
    "flatten.singleton.unions": "false",
    "generalized.sum.type.support": "false",
    "discard.type.doc.default": "false",
}
_JSON_SCHEMA_DEFAULTS: Final = {
    "json.fail.invalid.schema": "false",
    "use.optional.for.nonrequired": "false",
    "generalized.sum.type.support": "false",
    "flatten.singleton.unions": "false",
}
_PROTOBUF_DEFAULTS: Final = {
    "enhanced.protobuf.schema.support": "false",
    "generate.index.for.unions": "true",
    "generate.struct.for.nulls": "false",
    "int.for.enums": "false",
    "optional.for.nullables": "false",
    "optional.for.proto2": "true",
    "wrapper.for.nullables": "false",
    "wrapper.for.raw.primitives": "true",
    "flatten.unions": "false",
    "generalized.sum.type.support": "false",
}
# Of Confluent's backups of full records.
_SCHEMA_BACKUP: Final = "schema.backup.enabled"
_NULLS: Final = "replace.null.with.default"
_JSON_DEFAULTS: Final = {_NULLS: "true"}
_WITHOUT_SCHEMAS: Final = "decides nothing with schemas.enable=false, as in Connect: no field has a default"
# What decides how it writes, how it asks the registry, or into which Java classes it reads.
_AVRO_WRITES: Final = _names(
    """
    scrub.invalid.names allow.optional.map.keys ignore.default.for.nullables normalize.schemas
    id.compatibility.strict use.latest.with.metadata use.schema.id specific.avro.reader schema.reflection
    latest.cache.size latest.cache.ttl.sec missing.cache.size propagate.schema.tags context.name.strategy
    reference.subject.name.strategy object.additional.properties avro.use.logical.type.converters
    """
)
# Java's client of the registry reads it with this prefix alone.
_NAME_CHECK: Final = "schema.registry.ssl.endpoint.identification.algorithm"
_CHECKED: Final = "the registry's name is looked for in its certificate anyway"
_REGISTRY_CALLS: Final = {
    **dict.fromkeys(
        _names(
            """
            schema.registry.request.timeout.ms http.connect.timeout.ms http.read.timeout.ms
            max.retries retries.wait.ms retries.max.wait.ms
            """
        ),
        "the registry has 10 s for an answer, and is asked again without end",
    ),
    "ssl.endpoint.identification.algorithm": _CHECKED,
}
_DUAL: Final = "io.confluent.kafka.serializers.schema.id.DualSchemaIdDeserializer".lower()
_IDS: Final = dict.fromkeys(("key.schema.id.deserializer", "value.schema.id.deserializer"), _DUAL)
_DEFAULTS: Final[dict[str, dict[str, str]]] = {
    _AVRO_CLASS: _AVRO_DEFAULTS | _IDS,
    _JSON_CLASS: _JSON_DEFAULTS,
    "io.confluent.connect.json.JsonSchemaConverter": _JSON_SCHEMA_DEFAULTS | _IDS,
    "io.confluent.connect.protobuf.ProtobufConverter": _PROTOBUF_DEFAULTS | _IDS,
}
# Of AWS Glue's converters.
_GLUE_CLASSES: Final = "com.amazonaws.services.schemaregistry."
_GLUE_WRITES: Final = _names(
    """
    registry.name schemaAutoRegistrationEnabled schemaName schemaNameGenerationClass compatibility compression
    """
)
_GLUE_READS: Final = _names(
    """
    description tags dataFormat avroRecordType cacheSize timeToLiveMillis userAgentApp
    jacksonSerializationFeatures protobufMessageType
    """
)
_GLUE_NEEDLESS: Final = _GLUE_WRITES | _GLUE_READS
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


def needless_of_converter(converter: str, suffix: str, text: str, *, writes: bool) -> str | None:
    """Why an option of a converter's decides nothing; None where it may.

    `converter` is the class, empty where the worker's own is meant; `writes`: it is a source's.
    """
    value = text.strip().lower()
    if suffix == "plugin.version":
        return "there are no other versions of converters here"
    if suffix == "schemas.enable" and converter != _JSON_CLASS:
        return _BESIDE
    if not converter or converter.endswith(_PLAIN):
        is_other = suffix == "encoding" and value.replace("-", "") != "utf8"
        return None if is_other else "the converter has no other option"
    if converter.startswith(_GLUE_CLASSES) and suffix in (_GLUE_READS if writes else _GLUE_NEEDLESS):
        return "it decides nothing of what is in records"
    if _DEFAULTS.get(converter, {}).get(suffix) == value:
        return _DEFAULT
    needless = {name: why for name, why in _NEEDLESS_SUFFIXES.items() if not writes or "cache" in name}
    if converter != _JSON_CLASS:
        needless |= {**_REGISTRY_CALLS, **({_NAME_CHECK: _CHECKED} if value == "https" else {})}
        needless |= {} if writes else dict.fromkeys(_AVRO_WRITES, "a sink writes no schema")
    return needless.get(suffix)


def _converter_options() -> tuple[VendorOption, ...]:
    found: list[VendorOption] = []
    for role in _ROLES:
        name = f"{role}.converter"
        absent = (
            "SimpleHeaderConverter" if role == "header" else "that of the worker's file (`--worker-config`)"
        )
        found.append(kept(name, f"`{name}`; where it is absent, {absent}"))
        if role != "header":
            found += [needless(f"{name}.{suffix}", note) for suffix, note in _NEEDLESS_SUFFIXES.items()]
        found.append(kept(f"{name}.*", f"`{name}.*`, of the same names"))
    return tuple(found)


CONNECT_OPTIONS: Final[tuple[VendorOption, ...]] = (
    *_converter_options(),
    needless(
        "errors.deadletterqueue.context.headers.enable",
        "the headers that say why a record was refused are always written",
    ),
    needless("errors.log.include.messages", "the content of records is never logged"),
    needless("errors.retry.timeout", "what may pass by itself is tried again without end, visibly"),
    needless("errors.retry.delay.max.ms", "calls of S3 are repeated as `aws.s3.backoff.*` says"),
    needless("topic.creation.*", "a sink creates no topics that it reads"),
    needless("transaction.boundary*", "is of Connect's sources"),
    needless("config.action.reload", "values of references are read at each start"),
)
"""For the table of every sink of Kafka Connect."""


def translate_connect(given: Translation) -> None:
    """Write the converters: the connector's own, else the worker's; a missing one is a problem."""
    if given.is_given("topics.regex") or given.own_given("topics.regex"):
        given.own("topics.regex.internal", value=True)
    for role in _ROLES:
        _translate_converter(given, f"{role}.converter")


def _translate_converter(given: Translation, converter: str) -> None:
    if given.is_given(converter):
        given.rename(converter, converter)
        named = given.text(converter)
        for option, text in given.family(f"{converter}.").items():
            _translate_option(given, named, converter, option, text)
        return
    for option in given.family(f"{converter}."):
        given.note(
            option, Fate.NEEDLESS, f"means nothing without {converter}, as in Connect: the worker's is used"
        )
    of_worker = given.worker_family(converter)
    if converter in of_worker:
        named = of_worker[converter].strip()
        for option, value in of_worker.items():
            suffix = option.removeprefix(f"{converter}.")
            if option == converter or not _is_needless(named, suffix, value):
                _pass_on_workers(given, named, converter, option, value)
    elif converter == "header.converter":
        given.own(converter, _DEFAULT_HEADER)
    else:
        given.refuse(
            converter,
            "is missing; name the class that Connect's worker has as its default, such as "
            "org.apache.kafka.connect.storage.StringConverter, or give the worker's file by --worker-config",
        )


def _translate_option(given: Translation, named: str, converter: str, option: str, text: str) -> None:
    suffix = option.removeprefix(f"{converter}.")
    if suffix in _NEEDLESS_SUFFIXES:
        return
    if _is_read(named, suffix, option):
        given.rename(option, option)
        return
    why = needless_of_converter(named, suffix, text, writes=False)
    if why is None and suffix == _NULLS and given.text(f"{converter}.schemas.enable").lower() == "false":
        why = _WITHOUT_SCHEMAS
    if why is not None:
        given.note(option, Fate.NEEDLESS, why)
    elif suffix == _NAME_CHECK:
        _refuse_no_check(given, option)
    elif (default := _DEFAULTS.get(named, {}).get(suffix)) is not None:
        given.refuse(option, f"has values read otherwise than with {default}, not done here; remove it")
    elif suffix == _SCHEMA_BACKUP:
        if given.flag(option, default=False):
            given.refuse(option, "has schemas written next to records, which is not done here; remove it")
        given.note(option, Fate.NEEDLESS, _DEFAULT)
    else:
        given.rename(option, option)


def _pass_on_workers(given: Translation, named: str, converter: str, option: str, value: str) -> None:
    suffix = option.removeprefix(f"{converter}.")
    if (default := _DEFAULTS.get(named, {}).get(suffix)) is None:
        given.own(option, value)
    elif suffix != _NULLS or given.worker(f"{converter}.schemas.enable").strip().lower() != "false":
        given.refuse(
            converter,
            f"is that of the worker's file, whose {option}={value} has values read otherwise than with "
            f"{default}, not done here; name the converter in this configuration",
        )


def _refuse_no_check(given: Translation, option: str) -> None:
    given.refuse(
        option,
        "leaves out the check of the registry's name, which is always made here: remove it, and have the "
        "name in the registry's certificate, or the certificate's name in schema.registry.url",
    )


def _is_needless(named: str, suffix: str, text: str) -> bool:
    """Whether an option of the worker's converter decides nothing."""
    return suffix in _NEEDLESS_SUFFIXES or (
        not _is_read(named, suffix, f"value.converter.{suffix}")
        and needless_of_converter(named, suffix, text, writes=False) is not None
    )


ONE_BUCKET: Final = (
    "names several buckets, and this connector reads one; `headrace translate` gives its configuration in "
    "Headrace's own options, in which aws.s3.bucket.name may be a list"
)
SOURCE_CONVERTERS: Final = ("key.converter", "value.converter")
"""Those that a source has."""
# What a restored value or key becomes with each of them.
_RESTORED: Final = {
    _JSON_CLASS: "json",
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "auto",
}
# Transforms that make a key, or an object of the key that is not there.
_KEY_MAKERS: Final = (".ValueToKey", ".HoistField$Key")
_OWN_OF: Final = {"key.converter": "restore.key", "value.converter": "restore.value"}

SOURCE_CONNECT_OPTIONS: Final[tuple[VendorOption, ...]] = (
    changed(
        "value.converter",
        "`value.converter`; in a restore `restore.value`: JsonConverter is `json` with "
        "`json.format=connect`, StringConverter `string`, ByteArrayConverter `auto`, and converters of a "
        "registry are refused",
    ),
    changed(
        "key.converter",
        "`restore.key` in a restore, in the same way; else records have no key, but for one that a transform "
        "makes: with JsonConverter `key.converter`, as JSON; with String- and ByteArrayConverter text without"
        " quotes, other keys as JSON; other converters are refused",
    ),
    kept("value.converter.*", "`value.converter.*`, of the same names"),
    needless("key.converter.*", "keys are restored as they are stored"),
    needless("errors.retry.timeout", "what may pass by itself is tried again without end, visibly"),
    needless("errors.log.include.messages", "the content of records is never logged"),
    needless("config.action.reload", "values of references are read at each start"),
    kept("name", "`name`, which is the group of consumers as well"),
)
"""For the table of every source of Kafka Connect."""


def warn_of_bad_rows(given: Translation, *, passed_by: str | None) -> None:
    """Have an operator read where rows that cannot be read go, or that the other connector stops at them.

    `passed_by` is the option by which it does not. Connect's tolerance is of converters and transforms alone.
    """
    dead = "errors.deadletterqueue.topic.name"
    tolerance = (given.own_given(_TOLERANCE) or given.own_given("error.tolerance")).lower()
    if passed_by is None and tolerance == "all":
        given.warn(
            f"{_TOLERANCE}=all is of rows of objects that cannot be read, too, at which the other connector "
            "stops; leave it out to stop at them"
        )
    elif passed_by is not None and tolerance != "none" and not given.own_given(dead):
        given.warn(f"{passed_by}: what cannot be read is only in the log; {dead} keeps it")


def translate_source_converters(given: Translation, *, restores: bool, typed: Collection[str] = ()) -> None:
    """Write how values (and in a restore keys) are written; `typed`: of which converters they have types."""
    for converter in SOURCE_CONVERTERS:
        if restores:
            _restored(given, converter, is_typed=converter in typed)
        elif converter == "value.converter":
            _passed_on(given, converter)
        else:
            _key_of_no_record(given, converter)


def _key_of_no_record(given: Translation, converter: str) -> None:
    named = given.text(converter) or given.worker(converter).strip()
    if not _makes_keys(given):
        if given.is_given(converter):
            given.note(converter, Fate.NEEDLESS, "records have no key")
    elif named == _JSON_CLASS:
        _json_key(given, converter)
    elif named and named not in _RESTORED:
        given.refuse(
            converter,
            f"is {named}, which writes a form that a key of a transform does not get here: give the connector"
            f" one of {', '.join(_RESTORED)}",
        )


def _makes_keys(given: Translation) -> bool:
    """Whether a transform makes keys where there were none."""
    aliases = listed(given.own_given("transforms"))
    return any(given.own_given(f"transforms.{alias}.type").endswith(_KEY_MAKERS) for alias in aliases)


def _json_key(given: Translation, converter: str) -> None:
    schemas = f"{converter}.schemas.enable"
    if given.is_given(converter):
        given.rename(converter, converter)
    else:
        given.own(converter, _JSON_CLASS, by=converter)
    # One of the connector's own is heard whoever has named the converter.
    given.rename(schemas, schemas)
    if not given.is_given(converter) and not given.is_given(schemas) and given.worker(schemas):
        given.own(schemas, given.worker(schemas), by=schemas)
    if given.is_given(schemas):
        given.note(schemas, Fate.KEPT, f"`{schemas}`, of the same name")


def _passed_on(given: Translation, converter: str) -> None:
    """The connector's own converter and its options; the worker's where it has none."""
    if not given.is_given(converter):
        for name, text in given.worker_family(converter).items():
            suffix = name.removeprefix(f"{converter}.")
            named = given.worker(converter)
            if name == converter or needless_of_converter(named, suffix, text, writes=True) is None:
                given.own(name, text, by=converter)
        return
    given.rename(converter, converter)
    for name, text in given.family(f"{converter}.").items():
        suffix = name.removeprefix(f"{converter}.")
        why = needless_of_converter(given.text(converter), suffix, text, writes=True)
        if why is None and suffix == _NAME_CHECK:
            _refuse_no_check(given, name)
        elif why is None:
            given.rename(name, name)
        else:
            given.note(name, Fate.NEEDLESS, why)


def _restored(given: Translation, converter: str, *, is_typed: bool) -> None:
    more = given.family(f"{converter}.")
    named = given.text(converter) or given.worker(converter).strip()
    if not named:
        return
    if named not in _RESTORED:
        _refuse_form(given, converter, named)
        return
    if named == _JSON_CLASS:
        _restored_json(given, converter, is_typed=is_typed)
    given.own(_OWN_OF[converter], _RESTORED[named], by=converter)
    for name in more:
        given.note(name, Fate.NEEDLESS, "a restore writes values as they are stored")


def _restored_json(given: Translation, converter: str, *, is_typed: bool) -> None:
    """Have what is not stored as JSON written as JsonConverter does; a form of its own is a problem."""
    read = given.text if given.is_given(converter) else given.worker
    schemas, decimals = f"{converter}.schemas.enable", f"{converter}.decimal.format"
    if converter == "value.converter" and read(schemas).strip().lower() != "false":
        given.refuse(schemas, "must be false with JsonConverter: schemas inside records are not written here")
    if is_typed and read(decimals).strip().lower() == "numeric":
        given.refuse(
            decimals,
            "must be BASE64: decimals as numbers next to dates as numbers are not written here; "
            "BASE64 with json.format=iso has decimals as numbers and dates as text",
        )
    given.own("json.format", "connect", by=converter)


def _refuse_form(given: Translation, converter: str, named: str) -> None:
    known = ", ".join(_RESTORED)
    if given.is_given(converter):
        given.refuse(
            converter,
            f"writes a form that a restore does not: known are {known}; leave it out for values as they are "
            f"stored ({_OWN_OF[converter]}=auto)",
        )
        return
    given.refuse(
        converter,
        f"is {named} in the worker's file, which writes a form that a restore does not; give the connector "
        f"one of {known} (ByteArrayConverter restores what is stored)",
    )


def _is_read(named: str, suffix: str, option: str) -> bool:
    """Whether an option of a sink's converter decides something here: what Glue's writes with does not."""
    is_written_with = named.startswith(_GLUE_CLASSES) and suffix in _GLUE_NEEDLESS
    return is_known(option) and suffix != "schemas.enable" and not is_written_with
