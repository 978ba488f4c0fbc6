"""LocalStack with S3's promise kept that an upload is completed whole; run in its virtual environment.

Two requests at once to complete one upload, of a process that was killed and of the next, are ordinary after
a crash, and S3 answers both. LocalStack assembles the object a second time from parts that the first request
has just removed: an empty object takes the place of the complete one, and both are told that all is well.
"""

import functools
import importlib
import runpy
import threading
from collections.abc import Callable
from typing import Any, Final

# Uploads share them by their ids.
_LOCKS: Final = [threading.Lock() for _ in range(64)]


def one_at_a_time(complete: Callable[..., Any]) -> Callable[..., Any]:
    """The method of LocalStack's S3, which for each upload waits for the call before."""

    @functools.wraps(complete)
    def alone(self: Any, context: Any, bucket: str, key: str, upload_id: str, *rest: Any, **more: Any) -> Any:
        with _LOCKS[hash(upload_id) % len(_LOCKS)]:
            return complete(self, context, bucket, key, upload_id, *rest, **more)

    return alone


def _main() -> None:
    # Of LocalStack's own package, which this folder's name hides from who reads the types.
    provider = importlib.import_module("localstack.services.s3.provider").S3Provider
    provider.complete_multipart_upload = one_at_a_time(provider.complete_multipart_upload)
    runpy.run_module("localstack.runtime.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
