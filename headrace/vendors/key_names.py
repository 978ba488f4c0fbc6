"""`ArchiveNames`: the keys of one archive, read as the restore was told: by layout, template or form."""

from dataclasses import replace

from headrace.names.archive_names import ArchiveName, LayoutName, is_index
from headrace.options.restoring import NameOptions
from headrace.vendors.aiven.names import TemplateNames
from headrace.vendors.detect import Detection, detect, pattern_of, read_as


class ArchiveNames:
    """Reads keys; TemplateError for a template that does not parse.

    `layout` None finds out for each key; `template` is the archive's own, where it has one.
    """

    def __init__(self, layout: LayoutName | None, options: NameOptions, template: str | None = None) -> None:
        self._layout = layout
        self._options = options
        self._template = None if template is None else TemplateNames(template)

    @property
    def needs_content(self) -> bool:
        """True when the beginning of an object may say more than its key."""
        return self._layout is None

    def read(self, key: str, head: bytes | None = None) -> Detection:
        """What the key says, or why nothing; `head` is the object's plain beginning, None if unread."""
        if self._layout is None:
            return detect(key, self._options, head)
        pattern = pattern_of(key)
        if is_index(key, self._options.indexes):
            reason = "the key is below layout.indexes: no data"
            return Detection(name=None, reason=reason, pattern=pattern, is_index=True)
        name = self._told(self._layout, key)
        if name is None:
            how = "file.name.template" if self._template else f"input.layout={self._layout.value}"
            return Detection(name=None, reason=f"the key is not one of {how}", pattern=pattern)
        return Detection(
            name=name, reason=f"the key is of {name.layout.value} ({name.rule})", pattern=pattern
        )

    def _told(self, layout: LayoutName, key: str) -> ArchiveName | None:
        if self._template is None:
            return read_as(layout, key, self._options)
        name = self._template(key, self._options)
        if name is None or layout is LayoutName.AIVEN:
            return name
        file = key.rpartition("/")[2]
        extension = "".join(file.partition(".")[1:])
        if layout is LayoutName.LENSES:
            # The offset in its names is the last one.
            return replace(
                name,
                layout=layout,
                extension=extension,
                start_offset=None,
                last_offset=name.start_offset,
            )
        return replace(name, layout=layout, extension=extension)


def name_in(found: Detection) -> ArchiveName | None:
    """The name, or what all candidates agree on: which of them it is decides the content, when it is read."""
    if found.name is not None or not found.needs_content:
        return found.name
    places = {(name.topic, name.partition, name.offset, name.kind) for name in found.candidates}
    return found.candidates[0] if len(places) == 1 else None
