"""Java names of AWS credentials providers, and the source here that each one stands for."""

from typing import Final

from headrace.options.choices import CredentialsProvider
from headrace.options.value_types import Form, FormError

_V2: Final = "software.amazon.awssdk.auth.credentials."
_V1: Final = "com.amazonaws.auth."

# The AWS SDK for Java, version 2 and version 1. A plain chain class has no counterpart of its own: the Aiven
# connector's published example names it where it means the default chain.
JAVA_PROVIDERS: Final[dict[str, CredentialsProvider]] = {
    _V2 + "AwsCredentialsProviderChain": CredentialsProvider.DEFAULT,
    _V2 + "DefaultCredentialsProvider": CredentialsProvider.DEFAULT,
    _V2 + "EnvironmentVariableCredentialsProvider": CredentialsProvider.ENVIRONMENT,
    _V2 + "ProfileCredentialsProvider": CredentialsProvider.PROFILE,
    _V2 + "ContainerCredentialsProvider": CredentialsProvider.CONTAINER,
    _V2 + "InstanceProfileCredentialsProvider": CredentialsProvider.INSTANCE_PROFILE,
    _V2 + "WebIdentityTokenFileCredentialsProvider": CredentialsProvider.WEB_IDENTITY,
    "software.amazon.awssdk.services.sts.auth.StsWebIdentityTokenFileCredentialsProvider": (
        CredentialsProvider.WEB_IDENTITY
    ),
    _V2 + "AnonymousCredentialsProvider": CredentialsProvider.ANONYMOUS,
    _V2 + "StaticCredentialsProvider": CredentialsProvider.STATIC,
    _V1 + "AWSCredentialsProviderChain": CredentialsProvider.DEFAULT,
    _V1 + "DefaultAWSCredentialsProviderChain": CredentialsProvider.DEFAULT,
    _V1 + "EnvironmentVariableCredentialsProvider": CredentialsProvider.ENVIRONMENT,
    _V1 + "profile.ProfileCredentialsProvider": CredentialsProvider.PROFILE,
    _V1 + "ContainerCredentialsProvider": CredentialsProvider.CONTAINER,
    _V1 + "InstanceProfileCredentialsProvider": CredentialsProvider.INSTANCE_PROFILE,
    _V1 + "WebIdentityTokenCredentialsProvider": CredentialsProvider.WEB_IDENTITY,
    _V1 + "AWSStaticCredentialsProvider": CredentialsProvider.STATIC,
}


def _provider(text: str) -> CredentialsProvider:
    found = JAVA_PROVIDERS.get(text.strip().removeprefix("class "))
    if found is None:
        raise FormError("a role is asked for with aws.sts.role.arn")
    return found


PROVIDER: Final = Form(
    kind="CLASS",
    expected=f"a class of the AWS SDK for Java among {', '.join(JAVA_PROVIDERS)}",
    parse=_provider,
    values=tuple(JAVA_PROVIDERS),
)
