"""One object of an archive through settings, name, format and layout, as a task puts them together."""

from collections.abc import Iterator, Mapping

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.model.positions import Position
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with


def batches_of(
    config: Mapping[str, str | None], key: str, content: bytes, start: Position | None = None
) -> Iterator[RowBatch]:
    """Batch by batch, in small chunks of the object."""
    settings = load_with({"topic": None, "file.name.template": None, **config}).format
    assert settings.restore is not None
    options = DecodeOptions(format=settings, topic="t")
    source = MemorySource(content, chunk=3, name=f"s3://archive/{key}")
    decoder = ArchiveDecoder(settings.restore)
    return decoder.decode(source, start, key=key, options=options, begin=None, end=None)


def decoded(
    config: Mapping[str, str | None], key: str, content: bytes, start: Position | None = None
) -> list[RowBatch]:
    """All batches."""
    return list(batches_of(config, key, content, start))


def values_of(batches: list[RowBatch]) -> list[bytes | None]:
    """The records' values."""
    return [batch.values.get(row) for batch in batches for row in range(len(batch))]
