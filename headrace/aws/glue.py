"""AWS Glue's schema registry: the text of a schema version, and versions of a source's own schemas."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from headrace.aws.aws_credentials import (
    PATIENCE,
    SigningCredentials,
    session_with,
    signed_again,
    usable_configuration,
)
from headrace.aws.aws_errors import refusal
from headrace.model.errors import InvalidObject, SourceUnavailable
from headrace.options.schema_settings import GlueSettings, GlueWriting
from headrace.options.token_logins import signing_login

_WHAT: Final = "AWS Glue's schema registry"
_INVALID: Final = "InvalidInputException"
_ABSENT: Final = frozenset({"EntityNotFoundException"})
# An id that is none is invalid.
_UNKNOWN: Final = _ABSENT | {_INVALID}


# Glue checks a new version against those before it, which takes it a moment.
_CHECKS: Final = 10
_CHECK_SECONDS: Final = 0.3
_Answer = dict[str, Any]


def glue_versions(settings: GlueSettings) -> Callable[[str], tuple[str, str] | None]:
    """Gives the type and text of a schema version by its id, None where there is none; that blocks.

    AccessDenied where this machine's AWS configuration allows no client, and of each call AccessDenied while
    the user is refused, SourceUnavailable while Glue does not answer.
    """
    client = _client(settings)

    def version(number: str) -> tuple[str, str] | None:
        found = _called(client, "GetSchemaVersion", _UNKNOWN, SchemaVersionId=number)
        return None if found is None else (str(found.get("DataFormat")), _text(found))

    return version


def _client(settings: GlueSettings) -> Any:
    login = signing_login(settings.login.reveal())
    credentials = SigningCredentials(login.credentials, region=login.sts_region, ca_bundle=login.ca_bundle)
    with usable_configuration():
        client: Any = session_with(credentials, region=settings.region).create_client(
            "glue",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            verify=login.ca_bundle,
            config=PATIENCE,
        )
    client.meta.events.register("after-call.glue", credentials.on_answer)
    return client


def _called(client: Any, operation: str, unknown: frozenset[str], **given: Any) -> _Answer | None:
    """The answer; None for these codes. Raises as `glue_versions` says."""
    try:
        found: _Answer = signed_again(lambda: getattr(client, xform_name(operation))(**given))
    except ClientError as error:
        answer = error.response.get("Error", {})
        code = str(answer.get("Code", ""))
        if code in unknown:
            return None
        if code == _INVALID:
            raise InvalidObject(
                f"{_WHAT} refuses the schema of the rows ({answer.get('Message', '')}). Correct "
                "aws.glue.registry.name and aws.glue.schema.name, or the schema.",
                reason="schema_refused",
            ) from None
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        raise refusal(code, status, operation, what=_WHAT, message=str(answer.get("Message", ""))) from None
    except BotoCoreError as error:
        raise SourceUnavailable(f"{_WHAT} cannot be reached ({type(error).__name__}).") from None
    if not isinstance(found.get("SchemaVersionId"), str):
        # Every answer of Glue's has it; botocore finds nothing wrong with the page of a proxy.
        raise SourceUnavailable(f"What answers for {_WHAT} is not Glue: correct aws.glue.endpoint.")
    return found


def _text(found: _Answer) -> str:
    text = found.get("SchemaDefinition")
    if not isinstance(text, str):
        raise SourceUnavailable(f"What answers for {_WHAT} gives no schema: correct aws.glue.endpoint.")
    return text


@lru_cache(maxsize=8)
def glue_registry(settings: GlueWriting) -> "GlueRegistry":
    """The registry for a source's values, one for each and process: what it answered is remembered."""
    return GlueRegistry(settings)


class GlueRegistry:
    """Versions of schemas in a registry of Glue's.

    All block at first, and raise as `glue_versions` says, and InvalidObject (`schema_refused`) where there is
    no such version and none may be made.
    """

    def __init__(self, settings: GlueWriting) -> None:
        self._settings = settings
        self._glue: Any = None
        self._versions: dict[tuple[str, str], UUID] = {}
        self._latest: dict[str, tuple[UUID, str, str]] = {}

    def version(self, schema: str, kind: str, text: str) -> UUID:
        """The version with this text, registered where that is to be."""
        known = self._versions.get((schema, text))
        if known is None:
            known = self._versions[schema, text] = self._available(schema, self._found(schema, kind, text))
        return known

    def latest(self, schema: str) -> tuple[UUID, str, str]:
        """The newest version: its id, type and text."""
        known = self._latest.get(schema)
        if known is None:
            found = self._call(
                "GetSchemaVersion",
                SchemaId=self._id(schema),
                SchemaVersionNumber={"LatestVersion": True},
            )
            if found is None:
                raise self._refused(schema, "does not exist", "Register it, or set aws.glue.schema.name")
            known = UUID(found["SchemaVersionId"]), str(found.get("DataFormat")), _text(found)
            self._latest[schema] = known
        return known

    def _found(self, schema: str, kind: str, text: str) -> _Answer:
        found = self._call("GetSchemaByDefinition", SchemaId=self._id(schema), SchemaDefinition=text)
        if found is not None:
            return found
        if not self._settings.auto_register:
            raise self._refused(
                schema,
                "has no version with the schema of the rows",
                "Register it, or set aws.glue.auto.register.schemas=true",
            )
        given: dict[str, Any] = {"SchemaDefinition": text}
        made = self._call("RegisterSchemaVersion", SchemaId=self._id(schema), **given)
        if made is None:
            made = self._call(
                "CreateSchema",
                unknown=_ABSENT | {"AlreadyExistsException"},
                RegistryId={"RegistryName": self._settings.registry},
                SchemaName=schema,
                DataFormat=kind,
                Compatibility=self._settings.compatibility,
                **given,
            )
        # Another process may have been faster.
        made = made or self._call("RegisterSchemaVersion", SchemaId=self._id(schema), **given)
        if made is None:
            raise self._refused(
                schema, "cannot be created", "Create the registry, or correct aws.glue.registry.name"
            )
        return made

    def _available(self, schema: str, found: _Answer) -> UUID:
        """The id of a version once Glue has checked it."""
        number = str(found["SchemaVersionId"])
        status = found.get("Status", found.get("SchemaVersionStatus"))
        for _ in range(_CHECKS):
            if status != "PENDING":
                break
            time.sleep(_CHECK_SECONDS)
            status = (self._call("GetSchemaVersion", SchemaVersionId=number) or {}).get("Status")
        if status == "PENDING":
            raise SourceUnavailable(f"{_WHAT} still checks the schema {schema}.")
        if status != "AVAILABLE":
            raise self._refused(
                schema,
                f"does not take the schema of the rows (its version is {status})",
                "Register a compatible one, or change the schema's compatibility",
            )
        return UUID(number)

    def _call(self, operation: str, *, unknown: frozenset[str] = _ABSENT, **given: Any) -> _Answer | None:
        if self._glue is None:
            self._glue = _client(self._settings.where)
        return _called(self._glue, operation, unknown, **given)

    def _id(self, schema: str) -> dict[str, str]:
        return {"SchemaName": schema, "RegistryName": self._settings.registry}

    def _refused(self, schema: str, what: str, fix: str) -> InvalidObject:
        return InvalidObject(
            f"The schema {schema} of the registry {self._settings.registry} of AWS Glue {what}. {fix}.",
            reason="schema_refused",
        )
