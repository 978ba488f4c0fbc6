"""Objects as sources for decoders, fetched ahead of them by a bounded window.

source    one object pinned to one content: streams and ranges
body      one GET whose cut connections are resumed by range
ahead     chunks fetched by a thread of their own, a bounded number ahead
prefetch  the works of a batch in order: what comes next is under way already
pace      the limit on bytes a second
"""

from spark.reader.prefetch import Prefetch
from spark.reader.rate_limiter import RateLimiter
from spark.reader.s3_source import S3Source

__all__ = ["Prefetch", "RateLimiter", "S3Source"]
