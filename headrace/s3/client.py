"""A botocore client of S3, made in one place: its connections, its credentials, and no retries of its own.

The one retry policy of calls to S3, `aws.s3.backoff.*`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import tenacity
from botocore import UNSIGNED
from botocore.config import Config

from headrace.aws.aws_credentials import SigningCredentials, is_anonymous, session_with, usable_configuration
from headrace.model.errors import SourceUnavailable
from headrace.options.aws_forms import proxy_config
from headrace.options.settings import BackoffSettings, S3Settings
from headrace.s3.connections import CONNECT_SECONDS, CONNECTIONS, READ_SECONDS

# A proxy that keeps a part until it is whole takes it at once, and answers when S3 has it.
UPLOAD_ANSWER_SECONDS: Final = 120
# botocore waits as long for each piece that it sends as for a connection, and a slow line may stand still for
# longer than a connection takes.
UPLOAD_SEND_SECONDS: Final = READ_SECONDS


class S3Client(NamedTuple):
    """A client with its own connections, and what it signs with."""

    client: Any
    credentials: SigningCredentials


def new_s3_client(settings: S3Settings, *, uploads: bool = False) -> S3Client:
    """A new client, for `uploads` or for reading.

    Credentials are asked for by each call, and again after AWS has refused them. AccessDenied when
    this machine's AWS configuration allows no client.
    """
    return CLIENTS.new(settings, uploads)


def _botocore_client(settings: S3Settings, uploads: bool) -> S3Client:  # noqa: FBT001  # `new_s3_client` has its name
    s3_config: Any = {"addressing_style": settings.addressing_style}
    if uploads and (settings.endpoint is None or settings.endpoint.startswith("https:")):
        # TLS keeps a part whole, and it carries a checksum: a hash of it as well would cost a core.
        s3_config["payload_signing_enabled"] = False
    config = Config(
        # Retries are `headrace.s3.client`; two layers of them would multiply.
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=UPLOAD_SEND_SECONDS if uploads else CONNECT_SECONDS,
        read_timeout=UPLOAD_ANSWER_SECONDS if uploads else READ_SECONDS,
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        s3=s3_config,
        proxies=proxy_config(settings.proxy),
        signature_version=UNSIGNED if is_anonymous(settings.credentials) else None,
        # If-Match pins what is read, and uploads bring their checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    credentials = SigningCredentials(
        settings.credentials, region=settings.region, ca_bundle=settings.ca_bundle
    )
    with usable_configuration():
        client = session_with(credentials, region=settings.region).create_client(
            "s3",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            config=config,
            verify=settings.ca_bundle,
        )
    client.meta.events.register("after-call.s3", credentials.on_answer)
    return S3Client(client, credentials)


@dataclass(slots=True)
class ClientFactory:
    """What makes the clients of this process."""

    new: Callable[[S3Settings, bool], S3Client] = _botocore_client


CLIENTS: Final = ClientFactory()
"""botocore's, unless a simulation of S3 has put another in their place."""


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
