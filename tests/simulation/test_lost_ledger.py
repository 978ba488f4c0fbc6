"""A ledger whose end brokers have lost, in virtual time."""

import subprocess
import sys


def test_a_copy_of_lost_records_is_thrown_away() -> None:
    """`tests.simulation.lost_ledger`.

    Mutation tried: assigned without the epoch, what another machine has read is read again.
    """
    command = [sys.executable, "-m", "tests.simulation.lost_ledger"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lost_ledger_begins_with_what_is_marked() -> None:
    """`tests.simulation.lost_ledger marked`: the documented way out, which `mark` itself refused.

    Mutations tried: without the acceptance of `submit`, the lead over the new ledger is refused; claimed
    by the takeover, it is begun without what a killed `mark` had not marked.
    """
    command = [sys.executable, "-m", "tests.simulation.lost_ledger", "marked"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
