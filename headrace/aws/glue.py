"""AWS Glue's schema registry: the text of a schema version."""

from collections.abc import Callable
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.aws.aws_credentials import SigningCredentials, session_with, usable_configuration
from headrace.aws.aws_errors import refusal
from headrace.model.errors import SourceUnavailable
from headrace.options.registry_settings import GlueSettings
from headrace.options.token_logins import signing_login

_WHAT: Final = "AWS Glue's schema registry"
_UNKNOWN: Final = frozenset({"EntityNotFoundException", "InvalidInputException"})
_PATIENCE: Final = Config(
    connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"}
)


def glue_versions(settings: GlueSettings) -> Callable[[str], tuple[str, str] | None]:
    """Gives the type and text of a schema version by its id, None where there is none; that blocks.

    AccessDenied where this machine's AWS configuration allows no client, and of each call AccessDenied while
    the user is refused, SourceUnavailable while Glue does not answer.
    """
    login = signing_login(settings.login.reveal())
    credentials = SigningCredentials(login.credentials, region=login.sts_region, ca_bundle=login.ca_bundle)
    with usable_configuration():
        client: Any = session_with(credentials, region=settings.region).create_client(
            "glue",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            verify=login.ca_bundle,
            config=_PATIENCE,
        )
    client.meta.events.register("after-call.glue", credentials.on_answer)

    def version(number: str) -> tuple[str, str] | None:
        try:
            found = client.get_schema_version(SchemaVersionId=number)
        except ClientError as error:
            answer = error.response.get("Error", {})
            code = str(answer.get("Code", ""))
            if code in _UNKNOWN:
                return None
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise refusal(
                code, status, "GetSchemaVersion", what=_WHAT, message=str(answer.get("Message", ""))
            ) from None
        except BotoCoreError as error:
            raise SourceUnavailable(f"{_WHAT} cannot be reached ({type(error).__name__}).") from None
        text = found.get("SchemaDefinition")
        if not isinstance(text, str):
            raise SourceUnavailable(f"What answers for {_WHAT} gives no schema: correct aws.glue.endpoint.")
        return str(found.get("DataFormat")), text

    return version
