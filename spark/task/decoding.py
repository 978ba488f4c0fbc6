"""What a format needs to know of the settings and the object, and where the object's rows go."""

from collections.abc import Iterator

from ingest.settings.choices import InputFormat
from ingest.settings.model import FormatSettings
from ingest.work import Work
from spark.compression import stored_codec
from spark.formats import CUTTERS, DECODERS, DecodeOptions
from spark.producer import Target
from spark.reader import S3Source
from spark.records.constant import (
    PRODUCE_TIME,
    constant_headers,
    constant_key,
    constant_timestamp,
    overhead_bytes,
)
from spark.rows import RowBatch
from spark.source import Source
from spark.task.limits import TopicLimits


class Decoding:
    """The settings of one format, applied to the works of a batch."""

    def __init__(self, settings: FormatSettings, limits: TopicLimits) -> None:
        self._settings = settings
        self._limits = limits

    @property
    def streams(self) -> bool:
        """True when objects are read from front to back, not by ranges."""
        return self._settings.input_format is not InputFormat.PARQUET

    def target(self, work: Work) -> Target:
        """Where the work's rows go, and what is the same for all of them."""
        timestamp = constant_timestamp(work.object, work.route, self._settings)
        return Target(
            topic=work.route.topic,
            partition=work.route.partition,
            key=constant_key(work.object, work.route, self._settings),
            headers=constant_headers(work.object, work.route, self._settings),
            timestamp_ms=None if timestamp == PRODUCE_TIME else timestamp,
        )

    def decode(self, source: S3Source, work: Work) -> Iterator[RowBatch]:
        """The rows of the work, from where it starts."""
        decoder = DECODERS[self._settings.input_format]
        return decoder(source, work.start, options=self._options(work), begin=work.begin, end=work.end)

    def cuts(self, source: S3Source, work: Work) -> tuple[int, ...]:
        """Where the object can be cut in the pieces wanted; empty when it cannot be."""
        cutter = CUTTERS.get(self._settings.input_format)
        if cutter is None:
            return ()
        return cutter(source, work.pieces_wanted, options=self._options(work)) or ()

    def can_resume(self, source: Source) -> bool:
        """True when reading can go on in the middle of the object without reading what is before."""
        return self._settings.input_format is InputFormat.PARQUET or stored_codec(source) is None

    def _options(self, work: Work) -> DecodeOptions:
        target = self.target(work)
        return DecodeOptions(
            format=self._settings,
            topic=work.route.topic,
            overhead_bytes=overhead_bytes(target.key, target.headers),
            topic_max_bytes=self._limits.of(work.route.topic),
        )
