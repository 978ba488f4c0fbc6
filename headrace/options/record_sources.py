"""Where a record's key, value, headers and timestamp come from: small types that travel to executors."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldSource:
    """The field at a path of names, outermost first: `field:a.b` is `("a", "b")`."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "field:" + ".".join(self.path)


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A text with the variables of `file.name.template`: `template:{{topic}}-{{start_offset}}`."""

    text: str

    def __str__(self) -> str:
        return f"template:{self.text}"


@dataclass(frozen=True, slots=True)
class ObjectKeySource:
    """The object's key, UTF-8."""


@dataclass(frozen=True, slots=True)
class NoSource:
    """Nothing: a null key, no headers."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """The row itself."""


@dataclass(frozen=True, slots=True)
class ObjectHeaders:
    """Headers `headrace.*`: bucket, key, etag, version id, position, start offset."""


@dataclass(frozen=True, slots=True)
class FieldHeaders:
    """Each entry of the object (record, map) at a path is one header."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "fields:" + ".".join(self.path)


# Names, each with a text of the variables of `file.name.template`.
NamedTexts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TemplateHeaders:
    """Headers that are the same for all rows of an object: `template:{{topic}}:origin`."""

    texts: NamedTexts

    def __str__(self) -> str:
        return "template:" + ",".join(f"{text}:{name}" for name, text in self.texts)


@dataclass(frozen=True, slots=True)
class ProduceTime:
    """The producer's clock."""


@dataclass(frozen=True, slots=True)
class ObjectTime:
    """The object's LastModified."""


@dataclass(frozen=True, slots=True)
class TemplateTime:
    """`{{timestamp}}` of the key."""


KeySource = ObjectKeySource | NoSource | FieldSource | TemplateSource
ValueSource = RowSource | FieldSource
HeaderSource = NoSource | ObjectHeaders | FieldHeaders | TemplateHeaders
TimestampSource = ProduceTime | ObjectTime | TemplateTime | FieldSource
