"""What is logged while the log cannot be written."""

import errno
import io
import subprocess
import sys

_SCRIPT = """
import io, logging, structlog
from ingest.logs import configure

class Full(io.StringIO):
    full = True
    def write(self, text):
        if self.full:
            raise OSError({code}, "disk full")
        return super().write(text)

out = Full()
configure(stream=out)
structlog.get_logger().warning("lost")
logging.getLogger("library").error("lost too")
out.full = False
structlog.get_logger().warning("there")
print(out.getvalue())
"""


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    """Red without the forgiving stream: the first line raised, and `run` ended with 1 on a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(code=errno.ENOSPC)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = io.StringIO(done.stdout).read().split("\n")
    assert '"event": "there"' in lines[0]
    assert "lost" not in done.stdout
