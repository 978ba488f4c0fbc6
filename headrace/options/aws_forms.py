"""What the options of AWS may be: region, credentials providers, proxy, and the URL of a queue.

Where a configuration names no region it is this machine's for AWS's clients. Providers have Java names, each
for a source here. A queue's URL says where the queue is, and a region in which of AWS's partitions.
"""

import configparser
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from headrace.model.objects import is_directory_bucket
from headrace.options.choices import CredentialsProvider
from headrace.options.secret import Secret
from headrace.options.value_types import Form, FormError

# botocore reads the second alone; AWS's other libraries, containers and functions set the first.
_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
# With a file's place where nothing says another; a credentials file wins, as for botocore.
_FILES: Final = (
    ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    ("AWS_CONFIG_FILE", "config"),
)


def machine_region(environment: Mapping[str, str], read_file: Callable[[str], str]) -> str | None:
    """Return the region of the environment, else of the profile in force; None where there is none."""
    for name in _VARIABLES:
        if environment.get(name, "").strip():
            return environment[name].strip()
    for path in filter(None, (_path(environment, *each) for each in _FILES)):
        found = _region_of(_read(path, read_file), _profile(environment))
        if found:
            return found
    return None


def _path(environment: Mapping[str, str], variable: str, name: str) -> str | None:
    home = environment.get("HOME", "")
    given = environment.get(variable, "").strip()
    if given.startswith("~/"):
        return f"{home}{given[1:]}" if home else None
    return given or (f"{home}/.aws/{name}" if home else None)


def _profile(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"


def _read(path: str, read_file: Callable[[str], str]) -> str:
    try:
        return read_file(path)
    except (OSError, ValueError):
        # What cannot be read is told of where credentials are looked for in it.
        return ""


def _region_of(text: str, profile: str) -> str:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return ""
    for section in (profile, f"profile {profile}"):
        if parser.has_section(section):
            region = parser.get(section, "region", fallback=None)
            if region:
                return region.strip()
    return ""


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


def _provider_of(text: str) -> CredentialsProvider:
    found = JAVA_PROVIDERS.get(text.strip().removeprefix("class "))
    if found is None:
        raise FormError("a role is asked for with aws.sts.role.arn")
    return found


PROVIDER: Final = Form(
    kind="CLASS",
    expected=f"a class of the AWS SDK for Java among {', '.join(JAVA_PROVIDERS)}",
    parse=_provider_of,
    values=tuple(JAVA_PROVIDERS),
)


_PROXY_EXPECTED: Final = "a URL such as http://proxy:3128, or http://user:password@proxy:3128"


def _proxy_url(text: str) -> Secret:
    stripped = text.strip()
    if "://" not in stripped:
        stripped = f"http://{stripped}"
    try:
        address = urlsplit(stripped)
        port = address.port
    except ValueError:
        raise FormError from None
    if address.scheme not in {"http", "https"} or not address.hostname or port == 0:
        raise FormError
    if address.path.strip("/") or address.query or address.fragment:
        raise FormError
    return Secret(stripped.rstrip("/"))


PROXY_URL: Final = Form(kind="STRING", expected=_PROXY_EXPECTED, parse=_proxy_url)


def proxy_of(url: Secret | None, user: str | None, password: Secret | None) -> Secret | None:
    """The URL with user and password in it, where they are given apart."""
    if url is None or user is None:
        return url
    scheme, _, address = url.reveal().partition("://")
    secret = "" if password is None else f":{quote(password.reveal(), safe='')}"
    return Secret(f"{scheme}://{quote(user, safe='')}{secret}@{address.rpartition('@')[2]}")


def proxy_config(proxy: Secret | None) -> dict[str, str] | None:
    """What AWS clients are given; None leaves the proxy to the environment."""
    if proxy is None:
        return None
    return {"http": proxy.reveal(), "https": proxy.reveal()}


# https://docs.aws.amazon.com/general/latest/gr/sqs-service.html: old and new forms, FIPS and dual-stack ones,
# VPC endpoints, and China's. LocalStack and MinIO's tools write the region in other places.
_REGION: Final = r"([a-z]{2,3}(?:-[a-z]+)+-\d+)"
_QUEUE_URLS: Final = tuple(
    re.compile(form)
    for form in (
        rf"https?://(?:[a-z0-9-]+\.)?sqs(?:-fips)?\.{_REGION}\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)",
        rf"https?://{_REGION}\.queue\.amazonaws\.com",
        rf"https?://sqs\.{_REGION}\.localhost",
        rf"https?://[^/]+/queue/{_REGION}/",
    )
)


_AMAZONS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


def is_amazons(endpoint: str | None) -> bool:
    """Whether a service there is Amazon's own, as it is where no endpoint is given."""
    return endpoint is None or (urlsplit(endpoint).hostname or "").endswith(_AMAZONS)


def queue_region(url: str) -> str | None:
    """The region that the URL names; None when it names none (the old global form, and other SQS)."""
    for form in _QUEUE_URLS:
        if (found := form.match(url)) is not None:
            return found[1]
    return None


# By the beginnings of their regions, which no two partitions share. botocore's endpoints say the same, and no
# client's library is loaded here.
_PARTITIONS: Final = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}


def partition_of(region: str) -> str:
    """The partition of AWS that the region is in, as its ARNs begin; `aws` for a region that is not AWS's."""
    return next((found for begin, found in _PARTITIONS.items() if region.startswith(begin)), "aws")


def bucket_arn(bucket: str, partition: str) -> str:
    """The ARN of a bucket, which names its partition and no region."""
    return f"arn:{partition}:s3:::{bucket}"


# A directory bucket grants its objects as a whole, by sessions, and has its rules as a bucket's.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-authenticating-authorizing.html
_EXPRESS: Final = {
    **dict.fromkeys(("s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts"), False),
    **dict.fromkeys(("s3:GetObject", "s3:GetObjectVersion"), False),
    **dict.fromkeys(("s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"), True),
}
_EXPRESS_RULES: Final = ("s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration")
CREATE_SESSION: Final = "s3express:CreateSession"
# No policy may name an alias, and an access point's name cannot be told from it: it may be cut short there.
TO_FILL_IN: Final = ":ACCOUNT:accesspoint/NAME-OF-"


def policy_arn(bucket: str, region: str) -> str:
    """The ARN that a policy has for what requests name `bucket`: a bucket, or the alias of an access point.

    An ordinary bucket's has no account, and `*` admits no more of a directory bucket, whose name is its own.
    """
    partition = partition_of(region)
    if is_directory_bucket(bucket):
        kind = "accesspoint" if bucket.endswith("--xa-s3") else "bucket"
        return f"arn:{partition}:s3express:{region}:*:{kind}/{bucket}"
    if bucket.endswith("-s3alias"):
        return f"arn:{partition}:s3:{region}{TO_FILL_IN}{bucket}"
    return bucket_arn(bucket, partition)


def is_access_point(bucket: str) -> bool:
    """Whether a bucket's name is the alias of an access point: it does not show which bucket that is of."""
    return bucket.endswith(("-s3alias", "--xa-s3"))


def objects_arn(arn: str, keys: str) -> str:
    """The ARN of the objects with such keys, of the bucket or access point that has this `policy_arn`."""
    if is_express(arn):
        return arn
    return f"{arn}/object/{keys}" if ":accesspoint/" in arn else f"{arn}/{keys}"


def is_express(arn: str) -> bool:
    """Whether it is of a directory bucket or of an access point of one."""
    return ":s3express:" in arn


def express_action(action: str) -> str | None:
    """What allows on a directory bucket what this action of S3 does elsewhere; None: it has no such thing."""
    if action in _EXPRESS_RULES:
        return action.replace("s3:", "s3express:")
    return CREATE_SESSION if action in _EXPRESS else None


def is_session_write(action: str) -> bool:
    """Whether a directory bucket wants a ReadWrite session for it."""
    return _EXPRESS.get(action, False)


def rights_on(arn: str, *actions: str) -> str:
    """What to allow for these actions, in words: `s3:GetObject on ARN`."""
    if not is_express(arn):
        return f"{' and '.join(actions)} on {arn}"
    words = dict.fromkeys(express_action(each) or each for each in actions)
    session = " in ReadWrite mode" if any(map(is_session_write, actions)) else ""
    return f"{' and '.join(words)}{session} on {arn}"


def addressing_style(endpoint: str | None, *, path_style: bool) -> Literal["path", "virtual", "auto"]:
    """Where a bucket's name is in addresses. Botocore's `auto` is `path` wherever there is an endpoint."""
    if path_style:
        return "path"
    if endpoint is None:
        return "auto"
    # No host name begins with a bucket's and ends with an address.
    return "path" if is_address(urlsplit(endpoint).hostname or "") else "virtual"


def is_address(host: str) -> bool:
    """Whether the host is an IP address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
