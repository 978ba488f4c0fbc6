"""What a format needs to know of the settings and the object, and where the object's rows go."""

from collections.abc import Iterator

from ingest.model.slot_protocol import Split
from ingest.settings.choices import InputFormat
from ingest.settings.settings import FormatSettings
from spark.byte_source import ByteSource
from spark.compression import stored_codec
from spark.formats import DECODERS, SPLITTERS, DecodeOptions
from spark.producer import RecordTarget
from spark.reader import S3Source
from spark.records.constant import (
    PRODUCE_TIME,
    constant_headers,
    constant_key,
    constant_timestamp,
    overhead_bytes,
)
from spark.rows import RowBatch
from spark.source.topic_limits import TopicLimits


class Decoding:
    """The settings of one format, applied to the works of a batch."""

    def __init__(self, settings: FormatSettings, limits: TopicLimits) -> None:
        self._settings = settings
        self._limits = limits

    @property
    def streams(self) -> bool:
        """True when objects are read from front to back, not by ranges."""
        return self._settings.input_format is not InputFormat.PARQUET

    def target(self, split: Split) -> RecordTarget:
        """Where the work's rows go, and what is the same for all of them."""
        timestamp = constant_timestamp(split.object, split.route, self._settings)
        return RecordTarget(
            topic=split.route.topic,
            partition=split.route.partition,
            key=constant_key(split.object, split.route, self._settings),
            headers=constant_headers(split.object, split.route, self._settings),
            timestamp_ms=None if timestamp == PRODUCE_TIME else timestamp,
        )

    def decode(self, source: S3Source, split: Split) -> Iterator[RowBatch]:
        """The rows of the work, from where it starts."""
        decoder = DECODERS[self._settings.input_format]
        return decoder(source, split.start, options=self._options(split), begin=split.begin, end=split.end)

    def cuts(self, source: S3Source, split: Split) -> tuple[int, ...]:
        """Where the object can be cut in the pieces wanted; empty when it cannot be."""
        cutter = SPLITTERS.get(self._settings.input_format)
        if cutter is None:
            return ()
        return cutter(source, split.splits_wanted, options=self._options(split)) or ()

    def can_resume(self, source: ByteSource) -> bool:
        """True when reading can go on in the middle of the object without reading what is before."""
        return self._settings.input_format is InputFormat.PARQUET or stored_codec(source) is None

    def _options(self, split: Split) -> DecodeOptions:
        target = self.target(split)
        return DecodeOptions(
            format=self._settings,
            topic=split.route.topic,
            overhead_bytes=overhead_bytes(target.key, target.headers),
            topic_max_bytes=self._limits.of(split.route.topic),
        )
