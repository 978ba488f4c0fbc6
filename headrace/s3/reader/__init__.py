"""Objects as sources for decoders, fetched ahead of them by a bounded window.

s3_source      one object pinned to one content: streams and ranges
resumable_get  one GET whose cut connections are resumed by range, and the limit on bytes a second
prefetch       the splits of a batch in order: what comes next is under way already
"""

from headrace.s3.reader.prefetch import Prefetch
from headrace.s3.reader.resumable_get import RateLimiter
from headrace.s3.reader.s3_source import S3Source

__all__ = ["Prefetch", "RateLimiter", "S3Source"]
