"""Whose line it is: what the tasks of a worker's connectors log carries the connector's name."""

import json
from functools import partial

import pytest

from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.log_lines import written_lines
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, source_config

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_bad_record_says_of_which_connector(shared_worker: WorkerProcess) -> None:
    """Two connectors in one process of Spark's, a moment apart: each line is there, with its own name."""
    names = [aws.unique("bad") for _ in range(2)]
    for name in names:
        bucket = aws.new_bucket()
        aws.s3().put_object(Bucket=bucket, Key="a.jsonl", Body=b'{"n":1}\nno json\n')
        config = source_config(bucket, kafka.new_topic("bad"), errors__tolerance="all")
        source = Hosted(worker=shared_worker, name=name, options=config)
        source.start()
        until_sync(partial(_is_done, source), seconds=60, what="a done object")
        source.stop()
    until_sync(lambda: _connectors(shared_worker) >= set(names), seconds=60, what=f"lines of {names}")


def _is_done(source: Hosted) -> bool:
    return bool(source.status()["objects"].get("done") == 1)


def _connectors(worker: WorkerProcess) -> set[str | None]:
    lines = written_lines(worker.log)
    found = [json.loads(line) for line in lines if line.startswith("{") and '"bad_record"' in line]
    return {line.get("connector") for line in found}
