"""Confluent's S3 sink: its configuration in Headrace's own options."""

from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.vendor import Vendor
from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.options import CONFLUENT_OPTIONS
from headrace.vendors.confluent.storage import translate_storage
from headrace.vendors.confluent.translated_formats import translate_formats
from headrace.vendors.confluent.translated_names import translate_names
from headrace.vendors.connect.options import translate_connect


def _translate(given: Translation) -> None:
    translate_storage(given)
    translate_names(given)
    translate_formats(given)
    translate_connect(given)
    if not given.is_given("header.converter") and not given.worker("header.converter"):
        _leave_headers(given)


def _leave_headers(given: Translation) -> None:
    """Headers that are not stored are not read: Connect's default converter takes any bytes for text."""
    if not given.flag("store.kafka.headers", default=False):
        given.own("header.converter", "org.apache.kafka.connect.converters.ByteArrayConverter")


CONFLUENT: Final = Vendor(
    name="Confluent's S3 sink",
    layout=LayoutName.CONFLUENT,
    classes=("io.confluent.connect.s3.S3SinkConnector",),
    options=CONFLUENT_OPTIONS,
    translate=_translate,
)
