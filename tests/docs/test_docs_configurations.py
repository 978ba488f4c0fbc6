"""Every configuration and every shell line of the pages is one that Headrace, or a shell, takes.

Nothing is run here, so this is in every `make test`; `test_docs_run.py` runs the commands against real parts.
"""

import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from headrace.vendors.load import load
from ingest.connect.worker_settings import read_worker
from tests.docs.pages import PAGES, Block, blocks, commands
from tests.docs.walk import NOT_RUN, RUN_BY_MAKE

# JSON that is no configuration, by page, and what it is; where commands print it, tests/ingest/cli holds it.
NOT_A_CONFIGURATION: Final[Mapping[str, str]] = {
    "commands.md": "what commands print",
    "formats.md": "a row of an object",
    "layouts.md": "a row of an object",
    "rest.md": "an answer of the REST interface",
    "security.md": "an IAM policy",
}
SHELLS: Final = ("sh", "bash", "shell", "console")
# What a fragment of options leaves out.
SOURCE: Final = {
    "name": "orders",
    "bootstrap.servers": "localhost:9092",
    "aws.s3.bucket.name": "my-bucket",
    "topic": "orders",
    "file.name.template": ".*",
}
SINK: Final = {name: SOURCE[name] for name in ("name", "bootstrap.servers", "aws.s3.bucket.name")}

ALL: Final = [block for page in PAGES for block in blocks(page)]
CONFIGURATIONS: Final = [
    block
    for block in ALL
    if (block.language == "json" or (not block.language and block.text.startswith("{")))
    and block.page.name not in NOT_A_CONFIGURATION
]
WORKERS: Final = [block for block in ALL if block.language == "properties"]


def named(block: Block) -> str:
    """As pytest names it."""
    return f"{block.page.name}:{block.line}"


def completed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with what a fragment leaves out; a whole configuration stays as it is."""
    if "bootstrap.servers" in options:
        return dict(options)
    is_sink = any(name in options for name in ("topics", "topics.regex"))
    return {**(SINK if is_sink else SOURCE), **options}


def no_file(path: str) -> str:
    """The pages name no files that a test could have."""
    raise FileNotFoundError(path)


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=named)
def test_a_configuration_has_no_problem(block: Block) -> None:
    """As `headrace lint` reads it, and without a warning of an option that has no meaning."""
    settings = load(
        json.dumps(completed(json.loads(block.text))), kind="json", environment={}, read_file=no_file
    )

    assert not [warning for warning in settings.warnings if "without a meaning" in warning], block


@pytest.mark.parametrize("block", WORKERS, ids=named)
def test_a_workers_file_has_no_problem(block: Block) -> None:
    """As `headrace worker` reads it."""
    assert read_worker(block.text, is_json=False, environment={}, read_file=no_file).group


def test_the_pages_have_configurations_of_every_kind() -> None:
    """So that the tests above do not pass for want of any: source, sink, restore and worker."""
    options = [json.loads(block.text) for block in CONFIGURATIONS]

    assert any("sqs.queue.url" in one for one in options)
    assert any("topics" in one for one in options)
    assert any("input.layout" in one for one in options)
    assert WORKERS


@pytest.mark.parametrize("page", NOT_A_CONFIGURATION)
def test_an_exception_is_there_for_something(page: str) -> None:
    """A page without any JSON needs none."""
    assert any(block.page.name == page and "{" in block.text for block in ALL)


@pytest.mark.parametrize("block", [block for block in ALL if block.language in SHELLS], ids=named)
def test_a_block_for_a_shell_is_commands_that_the_pages_tests_know(block: Block) -> None:
    """A line that they do not see is a command that nobody has tried; bash reads the whole."""
    read = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    seen = {found.line for found in commands(block.page)}

    assert not read.stderr
    assert [line for line in _first_lines(block) if line not in seen] == []


def _first_lines(block: Block) -> Iterator[int]:
    """The lines, as `commands` counts them, at which commands begin: quotes and backslashes run on."""
    open_text = ""
    for number, line in enumerate(block.lines):
        if not open_text and line.strip() and not line.lstrip().startswith("#"):
            yield block.line + number
        open_text += f"{line}\n"
        try:
            shlex.split(open_text, comments=True)
        except ValueError:
            continue
        if not line.endswith("\\"):
            open_text = ""


def test_each_command_is_run_or_has_its_reason() -> None:
    """Of `make`: all else is run, or is in the table."""
    found = [one.text for page in PAGES for one in commands(page)]
    made = [text for text in found if text.startswith("make ")]

    assert not [text for text in made if not text.startswith((*NOT_RUN, *RUN_BY_MAKE))]
