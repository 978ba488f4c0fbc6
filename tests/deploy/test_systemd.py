"""The units of systemd: what they start is a command, which is stopped and started again as it has to be."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from ingest.cli.app import app

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
FOR_GOOD = ["headrace-worker.service", "headrace@.service"]


def _unit(name: str) -> configparser.ConfigParser:
    """The sections of a unit."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    unit.read(UNITS / name)
    return unit


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_time_to_stop_and_a_worker_may_die_alone(name: str) -> None:
    """A clean stop takes up to 30 s, and the driver ends its own processes."""
    service = _unit(name)["Service"]

    assert int(service["TimeoutStopSec"]) >= 30
    assert service["KillMode"] == "mixed"
    assert service["OOMPolicy"] == "continue"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_writes_to_its_state_alone(name: str) -> None:
    """Where the user's home is, so that credentials of AWS there are read though /home is hidden."""
    service = _unit(name)["Service"]

    assert service["ProtectSystem"] == "strict"
    assert service["Environment"] == f"XDG_STATE_HOME=/var/lib/{service['StateDirectory']}"
    assert service["EnvironmentFile"].startswith("-/etc/headrace/")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_starts_a_command_that_there_is(name: str) -> None:
    """With options that it takes."""
    program, verb, file, *options = shlex.split(_unit(name)["Service"]["ExecStart"])
    group: Any = get_command(app)
    with typer.Context(group) as context:
        command = group.get_command(context, verb)

    assert program == "/opt/headrace/bin/headrace"
    assert Path(file).parent == Path("/etc/headrace")
    assert set(options) <= {name for option in command.params for name in option.opts}


@pytest.mark.parametrize("name", FOR_GOOD)
def test_a_service_is_started_again_but_for_a_wrong_configuration(name: str) -> None:
    """That one stays wrong."""
    service = _unit(name)["Service"]

    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == "2"


def test_a_worker_has_room_for_hundreds_of_connectors() -> None:
    """Defaults of systemd are enough for some thirty, or for a hundred on a small machine."""
    service = _unit("headrace-worker.service")["Service"]

    assert int(service["LimitNOFILE"]) >= 500 * 30
    assert int(service["TasksMax"]) >= 500 * 22


def test_a_timer_starts_what_ends_by_itself() -> None:
    """However long it takes: only a service that has ended is started by a timer."""
    service = _unit("headrace-until-idle@.service")["Service"]
    timer = _unit("headrace-until-idle@.timer")

    assert service["Type"] == "oneshot"
    assert service["TimeoutStartSec"] == "infinity"
    assert service["ExecStart"].endswith(" --until-idle")
    assert "Restart" not in service
    assert "Unit" not in timer["Timer"]
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.iterdir()))
def test_systemd_itself_takes_the_unit(tmp_path: Path, name: str) -> None:
    """Where it is installed; a misspelt setting is said."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on PATH: the units were NOT read by systemd itself")
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/opt/headrace/bin/headrace", "/bin/true")
        (tmp_path / unit.name.replace("@", "@orders")).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / name.replace("@", "@orders"))],
        capture_output=True,
        text=True,
        check=False,
    )

    # Units of the machine's own are read with it.
    assert str(tmp_path) not in done.stderr
