"""The one retry policy of calls to S3, `aws.s3.backoff.*`."""

from collections.abc import Callable
from typing import TypeVar

import tenacity

from headrace.model.errors import SourceUnavailable
from headrace.options.settings import BackoffSettings

T = TypeVar("T")


def attempted(call: Callable[[], T], backoff: BackoffSettings) -> T:
    """What `call` gives, after at most `max_retries` repeats with growing, jittered delays; blocks.

    Only SourceUnavailable, which passes by itself, is tried again; the last one is raised.
    """
    try:
        return call()
    except SourceUnavailable as error:
        # What counts attempts is made only now: it costs as much as a good part of a small GET.
        failures = [error]

    def first_is_over() -> T:
        if failures:
            raise failures.pop()
        return call()

    policy = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(SourceUnavailable),
        stop=tenacity.stop_after_attempt(1 + backoff.max_retries),
        wait=tenacity.wait_random_exponential(
            multiplier=backoff.delay_ms / 1000, max=backoff.max_delay_ms / 1000
        ),
        reraise=True,
    )
    result: T = policy(first_is_over)
    return result
