"""The bucket's own rule for unfinished uploads.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpu-abort-incomplete-mpu-lifecycle-config.html
"""

from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.s3.errors import BOTOCORES, translate_s3

_DAY_MS: Final = 86_400_000
SHORTEST_EXPIRY_MS: Final = _DAY_MS
"""S3 counts in days, one at least."""


def upload_expiry_ms(client: Any, bucket: str, prefix: str) -> int | None:
    """The age from which S3 ends unfinished uploads under this prefix; None where no rule does. Blocks.

    Raises classes of `headrace.model.errors`, AccessDenied where the rules may not be read.
    """
    what = f"the lifecycle of s3://{bucket}"
    try:
        answer = client.get_bucket_lifecycle_configuration(Bucket=bucket)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "NoSuchLifecycleConfiguration":
            return None
        raise translate_s3(error, what=what) from error
    except BOTOCORES as error:
        raise translate_s3(error, what=what) from error
    days = [
        rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        for rule in answer.get("Rules", ())
        if rule.get("Status") == "Enabled"
        and "AbortIncompleteMultipartUpload" in rule
        and _concerns(rule, prefix)
    ]
    return min(days) * _DAY_MS if days else None


def _concerns(rule: Any, prefix: str) -> bool:
    """Whether the rule may be about keys under the prefix."""
    kept = rule.get("Filter", {})
    within = str(kept.get("Prefix") or kept.get("And", {}).get("Prefix") or rule.get("Prefix") or "")
    return within.startswith(prefix) or prefix.startswith(within)
