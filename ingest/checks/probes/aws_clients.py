"""Clients of S3 and SQS for a person's single questions: blocking, with short patience, repeating nothing."""

from dataclasses import dataclass
from typing import Any, Final

from botocore import UNSIGNED
from botocore.config import Config

from headrace.aws.aws_credentials import SigningCredentials, is_anonymous, session_with, usable_configuration
from headrace.options import Settings
from headrace.options.aws_forms import proxy_config

_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsClients:
    """The bucket's S3 and the queue's SQS (None without `sqs.queue.url`), with the same credentials."""

    s3: Any
    sqs: Any | None

    def close(self) -> None:
        """Give the connections back."""
        self.s3.close()
        if self.sqs is not None:
            self.sqs.close()


def aws_clients(settings: Settings) -> AwsClients:
    """New clients as the settings describe them. AccessDenied when there are no credentials."""
    s3, sqs = settings.s3, settings.sqs
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": s3.addressing_style},
        signature_version=UNSIGNED if is_anonymous(s3.credentials) else None,
    )
    credentials = SigningCredentials(s3.credentials, region=s3.region, ca_bundle=s3.ca_bundle)
    if not is_anonymous(s3.credentials):
        # Before all questions, which would each be answered by the same sentence.
        credentials.get_frozen_credentials()
    with usable_configuration():
        session = session_with(credentials, region=s3.region)
        return AwsClients(
            s3=session.create_client(
                "s3",
                region_name=s3.region,
                endpoint_url=s3.endpoint,
                config=config.merge(Config(proxies=proxy_config(s3.proxy))),
                verify=s3.ca_bundle,
            ),
            sqs=None
            if sqs is None
            else session.create_client(
                "sqs", region_name=sqs.region, endpoint_url=sqs.endpoint, config=config, verify=s3.ca_bundle
            ),
        )
