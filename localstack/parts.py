"""The real parts on this machine: LocalStack and a Kafka broker, fetched, started, looked at, stopped.

Run by path from anywhere: `python localstack/parts.py up`. The parts outlive this script.
"""

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
if not __package__:
    # Run by path, Python looks for modules beside this file; ours are named from the tree's top.
    sys.path[0] = str(_ROOT)

from localstack import jars  # noqa: E402 - the line above has to come first
from localstack.broker import Broker  # noqa: E402 - as above
from localstack.class_archive import make_class_archive  # noqa: E402 - as above
from localstack.daemon import Daemon  # noqa: E402 - as above
from localstack.descendants import ended_by_signals, run_to_its_end  # noqa: E402 - as above
from localstack.emulator import Emulator  # noqa: E402 - as above
from localstack.ports import free_port  # noqa: E402 - as above
from localstack.steps import PartError, full_disk, say  # noqa: E402 - as above

CACHE = _ROOT / ".cache"
JAR_FOLDER = CACHE / "kafka-jars"
EMULATOR_VENV = CACHE / "localstack-venv"
KAFKA_PORT = 9092
LOCALSTACK_PORT = 4566


class Parts:
    """Both parts with their state in one folder; the broker of those that are `lasting` is for much load."""

    def __init__(self, *, state: Path, kafka_port: int, localstack_port: int, lasting: bool = False) -> None:
        self._state = state
        self.broker = Broker(folder=state / "kafka", jar_folder=JAR_FOLDER, port=kafka_port, lasting=lasting)
        self.emulator = Emulator(folder=state / "localstack", venv=EMULATOR_VENV, port=localstack_port)

    def up(self, *, keep: bool) -> None:
        """Start what is not running; a broker begins empty unless `keep`, as LocalStack always does.

        Both are fetched and started side by side: they wait for a network and for a disk.
        """
        with self._one_at_a_time(), ThreadPoolExecutor() as pool:
            if self.broker.daemon.pid is None and not keep:
                self.broker.wipe()
            for started in [pool.submit(part.start) for part in (self.broker, self.emulator)]:
                started.result()

    def down(self) -> None:
        """Stop what runs and was started from this state folder; nothing else is touched."""
        both = (self.emulator, self.broker)
        with self._one_at_a_time(), ThreadPoolExecutor() as pool:
            running = [part for part in both if part.daemon.pid is not None]
            for part in both:
                if part not in running:
                    say(part.daemon.name, "not running")
            for stopped in [pool.submit(part.stop) for part in running]:
                stopped.result()

    def discard(self) -> None:
        """End what runs at once: parts whose data is thrown away need not be left in order."""
        with self._one_at_a_time():
            for part in (self.emulator, self.broker):
                part.daemon.kill()

    def status(self) -> bool:
        """Print where each part is; True when both run."""
        for part, address in ((self.broker, self.broker.bootstrap), (self.emulator, self.emulator.endpoint)):
            pid = part.daemon.pid
            say(
                part.daemon.name,
                f"not running, see {part.daemon.log}" if pid is None else f"{address} (pid {pid})",
            )
        return self.broker.daemon.pid is not None and self.emulator.daemon.pid is not None

    def run(self, command: Sequence[str]) -> int:
        """The exit code of `command`, run while both parts are up; parts that ran before go on afterwards.

        Of what it starts nothing is left, also where a signal ends it, or this process.
        """
        both = (self.broker, self.emulator)
        found = {part.daemon.pid for part in both}
        with ended_by_signals():
            try:
                self.up(keep=False)
                addresses = {
                    "HEADRACE_TEST_KAFKA": self.broker.bootstrap,
                    "HEADRACE_TEST_S3": self.emulator.endpoint,
                }
                argv = ["env", *(f"{name}={value}" for name, value in addresses.items()), *command]
                return run_to_its_end(
                    argv, spared=lambda: [pid for part in both if (pid := part.daemon.pid) is not None]
                )
            finally:
                for part in reversed(both):
                    if part.daemon.pid not in found:
                        part.stop()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Let two calls for one state folder not start the same part twice."""
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka-port", type=int, help=f"default {KAFKA_PORT}; the controller takes the next")
    parser.add_argument("--localstack-port", type=int, help=f"default {LOCALSTACK_PORT}")
    parser.add_argument(
        "--state", type=Path, default=CACHE / "parts", help="pid files, logs and data of this instance"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("fetch", help="bring what has to be downloaded, start nothing")
    verbs.add_parser("archive", help="bring Kafka and archive its classes: brokers start in half the CPU")
    up = verbs.add_parser("up", help="start both and wait until they answer; does nothing when they run")
    up.add_argument("--keep", action="store_true", help="start the broker with the data of its last run")
    verbs.add_parser("down", help="stop what `up` started")
    verbs.add_parser("status", help="where they are; exit 1 when one does not run")
    run = verbs.add_parser("run", help="run a command with both up (where they are, or on free ports)")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after `--`; its exit code is ours")
    return parser.parse_args(argv)


def _port(asked: int | None, daemon: Daemon, default: int) -> int:
    """The port that was asked for, or else the one the part runs at, or else the default."""
    if asked is not None:
        return asked
    return default if daemon.address is None else int(daemon.address.rpartition(":")[2])


def _parts(asked: argparse.Namespace) -> Parts:
    # What only `run` needs is told to nobody else, so that it can be anywhere.
    is_private = asked.verb == "run"
    return Parts(
        state=asked.state,
        kafka_port=_port(
            asked.kafka_port,
            Daemon("kafka", asked.state / "kafka"),
            free_port() if is_private else KAFKA_PORT,
        ),
        localstack_port=_port(
            asked.localstack_port,
            Daemon("localstack", asked.state / "localstack"),
            free_port() if is_private else LOCALSTACK_PORT,
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; 0 when done, 1 with one sentence on stderr when not."""
    asked = _arguments(argv)
    try:
        parts = _parts(asked)
        match asked.verb:
            case "status":
                return 0 if parts.status() else 1
            case "run":
                return parts.run(asked.command)
            case "fetch":
                jars.fetch(JAR_FOLDER)
                parts.emulator.fetch()
            case "archive":
                make_class_archive(JAR_FOLDER)
            case "up":
                parts.up(keep=asked.keep)
            case "down":
                parts.down()
    except PartError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(full_disk(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
