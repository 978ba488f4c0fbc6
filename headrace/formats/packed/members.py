"""The rows of a zip or tar: those of its members, one after another, each read as an object of its own."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from headrace.formats.compression import Codec, plain_stream, sniff, stored_codec
from headrace.formats.compression.magic import HEAD_BYTES, unsupported
from headrace.formats.detected import DECODERS, SPLITTERS, Decoder, detected
from headrace.formats.packed.member_source import ArchiveRules, MemberSource, dropped
from headrace.formats.packed.tar import is_tar, tar_members
from headrace.formats.packed.zips import is_zip, zip_members
from headrace.formats.records.decode_options import DecodeOptions, PackedMember
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import MemberPosition, PlainPosition, Position
from headrace.options.choices import Compression, InputFormat, Packing
from headrace.options.settings import FormatSettings


class _Reader(Protocol):
    def __call__(
        self, source: ByteSource, start: MemberPosition | None, rules: ArchiveRules, /
    ) -> Iterator[tuple[PackedMember, MemberSource]]: ...


_READERS: Final[dict[Packing, _Reader]] = {Packing.ZIP: zip_members, Packing.TAR: tar_members}

# macOS keeps what it knows of `name` in `._name`, which begins so.
_APPLE_NAME: Final = "._"
_APPLE: Final = b"\x00\x05\x16\x07"


def decoder_of(settings: FormatSettings) -> Decoder:
    """What decodes objects under these settings."""
    return DECODERS[settings.input_format] if settings.packing is None else decode


def cuts(source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Where the object can be cut; None where it cannot be, as an archive."""
    splitter = SPLITTERS.get(options.format.input_format)
    if splitter is None or packing_of(source, options.format) is not None:
        return None
    return splitter(source, pieces, options=options)


def packing_of(source: ByteSource, settings: FormatSettings) -> Packing | None:
    """What the object is that is to be read by its members; None for any other. One or two small reads."""
    if settings.packing is None:
        return None
    kind, head = settings.packing.kind, source.read_at(0, HEAD_BYTES)
    if kind is not Packing.TAR and is_zip(head):
        return Packing.ZIP
    if kind is Packing.ZIP:
        return None
    if stored_codec(source) is not None:
        head = _plain_head(source)
    return Packing.TAR if is_tar(head[:HEAD_BYTES], source.name) else None


def _plain_head(source: ByteSource) -> bytes:
    try:
        return next(islice(plain_stream(source, opaque=True), 1), b"")
    except ObjectCorrupt:
        return b""  # its reader finds the same


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the archive's members from `start` on; of any other object its own. Blocks on reads.

    Raises ObjectCorrupt after the last row before the damage, InvalidObject for what is not read.
    """
    settings = options.format
    kind = packing_of(source, settings)
    if kind is None:
        yield from DECODERS[settings.input_format](source, start, options=options, begin=begin, end=end)
        return
    assert settings.packing is not None
    if not isinstance(start, MemberPosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a {kind} archive.")
    rules = ArchiveRules(source.name, source.size, settings.packing)
    for member, content in _READERS[kind](source, start, rules):
        if not content.size or _is_apple(member.name, content):
            continue
        within = start.within if start is not None and start.entry == member.entry else None
        for batch in _rows(member, content, within, options, rules):
            yield _placed(batch, member)


def _is_apple(name: str, content: MemberSource) -> bool:
    return name.rpartition("/")[2].startswith(_APPLE_NAME) and content.read_at(0, len(_APPLE)) == _APPLE


def _placed(batch: RowBatch, member: PackedMember) -> RowBatch:
    """The batch with positions in the archive."""
    bad = tuple(
        replace(row, position=member.at(row.position), after=member.at(row.after)) for row in batch.bad
    )
    return replace(
        batch,
        after=member.at(batch.after),
        positions=lambda index, /: member.at(batch.positions(index)),
        bad=bad,
    )


def _rows(
    member: PackedMember,
    content: MemberSource,
    within: PlainPosition | None,
    options: DecodeOptions,
    rules: ArchiveRules,
) -> Iterator[RowBatch]:
    settings = options.format
    try:
        plain = _plain(member, content, options, rules)
        if settings.input_format is InputFormat.BYTES:
            # What it is compressed with is gone.
            settings = replace(settings, compression=Compression.NONE)
        _check_parquet(member, plain, settings.input_format, rules)
        decoder = DECODERS[settings.input_format]
        yield from decoder(plain, within, options=replace(options, format=settings, member=member))
    except InvalidObject as error:
        if error.reason in {"member_refused", "archive_too_large"}:
            raise
        raise InvalidObject(
            f"{error} To leave the member out, have input.archive.members name the others.",
            reason=error.reason,
        ) from error


# -- A member that is compressed by itself -------------------------------------------------------------------


def _plain(
    member: PackedMember, content: MemberSource, options: DecodeOptions, rules: ArchiveRules
) -> MemberSource:
    """The member without its compression, held against what it may hold; InvalidObject for an archive."""
    settings = options.format
    is_bytes = settings.input_format is InputFormat.BYTES
    if is_bytes and settings.compression is Compression.NONE:
        return content
    codec = stored_codec(content)
    if not is_bytes:
        _check_nesting(member, content.read_at(0, HEAD_BYTES), codec, rules)
    if codec is None or settings.input_format is InputFormat.PARQUET:
        return content

    def opened(begin: int) -> Iterator[bytes]:
        return dropped(_limited(plain_stream(content, opaque=True), content, member, rules), begin)

    # How long it is is known only when it has been read.
    expanded = MemberSource(content, content.name, sys.maxsize, hold=0, first=opened(0), again=opened)
    if not is_bytes:
        head = expanded.read_at(0, HEAD_BYTES)
        _check_nesting(member, head, sniff(head), rules, outer=codec)
    return expanded


def _check_nesting(
    member: PackedMember, head: bytes, codec: Codec | None, rules: ArchiveRules, outer: Codec | None = None
) -> None:
    """InvalidObject for an archive, or what is not supported, or is compressed twice."""
    words = unsupported(head, member.name if outer is None else "")
    if outer is not None and codec is not None:
        words = str(codec)
    if words is None and is_tar(head, member.name if outer is None else ""):
        words = "a tar archive"
    if words is not None:
        where = "" if outer is None else f" within {outer}"
        raise rules.refused(
            member.name, f"is {words}{where}, which is not read within an archive", "Unpack it before"
        )


def _limited(
    chunks: Iterator[bytes], content: MemberSource, member: PackedMember, rules: ArchiveRules
) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        rules.check_size(size, content.size, name=member.name)
        yield chunk


def _check_parquet(
    member: PackedMember, content: MemberSource, input_format: InputFormat, rules: ArchiveRules
) -> None:
    """InvalidObject for Parquet that is compressed within the archive and too large to be held."""
    if content.is_seekable or input_format not in {InputFormat.PARQUET, InputFormat.AUTO}:
        return
    if input_format is InputFormat.PARQUET or detected(content) is InputFormat.PARQUET:
        raise rules.refused(
            member.name,
            "is Parquet in a compressed archive, which is read from front to back",
            "Store it in a zip without compression (zip -0), or in a tar that is not compressed",
        )
