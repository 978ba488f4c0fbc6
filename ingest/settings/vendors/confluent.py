"""Confluent's S3 sink: its configuration in Headrace's own options."""

from typing import Final

from ingest.settings.vendors.confluent_formats import translate_formats
from ingest.settings.vendors.confluent_names import translate_names
from ingest.settings.vendors.confluent_options import CONFLUENT_OPTIONS
from ingest.settings.vendors.confluent_storage import translate_storage
from ingest.settings.vendors.connect_options import translate_connect
from ingest.settings.vendors.translation import Translation
from ingest.settings.vendors.vendor import Vendor
from layouts.names import LayoutName


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
