"""Columns of variants as JSON: those stored whole, and those with parts in columns of their own ("shredded").

https://github.com/apache/parquet-format/blob/master/VariantShredding.md
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.parquet_maps import RowFaultError
from headrace.formats.variant import object_text, variant_fields, variant_text
from headrace.options.choices import JsonFormat

NAME: Final = "headrace.variant"

# Names stand once in a file and in each object of its JSON, which may be larger by far than what was decoded:
# rows above this are written fewer at a time, a single one not at all.
_TEXTS_MAX_BYTES: Final = 32 * 1024 * 1024

# The JSON of each value of an array without variants.
Write = Callable[[Any, JsonFormat], Any]
Texts = list[str | None]
Made = TypeVar("Made")


class VariantType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A variant as Parquet stores it: metadata, value, typed_value."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _serialized: bytes) -> "VariantType":
        return cls(storage)


pa.register_extension_type(VariantType(pa.struct([])))


class TextsTooLargeError(ValueError):
    """The JSON of these rows is too large to be held at once."""


def variant_texts(storage: Any, style: JsonFormat, write: Write) -> Any:
    """A string array of the JSON of each variant. RowFaultError, TextsTooLargeError."""
    metadata = _field(storage, "metadata")
    # Without metadata, the names are those of columns.
    dictionaries = [None] * len(storage) if metadata is None else metadata.to_pylist()
    texts = _Shredded(len(storage), style, write).texts(storage, dictionaries)
    return pa.array(["null" if text is None else text for text in texts], pa.string())


class _Shredded:
    """Puts the values of one batch together."""

    def __init__(self, rows: int, style: JsonFormat, write: Write) -> None:
        self._rows = rows
        self._style = style
        self._write = write
        self._left = _TEXTS_MAX_BYTES

    def texts(self, group: Any, metadata: list[bytes | None]) -> Texts:
        """The JSON of each value of a group with `value`, `typed_value` or both; None where there is none."""
        if group.null_count:
            # Where the group is null, a column in it that is required holds anything.
            return self._of_valid(group, metadata, self.texts)
        column = _field(group, "value")
        values: list[bytes | None] = [None] * len(group) if column is None else column.to_pylist()
        typed = _field(group, "typed_value")
        if typed is not None and pa.types.is_struct(typed.type):
            return self._objects(typed, values, metadata)
        texts: Texts = [None] * len(group)
        if typed is not None:
            texts = self._lists(typed, metadata) if pa.types.is_list(typed.type) else self._scalars(typed)
        return [
            text if value is None else self._only(text, names, value)
            for text, value, names in zip(texts, values, metadata, strict=True)
        ]

    def _only(self, text: str | None, metadata: bytes | None, value: bytes) -> str:
        """The JSON of a value next to which no other one may be, but where both are parts of an object."""
        if text is not None:
            raise RowFaultError(
                "a variant of the row has two values: one whole, one in a column", reason="not_parquet"
            )
        return self._whole(metadata, value)

    def _whole(self, metadata: bytes | None, value: bytes) -> str:
        return self._counted(variant_text(metadata or b"", value, self._style))

    def _counted(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0 and self._rows > 1:
            raise TextsTooLargeError
        if self._left < 0:
            raise RowFaultError("a variant of the row is too large as JSON", reason="too_large")
        return text

    def _scalars(self, typed: Any) -> Texts:
        texts: Texts = self._write(typed, self._style).to_pylist()
        if not typed.null_count:
            return texts
        return [
            text if valid else None for text, valid in zip(texts, typed.is_valid().to_pylist(), strict=True)
        ]

    def _lists(self, typed: Any, metadata: list[bytes | None]) -> Texts:
        counts = pc.list_value_length(typed).to_pylist()
        rows = np.repeat(np.arange(len(typed)), [count or 0 for count in counts])
        elements = iter(self.texts(typed.flatten(), [metadata[row] for row in rows.tolist()]))
        return [
            None if count is None else self._list([next(elements) for _ in range(count)]) for count in counts
        ]

    def _list(self, elements: Texts) -> str:
        return self._counted(f"[{','.join(text or 'null' for text in elements)}]")

    def _objects(self, typed: Any, values: list[bytes | None], metadata: list[bytes | None]) -> Texts:
        """Fields that are columns, and the others, which are in the value of the object."""
        shredded = self._of_valid(typed, metadata, self._columns)
        shredded_names = {field.name for field in typed.type}
        texts: Texts = []
        for value, names, columns in zip(values, metadata, shredded, strict=True):
            if columns is None:
                texts.append(None if value is None else self._whole(names, value))
                continue
            fields = {} if value is None else variant_fields(names or b"", value, self._style)
            if not shredded_names.isdisjoint(fields):
                raise RowFaultError(
                    "a variant of the row has a field twice: in its value and in a column",
                    reason="not_parquet",
                )
            texts.append(self._counted(object_text(fields | columns)))
        return texts

    def _columns(self, typed: Any, metadata: list[bytes | None]) -> list[dict[str, str]]:
        """The fields of each row that have columns of their own, without those that it does not have."""
        rows: list[dict[str, str]] = [{} for _ in range(len(typed))]
        for index in range(typed.type.num_fields):
            name = typed.type.field(index).name
            for fields, text in zip(rows, self.texts(typed.field(index), metadata), strict=True):
                if text is not None:
                    fields[name] = text
        return rows

    def _of_valid(
        self,
        group: Any,
        metadata: list[bytes | None],
        make: Callable[[Any, list[bytes | None]], list[Made]],
    ) -> list[Made | None]:
        """What `make` gives for the rows that are not null, and None for the others."""
        valid = group.is_valid()
        rows = valid.to_pylist()
        made = iter(
            make(
                group.filter(valid), [each for each, is_valid in zip(metadata, rows, strict=True) if is_valid]
            )
        )
        return [next(made) if is_valid else None for is_valid in rows]


def _field(group: Any, name: str) -> Any:
    index = group.type.get_field_index(name)
    return group.field(index) if index >= 0 else None
