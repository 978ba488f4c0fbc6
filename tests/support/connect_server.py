"""A Spark Connect server as a process, as `start-connect-server.sh` starts one."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from localstack.ports import HOST, free_port
from tests.support.short_spark import short_lived
from tests.support.until import until_sync

_SUBMIT: Final = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_READY: Final = "Spark Connect server started at"


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """What runs."""

    url: str
    port: int
    process: "subprocess.Popen[bytes]"


@contextmanager
def connect_server(
    folder: Path, *, master: str = "local[2]", conf: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[ConnectServer]:
    """A server that answers; ended afterwards. Its log is in the folder."""
    port = free_port() if port is None else port
    given = {
        **short_lived(),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    log = folder / f"connect-{port}.log"
    with log.open("ab") as out:
        began = log.stat().st_size
        process = subprocess.Popen(
            [
                # A server's executors have the libraries in an interpreter that it names; here it is ours.
                *("env", f"PYSPARK_PYTHON={sys.executable}"),
                *(str(_SUBMIT), "--class", _CLASS, "--master", master, "--driver-memory", "512m"),
                *(part for name, value in given.items() for part in ("--conf", f"{name}={value}")),
                "spark-internal",
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            until_sync(
                lambda: _READY in log.read_text()[began:], seconds=300, what="the Connect server is ready"
            )
            yield ConnectServer(f"sc://{HOST}:{port}", port, process)
        finally:
            process.terminate()
            process.wait(60)
