"""A configuration file on the shared parts, and the commands of an operator run on it in this process."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
import typer
from typer.testing import CliRunner, Result

from ingest.cli.check import check
from ingest.cli.plan import plan
from ingest.cli.replay_and_mark import mark, replay
from ingest.cli.setup import setup
from ingest.cli.status import status
from tests.support import aws, kafka

_COMMANDS: tuple[Callable[..., None], ...] = (check, mark, plan, replay, setup, status)


@dataclass(slots=True, kw_only=True)
class Scene:
    """An ingester of its own: `options` go into its configuration, None leaves one out."""

    folder: Path
    name: str
    bucket: str
    topic: str
    options: dict[str, object] = field(default_factory=dict)

    @property
    def ledger(self) -> str:
        """The ledger's topic."""
        return f"{self.name}-offsets"

    @property
    def file(self) -> Path:
        """The configuration as it is now, written."""
        given: dict[str, object] = {
            "name": self.name,
            "bootstrap.servers": kafka.address(),
            "aws.s3.endpoint": aws.address(),
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "topic": self.topic,
            "file.name.template": ".*",
            "input.format": "jsonl",
            "state.dir": str(self.folder / "state"),
            "http.listen": "",
            **self.options,
        }
        file = self.folder / f"{self.name}.json"
        file.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))
        return file

    def put(self, key: str, body: bytes = b'{"a":1}\n', **more: Any) -> None:
        """Upload an object."""
        aws.s3().put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def run(self, command: str, *arguments: str, code: int = 0) -> str:
        """What the command prints to stdout; AssertionError unless it ends with this code."""
        result = self.result(command, *arguments)
        assert result.exit_code == code, (result.exit_code, result.output, result.exception)
        return result.stdout

    def asked(self, command: str, *arguments: str, code: int = 0) -> Any:
        """The JSON that the command prints."""
        return json.loads(self.run(command, *arguments, "--json", code=code))

    def result(self, command: str, *arguments: str) -> Result:
        """Run the command to its end."""
        app = typer.Typer(pretty_exceptions_enable=False)
        for one in _COMMANDS:
            app.command()(one)
        handlers = logging.getLogger().handlers[:]
        try:
            return CliRunner().invoke(app, [command, str(self.file), *arguments])
        finally:
            # The command has pointed the logs at the runner's stderr, which is closed by now.
            structlog.reset_defaults()
            logging.getLogger().handlers[:] = handlers
