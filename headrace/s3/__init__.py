"""S3, as tasks and the driver call it: one client a process, one kind of retry, errors in our words.

client       the client, its connections and credentials, the one retry policy, errors as our classes
s3_calls     calls of it about objects that are there
upload_calls calls of multipart uploads; completion: what their answers mean,
             and what has an object's name already: replaced, on what grounds, or left
fast_get     GETs without botocore's work for each, where they fit, and their signature
connections  what a GET asks for and gives, where those of a bucket go, and the connections that carry them
socket_files a connection as a file, of which a read ends early when bytes come slowly
inventory_manifests   the manifests of an S3 Inventory
"""

from headrace.s3.client import translate_s3
from headrace.s3.s3_calls import S3Calls, UploadsUnderWay, new_s3_calls

__all__ = ["S3Calls", "UploadsUnderWay", "new_s3_calls", "translate_s3"]
