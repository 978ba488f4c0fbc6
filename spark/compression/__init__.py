"""The plain bytes of an object, whatever it is compressed with.

magic      which compression the first bytes speak of
codecs     one function a compression: compressed chunks in, plain chunks of a bounded size out
plain      the plain stream of a source from any byte on
"""

from spark.compression.magic import Codec, sniff
from spark.compression.plain import plain_stream, regrouped, stored_codec

__all__ = ["Codec", "plain_stream", "regrouped", "sniff", "stored_codec"]
