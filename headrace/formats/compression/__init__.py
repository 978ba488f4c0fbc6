"""The plain bytes of an object, whatever it is compressed with.

magic        which compression the first bytes belong to, and what is recognised and cannot be read
codecs       one function a compression: compressed chunks in, plain chunks of a bounded size out
frames       where blocks and frames end, and frames of xz; peekable_stream reads for them
plain        the plain stream of a source from any byte on
"""

from headrace.formats.compression.codecs import decompressed, xz_unsupported
from headrace.formats.compression.frames import refuse_zstd
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
