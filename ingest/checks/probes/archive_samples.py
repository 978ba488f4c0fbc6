"""Objects of an archive that are looked into with a few small GETs, and the tags of some."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.errors import AccessDenied, HeadraceError, ObjectError
from headrace.model.objects import S3Object
from headrace.names.archive_names import Directories, Inexact, LayoutName, ObjectKind
from headrace.options import Settings
from headrace.options.choices import RestoreSidecars
from headrace.options.settings import S3Settings
from headrace.vendors.exactness import ContentFacts, exactness, exactness_of_options, where_some_lack, worst
from headrace.vendors.key_names import ArchiveNames, name_in
from ingest.checks.findings.archive_findings import ArchiveSample
from ingest.checks.probes.bucket_keys import object_request
from listeners.discovery_events import translated_errors

# Where a sample of keys ends, the last object may have its keys and headers in the rest.
_LACKING: Final = 2
_TAGS: Final = ("startOffset", "endOffset", "recordCount")


class RangedObject:
    """An object that is read by single ranged GETs, each of which blocks. AccessDenied, SourceUnavailable."""

    def __init__(self, client: Any, settings: S3Settings, wanted: S3Object) -> None:
        self._client = client
        self._asked = object_request(settings, wanted)
        self.size = wanted.size
        self.name = wanted.id.url
        self.fetched_bytes = 0
        self._read: tuple[int, bytes] = (0, b"")
        self._beginning = bytearray()

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes in chunks of 64 KiB, a GET each."""
        stop = self.size if end is None else end
        for at in range(begin, stop, _CHUNK_BYTES):
            yield self.read_at(at, min(_CHUNK_BYTES, stop - at))

    def read_at(self, offset: int, length: int) -> bytes:
        """One range; what was read last, and the beginning as far as it is kept, is not asked for again."""
        stop = min(offset + length, self.size)
        begin, held = self._read
        if offset >= stop:
            return b""
        if stop <= len(self._beginning):
            return bytes(memoryview(self._beginning)[offset:stop])
        if not begin <= offset <= stop <= begin + len(held):
            # Magic bytes are asked for first, and then what is behind them.
            wanted = min(self.size, max(stop, offset + _CHUNK_BYTES))
            with translated_errors(self.name):
                held = self._client.get_object(**self._asked, Range=f"bytes={offset}-{wanted - 1}")[
                    "Body"
                ].read()
            begin, self._read = offset, (offset, held)
            self.fetched_bytes += len(held)
            known = len(self._beginning)
            if begin <= known < min(begin + len(held), _KEPT_BYTES):
                self._beginning += held[known - begin :]
        return held[offset - begin : stop - begin]


_CHUNK_BYTES: Final = 64 * 1024
# As much as is looked at for a good row, which three questions of a sample are about.
_KEPT_BYTES: Final = 64 * 1024 * 1024


class ArchiveSampler:
    """Looks into single objects of the archive that the settings name."""

    def __init__(self, client: Any, settings: Settings) -> None:
        assert settings.format.restore is not None, "no archive is restored"
        self._client = client
        self._s3 = settings.s3
        self._decoder = ArchiveDecoder(settings.format.restore)
        self._options = DecodeOptions(format=settings.format)
        self._ordering = settings.routing.ordering
        self._changes = exactness_of_options(settings)
        self._has_sides = settings.joining.sidecars is not RestoreSidecars.IGNORE
        self._tombstones = settings.joining.tombstones

    def sample(
        self,
        wanted: S3Object,
        sides: frozenset[ObjectKind] = frozenset(),
        doubts: tuple[Inexact, ...] = (),
    ) -> ArchiveSample:
        """What the object says of its rows, with these side objects, and with what other names made doubtful.

        Blocks on a GET or two, and on more where no good row is in the first bytes: up to 64 MiB are read.
        """
        source = RangedObject(self._client, self._s3, wanted)
        shown = None
        try:
            shown = self._decoder.layout(source, wanted.id.key, self._options)
            name, facts = self._decoder.facts(source, key=wanted.id.key, options=self._options)
        except HeadraceError as error:
            return ArchiveSample(
                url=source.name, layout=None, exactness=None, shown=shown, problem=str(error)
            )
        if name.layout is LayoutName.CONFLUENT and facts.members is not None:
            # Our own rows under names of this form are read as what they are.
            shown = name.layout
        none = frozenset[ObjectKind]()
        facts = ContentFacts(
            row_format=facts.row_format,
            members=facts.members,
            sides=sides if self._has_sides else none,
            ignored=none if self._has_sides else sides,
            tombstones=self._tombstones,
        )
        name = replace(name, inexact=(*name.inexact, *doubts))
        parts = worst((exactness(name, facts, ordering=self._ordering.value), self._changes))
        return ArchiveSample(url=source.name, layout=name.layout, exactness=parts, shown=shown)

    def tags(self, key: str) -> tuple[int, int, int] | None:
        """First offset, last offset and records of the object as its tags say.

        None without such tags, or without the right to read them. Blocks on a call. SourceUnavailable.
        """
        try:
            with translated_errors(f"the tags of s3://{self._s3.bucket}/{key}"):
                answer = self._client.get_object_tagging(Bucket=self._s3.bucket, Key=key)
        except (AccessDenied, ObjectError):
            return None
        tags: Mapping[str, str] = {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}
        numbers = [int(text) for each in _TAGS if (text := tags.get(each, "")).isascii() and text.isdecimal()]
        return (numbers[0], numbers[1], numbers[2]) if len(numbers) == len(_TAGS) else None


def read_archive_samples(
    client: Any, settings: Settings, objects: Iterable[S3Object], keys: Iterable[str], taken: Iterable[str]
) -> Iterator[ArchiveSample]:
    """One sample for each of the objects that holds values; `keys` tell which side objects there are.

    `taken` are those that a run would take: they tell in which directories the objects of a partition are.
    Blocks on a GET or two each, as `ArchiveSampler.sample` does.
    """
    restore = settings.format.restore
    assert restore is not None, "no archive is restored"
    names = ArchiveNames(restore.layout, restore.names, restore.template)
    kinds: dict[tuple[LayoutName, str | None], Counter[ObjectKind]] = defaultdict(Counter)
    for key in keys:
        if (name := name_in(names.read(key))) and not name.tombstones:
            kinds[name.layout, name.topic][name.kind] += 1
    directories = Directories()
    doubts = {
        (name.layout, name.topic): found
        for key in taken
        if (name := name_in(names.read(key))) and (found := directories.doubts(name))
    }
    sampler = ArchiveSampler(client, settings)
    for wanted in objects:
        name = name_in(names.read(wanted.id.key))
        if name is None:
            yield sampler.sample(wanted)
        elif name.kind is ObjectKind.VALUES and not name.tombstones:
            place = (name.layout, name.topic)
            sides = frozenset(kinds[place]) - {ObjectKind.VALUES}
            sample = sampler.sample(wanted, sides, doubts.get(place, ()))
            if sample.exactness is None or settings.joining.sidecars is RestoreSidecars.IGNORE:
                yield sample
            else:
                told = where_some_lack(sample.exactness, kinds[place], least=_LACKING)
                yield replace(sample, exactness=told)
