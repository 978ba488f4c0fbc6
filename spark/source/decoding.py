"""What a format needs to know of the settings and the object, and where the object's rows go."""

from collections.abc import Callable, Iterator

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.joined import JoinedDecoder, MergedTombstones, ReadObject
from headrace.conversion.source_records import SourceRecords
from headrace.formats import DecodeOptions
from headrace.formats.compression import stored_codec
from headrace.formats.packed.members import cuts, decoder_of
from headrace.formats.records.decode_options import GlueVersions
from headrace.formats.records.key_headers_timestamp import (
    PRODUCE_TIME,
    constant_headers,
    constant_key,
    constant_members,
    constant_timestamp,
    overhead_bytes,
)
from headrace.formats.records.record_builder import RecordBuilder
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.columns import Column, RecordTarget, RowBatch
from headrace.model.errors import InvalidObject
from headrace.model.objects import ByteSource, SideObject
from headrace.model.positions import JoinedPosition
from headrace.model.slot_protocol import Split
from headrace.names.archive_names import NameElement, is_topic_name
from headrace.options.choices import InputFormat, RestorePartition
from headrace.options.schema_settings import GlueWriting
from headrace.options.settings import FormatSettings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from headrace.options.transforms.read_chain import known_topics
from headrace.s3.reader import S3Source


class Decoding:
    """The settings of one format, applied to the works of a batch; `fit` as in DecodeOptions."""

    def __init__(
        self,
        settings: FormatSettings,
        limits: TopicLimits,
        transforms: TransformChain = NO_TRANSFORMS,
        *,
        fit: Callable[[Column], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._fit = fit
        self._chain = transforms
        self._transforms = SourceRecords(transforms, settings) if transforms else None
        self._limits = limits
        self._glue = None if settings.glue is None else _glue(settings.glue)
        self._archive = None if settings.restore is None else ArchiveDecoder(settings.restore)

    @property
    def streams(self) -> bool:
        """True when objects are read from front to back, not by ranges; archives may be either."""
        if self._archive is not None or self._settings.packing is not None:
            return False
        return self._settings.input_format is not InputFormat.PARQUET

    def target(self, split: Split) -> RecordTarget:
        """Where the work's rows go, and what is the same for all of them."""
        timestamp = constant_timestamp(split.object, split.route, self._settings)
        return RecordTarget(
            topic=split.route.topic,
            partition=self._partition(split),
            key=self._constant_key(split),
            headers=constant_headers(split.object, split.route, self._settings),
            timestamp_ms=None if timestamp == PRODUCE_TIME else timestamp,
        )

    def partitions_wanted(self, partition: int | None) -> int:
        """How many partitions a topic has to have for rows of this one; 0 where any number does."""
        restore = self._settings.restore
        is_modulo = restore is not None and restore.partition is RestorePartition.MODULO
        return 0 if partition is None or is_modulo else partition + 1

    def partition_among(self, partition: int | None, count: int) -> int | None:
        """The partition, in a topic of `count`, that rows of this one go to."""
        restore = self._settings.restore
        is_modulo = restore is not None and restore.partition is RestorePartition.MODULO
        return partition % count if is_modulo and partition is not None and count else partition

    def _partition(self, split: Split) -> int | None:
        restore = self._settings.restore
        if restore is None or self._archive is None:
            return split.route.partition
        if restore.partition is RestorePartition.PARTITIONER:
            return None
        name = self._archive.name(split.object.id.key)
        if name is not None and not name.is_exact(NameElement.PARTITION):
            why = next(doubt.why for doubt in name.inexact if doubt.element is NameElement.PARTITION)
            raise InvalidObject(
                f"{split.object.id.url}: its partition is not certain: {why}. Set restore.partition to "
                "partitioner, and replay it.",
                reason="unknown_partition",
            )
        return split.route.partition

    def decode(self, source: S3Source, split: Split) -> Iterator[RowBatch]:
        """The rows of the work, from where it starts, as they are to be produced."""
        if split.object.size == 0 and not (split.route.may_be_empty or _is_joined(split)):
            # What comes back with its neighbours, by a replay, though its format has no object of no bytes.
            return iter(())
        rows = self._rows(source, split)
        return rows if self._transforms is None else self._transformed(self._transforms, rows, split)

    def _transformed(
        self, transforms: SourceRecords, batches: Iterator[RowBatch], split: Split
    ) -> Iterator[RowBatch]:
        target = self.target(split)
        for batch in batches:
            for rows in transforms.apply(batch, target):
                if not len(rows):
                    yield rows
                    continue
                topic = rows.topic or target.topic
                options = DecodeOptions(
                    format=self._settings, topic=topic, topic_max_bytes=self._limits.of(topic)
                )
                yield RecordBuilder(options, None).within_limit(rows)

    def _rows(self, source: S3Source, split: Split) -> Iterator[RowBatch]:
        if _is_joined(split):
            return self._joined(source, split)
        if self._archive is not None:
            return self._archive.decode(
                source,
                split.start,
                key=split.object.id.key,
                options=self._options(split),
                begin=split.begin,
                end=split.end,
            )
        decoder = decoder_of(self._settings)
        return decoder(source, split.start, options=self._options(split), begin=split.begin, end=split.end)

    def _joined(self, source: S3Source, split: Split) -> Iterator[RowBatch]:
        """The rows of the work with what is in the objects next to it."""
        assert self._archive is not None

        def part(beside: SideObject) -> ReadObject:
            return ReadObject(beside.key, source.beside[beside.key])

        tombstones = [
            MergedTombstones(
                part(each.keys), None if each.headers is None else part(each.headers), each.places
            )
            for each in split.tombstones
        ]
        return JoinedDecoder(self._archive, self._options(split)).decode(
            ReadObject(split.object.id.key, source),
            [part(side) for side in split.sides],
            tombstones,
            split.start,
            first_row=split.first_row,
        )

    def cuts(self, source: S3Source, split: Split) -> tuple[int, ...]:
        """Where the object can be cut in the pieces wanted; empty when it cannot be."""
        if self._archive is not None:
            # Objects of an archive are small, and what they are is found out when they are read.
            return ()
        return cuts(source, split.splits_wanted, options=self._options(split)) or ()

    def can_resume(self, source: ByteSource) -> bool:
        """True when reading can continue in the middle of the object without reading what is before."""
        # With `auto` Parquet is not compressed as a whole either.
        return self._settings.input_format is InputFormat.PARQUET or stored_codec(source) is None

    def _constant_key(self, split: Split) -> bytes | None:
        return constant_key(split.object, split.route, self._settings, topic=self._subject_topic(split))

    def _subject_topic(self, split: Split) -> str:
        """The topic that names subjects: as in Connect that after the chain, if no record decides it."""
        topic = split.route.topic
        found = known_topics(self._chain, topic) if self._archive is None else ()
        (after,) = found if len(found) == 1 else (topic,)
        return after if is_topic_name(after) else topic

    def _options(self, split: Split) -> DecodeOptions:
        key = self._constant_key(split)
        headers = constant_headers(split.object, split.route, self._settings)
        return DecodeOptions(
            format=self._settings,
            topic=self._subject_topic(split),
            overhead_bytes=overhead_bytes(key, headers),
            # Transforms make other records of rows, and topics: the limit is looked at after them.
            topic_max_bytes=None if self._transforms is not None else self._limits.of(split.route.topic),
            members=constant_members(split.route, self._settings),
            glue=self._glue,
            fit=self._fit,
        )


def _is_joined(split: Split) -> bool:
    """Whether it is read with other objects."""
    is_with_others = split.sides or split.tombstones or split.first_row
    return bool(is_with_others) or isinstance(split.start, JoinedPosition)


def _glue(settings: GlueWriting) -> GlueVersions:
    # With a client of AWS's, which few need.
    from headrace.aws.glue import glue_registry

    return glue_registry(settings)
