"""Keys of Aiven's sink: its default and prefix regimes by pattern, its templates by the template."""

import re
from typing import Final

from headrace.names import KeyTemplate
from headrace.names.archive_names import (
    KEY_VARIABLE,
    ArchiveName,
    Inexact,
    LayoutName,
    NamePart,
    archive_template,
    read_offset,
    read_partition,
    without_prefix,
)
from headrace.options.restoring import NameOptions

# What `format.output.fields` may name.
FIELDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers"})
# A partition is written plain. An offset is written plain, or with 20 digits behind a prefix.
_FILE: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>0|[1-9][0-9]*)-(?P<offset>[0-9]{20}|0|[1-9][0-9]{0,18})"
    r"(?P<extension>(?:\.avro)?(?:\.(?:gz|snappy|zst))?)"
)
# As many directories as a record key may make; each number of them is a template of its own.
_MAX_SLASHES: Final = 64

_MIXED: Final = Inexact(
    NamePart.OFFSET,
    "the name has a time, so its start offset is that of the sink's batch, not of the object's first record",
)
_TIME_ORDER: Final = Inexact(
    NamePart.ORDER,
    "records of one batch are spread over objects by their time, so their order between objects is lost",
)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What a key without a template of its own says, or None for a key that this sink does not write.

    Greedy: hyphens and digits belong to the topic, the last two numbers are partition and offset.
    """
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    file = rest.rpartition("/")[2]
    found = _FILE.fullmatch(file)
    if found is None:
        return None
    partition, offset = read_partition(found["partition"]), read_offset(found["offset"])
    if partition is None or offset is None:
        return None
    return ArchiveName(
        key=key,
        layout=LayoutName.AIVEN,
        rule="default" if file == key else "prefix",
        topic=found["topic"],
        partition=partition,
        start_offset=offset,
        stem=key,
        extension=found["extension"],
    )


class TemplateNames:
    """Reads keys that were made by `file.name.template`; TemplateError for one that does not parse.

    `{{key}}` is taken over and not used: what it shows is text in which null and `null` are one.
    """

    def __init__(self, template: str) -> None:
        self._source = template
        self._keys = len(KEY_VARIABLE.findall(template))
        self._slashes = template.count("/")
        self._templates: dict[int, KeyTemplate] = {}
        self._template(0)

    def _template(self, slashes: int) -> KeyTemplate:
        """The template for record keys with so many slashes, which make directories of their own."""
        if slashes not in self._templates:
            self._templates[slashes] = archive_template(self._source, slashes)
        return self._templates[slashes]

    def __call__(self, key: str, options: NameOptions) -> ArchiveName | None:
        """What the key says, or None for a key that the template does not give."""
        rest = without_prefix(key, options.prefix)
        if rest is None:
            return None
        slashes = max(0, rest.count("/") - self._slashes)
        if slashes and (not self._keys or slashes % self._keys or slashes > _MAX_SLASHES):
            return None
        template = self._template(slashes // self._keys if slashes else 0)
        fields = template.match(rest)
        if fields is None:
            return None
        inexact = []
        if "timestamp" in template.names:
            inexact += [_MIXED, _TIME_ORDER]
        if self._keys:
            why = "the name is of a record key: only the newest record of each key is in the archive"
            inexact.append(Inexact(NamePart.ORDER, why))
        return ArchiveName(
            key=key,
            layout=LayoutName.AIVEN,
            rule="template",
            topic=fields.topic,
            partition=fields.partition,
            start_offset=fields.start_offset,
            first_timestamp_ms=fields.timestamp_ms,
            stem=key,
            inexact=tuple(inexact),
        )
