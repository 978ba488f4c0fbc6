"""LocalStack completes an upload once, as S3 does (`localstack/whole_completes.py`)."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

import pytest
from botocore.exceptions import ClientError

from tests.support import aws

pytestmark = pytest.mark.parts

# To put it together takes long enough for the others to come meanwhile.
_BODY: Final = b"x" * 8_000_000
_UPLOADS: Final = 5


def test_an_upload_that_several_complete_at_once_is_completed_whole() -> None:
    """One of them does it, and the others find no upload; the object is never put together twice.

    Mutation tried: LocalStack's own, of which several do it, and of two that follow each other closely the
    second may leave an empty object.
    """
    bucket, together = aws.new_bucket(), Barrier(2)

    def answer(key: str, upload_id: str, tag: str) -> str:
        s3 = aws.s3()
        together.wait(60)
        try:
            s3.complete_multipart_upload(
                Bucket=bucket,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]},
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "completed"

    with ThreadPoolExecutor(2) as pool:
        for number in range(_UPLOADS):
            key = f"object-{number}"
            upload_id = aws.s3().create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
            tag = aws.s3().upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=1, Body=_BODY)[
                "ETag"
            ]
            answers = list(pool.map(answer, [key] * 2, [upload_id] * 2, [tag] * 2))
            assert sorted(answers) == ["NoSuchUpload", "completed"]
            assert aws.s3().head_object(Bucket=bucket, Key=key)["ContentLength"] == len(_BODY)
