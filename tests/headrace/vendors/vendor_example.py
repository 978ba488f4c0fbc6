"""A sink of a maker of the tests' own, and a configuration of it."""

import json
from collections.abc import Mapping

from headrace.names.archive_names import LayoutName
from headrace.options import Settings
from headrace.options.vendor import Fate, Vendor, VendorOption
from headrace.options.vendor_translation import Translation
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

GIVEN: Mapping[str, str] = {
    "name": "archive",
    "connector.class": "org.example.Sink",
    "bootstrap.servers": "127.0.0.1:9092",
    "topics": "orders",
    "example.bucket": "bucket",
    "example.secret": "${env:SECRET}",
    "example.key": "AKIA",
    "example.count": "7",
}


def _translate(given: Translation) -> None:
    given.rename("example.bucket", "aws.s3.bucket.name")
    given.rename("example.secret", "aws.secret.access.key")
    given.rename("example.key", "aws.access.key.id")
    given.own("rotate.records", given.integer("example.count", 3, low=1), by="example.count")
    given.own("rotate.age.ms", 0)
    given.own("rotate.bytes", given.choice("example.size", {"none": 0, "large": 2**30}, 0))
    given.own("buffer.max.bytes", 2**26 if given.flag("example.small", default=False) else 2**27)
    if given.worker("offset.flush.interval.ms"):
        given.own("rotate.schedule.ms", given.worker("offset.flush.interval.ms"))


EXAMPLE = Vendor(
    name="the example's sink",
    layout=LayoutName.HEADRACE,
    classes=("org.example.Sink",),
    options=(
        VendorOption(name="example.bucket", fate=Fate.KEPT, note="aws.s3.bucket.name"),
        VendorOption(name="example.secret", fate=Fate.KEPT, note="aws.secret.access.key"),
        VendorOption(name="example.key", fate=Fate.KEPT, note="aws.access.key.id"),
        VendorOption(name="example.count", fate=Fate.KEPT, note="rotate.records"),
        VendorOption(name="example.size", fate=Fate.CHANGED, note="rotate.bytes, in two sizes"),
        VendorOption(name="example.small", fate=Fate.KEPT, note="buffer.max.bytes"),
        VendorOption(name="example.pool.*", fate=Fate.NEEDLESS, note="there is no pool"),
        VendorOption(name="example.lossy", fate=Fate.REFUSED, note="loses records; remove it"),
    ),
    translate=_translate,
)


def load_example(changes: Mapping[str, str | None] | None = None, worker: str | None = None) -> Settings:
    """The settings of the example with some options changed, or left out where None."""
    given = {name: text for name, text in {**GIVEN, **(changes or {})}.items() if text is not None}
    return load(
        json.dumps(given),
        kind="json",
        environment={"SECRET": "hunter2", "NO_TOPIC": ""},
        read_file=no_file,
        worker_config=worker,
        vendors=(EXAMPLE,),
    )
