"""botocore's descriptions of S3, SQS and STS, read and kept once for all clients of a process.

Each session of botocore reads them again: 12 MiB and a sixth of a second for each client, in a process that
makes one for each connector and each of its parts.
"""

from functools import cache
from typing import Any, Final

from botocore.loaders import Loader, create_loader

SERVICES: Final = ("s3", "sqs", "sts")


def share_service_models(session: Any) -> None:
    """Have a session, of botocore or aiobotocore, use the descriptions that others have read.

    Those of another AWS_DATA_PATH, or of another profile's, stay apart.
    """
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))


def load_service_models(session: Any) -> None:
    """Read what clients need, so that processes that are forked from this one have it."""
    share_service_models(session)
    loader = session.get_component("data_loader")
    for name in ("endpoints", "sdk-default-configuration", "partitions", "_retry"):
        loader.load_data(name)
    for service in SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, kind)


@cache
def _loader(data_path: str | None) -> Loader:
    # Whoever asks for the same file at the same time reads it twice, and nothing else happens.
    return create_loader(data_path)
