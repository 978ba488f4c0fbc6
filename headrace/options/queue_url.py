"""What the URL of a queue says of where the queue is."""

import re
from typing import Final

# https://docs.aws.amazon.com/general/latest/gr/sqs-service.html: old and new forms, FIPS and dual-stack ones,
# VPC endpoints, and China's. LocalStack and MinIO's tools write the region in other places.
_REGION: Final = r"([a-z]{2,3}(?:-[a-z]+)+-\d+)"
_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        rf"https?://(?:[a-z0-9-]+\.)?sqs(?:-fips)?\.{_REGION}\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)",
        rf"https?://{_REGION}\.queue\.amazonaws\.com",
        rf"https?://sqs\.{_REGION}\.localhost",
        rf"https?://[^/]+/queue/{_REGION}/",
    )
)


def queue_region(url: str) -> str | None:
    """The region that the URL names; None when it names none (the old global form, and other SQS)."""
    for form in _FORMS:
        if (found := form.match(url)) is not None:
            return found[1]
    return None
