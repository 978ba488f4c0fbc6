"""Commands whose standard input, output or errors are closed, or cannot be written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_GOOD = """{"name": "a", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "bucket", "topic": "t",
"file.name.template": ".*"}"""


def _run(
    folder: Path, command: str, redirected: str, text: str = _GOOD, encoding: str = "utf-8", **more: str
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command whose configuration is `text`."""
    file = folder / "a.json"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m ingest {command} {redirected}', sys.executable],
        cwd=Path(__file__).parents[3],
        env={"CONFIG": str(file), "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": encoding, **more},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["lint $CONFIG --json", "--help", "--version", "options"])
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, command: str, unbuffered: str) -> None:
    """A full disk, say: a traceback of forty lines said so."""
    code, _, errors = _run(tmp_path, command, ">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, errors) == (1, "Standard output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_what_is_closed_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    """Daemons are started so; the numbers of closed streams went to whatever was opened next."""
    has_output, has_errors = not (" " + closed).count(" >&-"), "2>&-" not in closed
    answer = "a: a source, 5 options, no problem\n" if has_output else ""
    assert _run(tmp_path, "lint $CONFIG", closed) == (0, answer, "")

    code, output, errors = _run(tmp_path, "lint $CONFIG", closed, text="{}")
    assert (code, output) == (2, "")
    assert errors.startswith(f"{tmp_path}/a.json: The configuration has ") if has_errors else errors == ""


def test_no_configuration_from_an_input_that_is_closed(tmp_path: Path) -> None:
    """It is empty, as that of `</dev/null`."""
    code, _, errors = _run(tmp_path, "lint -", "<&-")
    assert code == 2
    assert errors.startswith("-: The configuration has a problem: the text is empty")


def test_a_wrong_configuration_is_one_though_nobody_can_be_told(tmp_path: Path) -> None:
    """Its exit code is what scripts see."""
    assert _run(tmp_path, "lint $CONFIG", "2>/dev/full", text="{}") == (2, "", "")


_FOREIGN = _GOOD.replace("}", ', "aws.s3.prefix": "зак/é😀/"}')
_SHOWN = {"utf-8": "'зак/é😀/'", "latin-1": r"'\u0437\u0430\u043a/é\ud83d\ude00/'"}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("command", ["explain $CONFIG x", "explain - x <$CONFIG"])
def test_a_configuration_is_utf_8_whatever_the_terminal_shows(
    tmp_path: Path, command: str, encoding: str
) -> None:
    """What the terminal cannot show is written as in JSON: it was a traceback."""
    code, output, errors = _run(tmp_path, command, "", _FOREIGN, encoding)
    assert (code, errors) == (0, "")
    assert f"does not begin with aws.s3.prefix {_SHOWN[encoding]}" in output

    code, output, _ = _run(tmp_path, f"{command} --json", "", _FOREIGN, encoding)
    assert (code, "зак/é😀/" in str(json.loads(output))) == (0, True)


def test_a_configuration_that_is_no_text_is_a_sentence_from_an_input_too(tmp_path: Path) -> None:
    """As a file's is."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\377")
    code, _, errors = _run(tmp_path, "lint -", f"<{broken}", encoding="latin-1")
    assert (code, errors) == (2, "The configuration file - is not UTF-8 text (byte 0). Save it as UTF-8.\n")
