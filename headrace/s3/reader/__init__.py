"""Objects as sources for decoders, fetched ahead of them by a bounded window.

s3_source      one object pinned to one content, streams and ranges; those of a batch, fetched ahead
resumable_get  one GET whose cut connections are resumed by range, and the limit on bytes a second
"""

from headrace.s3.reader.resumable_get import RateLimiter
from headrace.s3.reader.s3_source import Prefetch, S3Source

__all__ = ["Prefetch", "RateLimiter", "S3Source"]
