"""The first bytes of some objects, with small ranged GETs: what they hold, and how it is compressed."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from headrace.formats.compression import sniff
from headrace.formats.compression.codecs import decompressed
from headrace.formats.content_hints import recognise
from headrace.model.errors import HeadraceError, ObjectError
from headrace.model.objects import S3Object
from headrace.options.settings import S3Settings
from ingest.checks.findings.content import Sample
from listeners.failures import translated_errors

# Enough for some lines of text, compressed or not.
_HEAD_BYTES: Final = 65_536


def read_samples(client: Any, settings: S3Settings, objects: Iterable[S3Object]) -> Iterator[Sample]:
    """One sample an object; none for what cannot be read, which is another finding. Blocks on a GET each."""
    for wanted in objects:
        asked: dict[str, Any] = {
            "Bucket": wanted.id.bucket,
            "Key": wanted.id.key,
            "Range": f"bytes=0-{_HEAD_BYTES - 1}",
        }
        if settings.requester_pays:
            asked["RequestPayer"] = "requester"
        try:
            with translated_errors(wanted.id.url):
                head = client.get_object(**asked)["Body"].read()
        except HeadraceError:
            continue
        yield _sample(wanted.id.url, head)


def _sample(url: str, head: bytes) -> Sample:
    codec = sniff(head)
    plain = head if codec is None else b"".join(_begun(decompressed(codec, iter([head]), name=url)))
    # The end of what was read is no end of a line.
    return Sample(url=url, content=recognise(plain), codec=None if codec is None else str(codec))


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What comes before the cut, which to the decompressor is damage."""
    size = 0
    try:
        for chunk in chunks:
            yield chunk
            size += len(chunk)
            if size >= _HEAD_BYTES:
                return
    except ObjectError:
        return
