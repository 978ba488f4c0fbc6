"""The schemas of AWS Glue's registry, by the ids of their versions."""

from typing import Any, Final
from uuid import UUID

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.aws.aws_credentials import SigningCredentials, session_with, usable_configuration
from headrace.aws.aws_errors import refusal
from headrace.formats.converters.registry_schemas import NoSchema, SchemaKind, SchemaText, other_kind
from headrace.model.errors import SourceUnavailable
from headrace.options.registry_settings import GlueSettings
from headrace.options.token_logins import signing_login

_WHAT: Final = "AWS Glue's schema registry"
_UNKNOWN: Final = frozenset({"EntityNotFoundException", "InvalidInputException"})
_PATIENCE: Final = Config(
    connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"}
)


class GlueStore:
    """See `headrace.formats.converters.registry_schemas.SchemaStore`."""

    def __init__(self, settings: GlueSettings, kind: SchemaKind) -> None:
        self._settings = settings
        self._kind = kind
        self._client: Any = None

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`."""
        try:
            found = self._glue().get_schema_version(SchemaVersionId=str(id_))
        except ClientError as error:
            answer = error.response.get("Error", {})
            code = str(answer.get("Code", ""))
            if code in _UNKNOWN:
                return NoSchema(
                    "schema_unknown", f"{_WHAT} has no schema with the id {id_} of the record ({code})"
                )
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise refusal(
                code, status, "GetSchemaVersion", what=_WHAT, message=str(answer.get("Message", ""))
            ) from None
        except BotoCoreError as error:
            raise SourceUnavailable(f"{_WHAT} cannot be reached ({type(error).__name__}).") from None
        kind, text = str(found.get("DataFormat")), found.get("SchemaDefinition")
        if not isinstance(text, str):
            raise SourceUnavailable(f"What answers for {_WHAT} gives no schema: correct aws.glue.endpoint.")
        return SchemaText(text) if kind == self._kind else other_kind(id_, kind, self._kind)

    def _glue(self) -> Any:
        if self._client is None:
            settings, login = self._settings, signing_login(self._settings.login.reveal())
            credentials = SigningCredentials(
                login.credentials, region=login.sts_region, ca_bundle=login.ca_bundle
            )
            with usable_configuration():
                client = session_with(credentials, region=settings.region).create_client(
                    "glue",
                    region_name=settings.region,
                    endpoint_url=settings.endpoint,
                    verify=login.ca_bundle,
                    config=_PATIENCE,
                )
            client.meta.events.register("after-call.glue", credentials.on_answer)
            self._client = client
        return self._client
