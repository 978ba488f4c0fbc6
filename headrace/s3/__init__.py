"""S3, as tasks and the driver call it: one client a process, one kind of retry, errors in our words.

client       the client, its connections and credentials
s3_calls     calls of it about objects that are there
upload_calls calls of multipart uploads; completion, part_text, errors: what their answers mean
retries      the one retry policy
get_request  what a GET asks for and gives, with botocore or without
fast_get     GETs without botocore's work for each, where they fit
endpoint     where GETs of a bucket go, learnt from a request of botocore's
signing      their signature
connections  the connections that carry them
inventory    the manifests of an S3 Inventory
errors       botocore's errors as classes of `headrace.model.errors`
"""

from headrace.s3.errors import translate_s3
from headrace.s3.s3_calls import S3Calls, UploadsUnderWay, new_s3_calls

__all__ = ["S3Calls", "UploadsUnderWay", "new_s3_calls", "translate_s3"]
