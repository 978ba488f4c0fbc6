"""botocore's errors as classes of `errors`: refusals by `headrace.aws.aws_errors`, the rest by class."""

from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from headrace.aws.aws_errors import AwsRefusal, classify, refusal
from headrace.model.errors import HeadraceError, InvalidConfiguration, ObjectError, SourceUnavailable
from headrace.model.text_formatting import printable

_NETWORK: Final = (
    BotoConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ResponseParserError,
    ResponseStreamingError,
    HTTPError,
)

BOTOCORES: Final = (ClientError, BotoCoreError, ResponseParserError, HTTPError)
"""What calls of botocore raise: urllib3's too, where the document of a refusal breaks off."""


def answer_of(error: ClientError) -> tuple[str, int]:
    """The code (empty for none) and the status of a refusal."""
    response: Any = error.response
    code = str(response.get("Error", {}).get("Code", ""))
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def translate_s3(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES`. `what` names the object as `s3://bucket/key`, or the bucket.

    Raises the error itself when it is a mistake of ours (a parameter that botocore refuses).
    """
    if isinstance(error, ClientError):
        code, status = answer_of(error)
        return refusal(code, status, error.operation_name, what=what)
    if isinstance(error, _NETWORK):
        return unreachable(error, what=what)
    raise error


def unreachable(error: Exception, *, what: str) -> HeadraceError:
    """Our error for a connection that fails: only the error's class is shown."""
    return SourceUnavailable(f"{what} could not be read for now ({type(error).__name__}).")


# -- Refusals of uploads as classes of `headrace.model.errors` -----------------------------------------------

NO_UPLOAD: Final = "NoSuchUpload"

# What S3 refuses because of an option, and which.
_BY_OPTION: Final = {
    "AccessControlListNotSupported": "Remove aws.s3.acl: the bucket's owner owns all of its objects.",
    "EntityTooLarge": "Lower aws.s3.part.size, or rotate earlier.",
    "EntityTooSmall": "Raise aws.s3.part.size.",
    "InvalidArgument": "Check aws.s3.sse.*, aws.s3.acl, aws.s3.storage.class and aws.s3.object.tags.",
    "InvalidEncryptionAlgorithmError": "Correct aws.s3.sse.",
    "InvalidRequest": "Check aws.s3.sse.*, aws.s3.acl, aws.s3.storage.class and aws.s3.object.tags.",
    "InvalidStorageClass": "Correct aws.s3.storage.class.",
    "InvalidTag": "Correct aws.s3.object.tags.",
    "KeyTooLongError": "Shorten file.name.template or what it is filled with.",
    "MalformedACLError": "Correct aws.s3.acl.",
}
_WORDS: Final = 200
_NOT_FOUND: Final = 404


class UploadEnded(ObjectError):
    """The upload is not there any more: a lifecycle rule or a person has ended it before it was completed."""


def translate_upload(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES` of an upload's call; `what` is `s3://bucket/key`.

    Raises the error itself when it is a mistake of ours.
    """
    if not isinstance(error, ClientError):
        ours = translate_s3(error, what=what)
        if isinstance(ours, SourceUnavailable):
            return SourceUnavailable(f"{what} could not be written for now ({type(error).__name__}).")
        return ours
    code, status = answer_of(error)
    if status == _NOT_FOUND and not code.isalpha() and error.operation_name != "HeadObject":
        # Its document broke off: whether the bucket or only the upload is not there, the next answer tells.
        return SourceUnavailable(f"{what} could not be written for now ({status}).")
    if code == NO_UPLOAD:
        return UploadEnded(
            f"{what} is not complete, and its upload is not there any more ({code}): a lifecycle rule or "
            "another program has ended it. Let the bucket's rule for unfinished uploads wait "
            "for three days or more."
        )
    remedy = _BY_OPTION.get(code)
    if remedy is not None:
        words = printable(str(error.response.get("Error", {}).get("Message", "")).rstrip("."), limit=_WORDS)
        return InvalidConfiguration(f"{what} is refused ({code}): {words}. {remedy}")
    return translate_s3(error, what=what)


def is_about_credentials(error: ClientError) -> bool:
    """Whether the request was refused for who signed it; the answer to a HEAD says no more than 400."""
    code, status = answer_of(error)
    if error.operation_name == "HeadObject" and status == 400:  # noqa: PLR2004  # Bad Request
        return True
    return classify(code, status, error.operation_name) is AwsRefusal.CREDENTIALS
