"""Zips and tars for tests, and the options under which their members are read."""

import bz2
import gzip
import io
import lzma
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final

import cramjam

from headrace.formats import DecodeOptions
from headrace.options.choices import InputFormat, Packing
from headrace.options.row_settings import PackingSettings
from tests.headrace.formats.decode_options import decode_options

Members = Sequence[tuple[str, bytes]]

COMPRESSIONS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": lambda content: content,
    "gz": lambda content: gzip.compress(content, mtime=0),
    "bz2": bz2.compress,
    "xz": lambda content: lzma.compress(content, preset=0),
    "zst": lambda content: bytes(cramjam.zstd.compress(content)),
}


def zipped(members: Members, method: int = zipfile.ZIP_DEFLATED, *, level: int = 1) -> bytes:
    """A zip of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same name twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method, level)
    return out.getvalue()


def tarred(members: Members, form: int = tarfile.PAX_FORMAT, *, encoding: str = "utf-8") -> bytes:
    """A tar of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding=encoding) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def tar_of(*infos: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of entries without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info in infos:
            archive.addfile(info)
    return out.getvalue()


def packed(
    input_format: InputFormat = InputFormat.JSONL, kind: Packing = Packing.AUTO, **changes: Any
) -> DecodeOptions:
    """Options for archives; what `PackingSettings` does not have is of the format."""
    bounds: dict[str, Any] = {"members": (), "max_members": 100, "max_bytes": 1 << 30, "max_ratio": 250}
    own = {name: changes.pop(name) for name in tuple(changes) if name in bounds}
    return decode_options(input_format, packing=PackingSettings(kind=kind, **bounds | own), **changes)
