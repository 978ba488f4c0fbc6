"""The plain bytes of an object, whatever it is compressed with.

magic        which compression the first bytes belong to, what is recognised and cannot be read, and a
             stream that gives those bytes first
codecs       one function a compression: compressed chunks in, plain chunks of a bounded size out
block_ends   where blocks and frames end, and frames of xz
plain        the plain stream of a source from any byte on
"""

from headrace.formats.compression.block_ends import refuse_zstd
from headrace.formats.compression.codecs import decompressed, xz_unsupported
from headrace.formats.compression.magic import Codec, UnsupportedError, sniff
from headrace.formats.compression.plain import plain_stream, refuse_unsupported, regrouped, stored_codec

__all__ = [
    "Codec",
    "UnsupportedError",
    "decompressed",
    "plain_stream",
    "refuse_unsupported",
    "refuse_zstd",
    "regrouped",
    "sniff",
    "stored_codec",
    "xz_unsupported",
]
