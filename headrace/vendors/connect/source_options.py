"""Converters of Kafka Connect in another vendor's source: how values are written, or restored."""

from typing import Final

from headrace.options.vendor import Fate, VendorOption
from headrace.options.vendor_translation import Translation
from headrace.vendors.connect.options import needless_of_converter

ONE_BUCKET: Final = (
    "names several buckets, and this connector reads one; `headrace translate` gives its configuration in "
    "Headrace's own options, in which aws.s3.bucket.name may be a list"
)
_CONVERTERS: Final = ("key.converter", "value.converter")
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
# What a restored value or key becomes with each of them.
_RESTORED: Final = {
    _JSON: "json",
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "auto",
}
_OWN_OF: Final = {"key.converter": "restore.key", "value.converter": "restore.value"}

SOURCE_CONNECT_OPTIONS: Final[tuple[VendorOption, ...]] = (
    VendorOption(
        name="value.converter",
        fate=Fate.CHANGED,
        note="`value.converter`; in a restore `restore.value`: JsonConverter is `json`, StringConverter "
        "`string`, ByteArrayConverter `auto`, and converters of a registry are refused",
    ),
    VendorOption(
        name="key.converter",
        fate=Fate.CHANGED,
        note="`restore.key` in a restore, in the same way; else it decides nothing, as records have no key",
    ),
    VendorOption(name="value.converter.*", fate=Fate.KEPT, note="`value.converter.*`, of the same names"),
    VendorOption(name="key.converter.*", fate=Fate.NEEDLESS, note="keys are restored as they are stored"),
    VendorOption(
        name="errors.retry.timeout",
        fate=Fate.NEEDLESS,
        note="what may pass by itself is tried again without end, visibly",
    ),
    VendorOption(
        name="errors.log.include.messages",
        fate=Fate.NEEDLESS,
        note="the content of records is never logged",
    ),
    VendorOption(
        name="config.action.reload",
        fate=Fate.NEEDLESS,
        note="values of references are read at each start",
    ),
    VendorOption(name="name", fate=Fate.KEPT, note="`name`, which is the group of consumers as well"),
)
"""For the table of every source of Kafka Connect."""


def translate_source_converters(given: Translation, *, restores: bool) -> None:
    """Write how values (and in a restore keys) are written."""
    for converter in _CONVERTERS:
        if restores:
            _restored(given, converter)
        elif converter == "value.converter":
            _passed_on(given, converter)
        else:
            _key_of_no_record(given, converter)


def _key_of_no_record(given: Translation, converter: str) -> None:
    if given.is_given(converter):
        given.note(converter, Fate.NEEDLESS, "records have no key")
    given.family(f"{converter}.")


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
        why = needless_of_converter(
            given.text(converter), name.removeprefix(f"{converter}."), text, writes=True
        )
        if why is None:
            given.rename(name, name)
        else:
            given.note(name, Fate.NEEDLESS, why)


def _restored(given: Translation, converter: str) -> None:
    more = given.family(f"{converter}.")
    named = given.text(converter) or given.worker(converter).strip()
    own = _OWN_OF[converter]
    if not named:
        return
    if named not in _RESTORED:
        _refuse_form(given, converter, named)
        return
    schemas = f"{converter}.schemas.enable"
    text = given.text(schemas) if given.is_given(converter) else given.worker(schemas)
    if named == _JSON and converter == "value.converter" and text.strip().lower() != "false":
        given.refuse(schemas, "must be false with JsonConverter: schemas inside records are not written here")
    given.own(own, _RESTORED[named], by=converter)
    for name in more:
        given.note(name, Fate.NEEDLESS, "a restore writes values as they are stored")


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
