"""The S3 of the campaigns in which S3 is killed: what it has acknowledged is there afterwards."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localstack.ports import free_port
from tests.faults.lasting_s3 import LastingS3
from tests.support import aws

pytestmark = pytest.mark.long


def test_it_keeps_uploads_parts_and_objects_over_kills(tmp_path: Path) -> None:
    """And refuses what S3 refuses: a name that is taken, an upload that is over."""
    emulator = LastingS3(folder=tmp_path, port=free_port())
    emulator.start()
    try:
        client = aws.s3(emulator.endpoint)
        client.create_bucket(Bucket="b")
        begun = client.create_multipart_upload(
            Bucket="b", Key="a/\u00fc b", Metadata={"headrace-object": "x"}, ChecksumAlgorithm="CRC32"
        )
        given: dict[str, Any] = {"Bucket": "b", "Key": "a/\u00fc b", "UploadId": begun["UploadId"]}
        sent = client.upload_part(**given, PartNumber=1, Body=b"hello")
        emulator.daemon.kill()
        emulator.start()
        (part,) = client.list_parts(**given)["Parts"]
        assert (part["ETag"], part["Size"]) == (sent["ETag"], 5)
        client.complete_multipart_upload(
            **given, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}, IfNoneMatch="*"
        )
        emulator.daemon.kill()
        emulator.start()
        found = client.get_object(Bucket="b", Key="a/\u00fc b")
        assert (found["Body"].read(), found["Metadata"]) == (b"hello", {"headrace-object": "x"})
        with pytest.raises(ClientError, match="NoSuchUpload"):
            client.list_parts(**given)
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(Bucket="b", Key="a/\u00fc b", Body=b"", IfNoneMatch="*")
        client.put_object(Bucket="b", Key="a/\u00fc b", Body=b"again")
        client.put_object(Bucket="b", Key="c", Body=b"")
        versions = client.list_object_versions(Bucket="b")["Versions"]
        assert [each["Key"] for each in versions] == ["a/\u00fc b", "a/\u00fc b", "c"]
        client.close()
    finally:
        emulator.stop()
