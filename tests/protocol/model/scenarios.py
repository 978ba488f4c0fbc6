"""Small worlds, each about one part of the protocol, and one with all of it.

Small on purpose: what goes wrong in a protocol goes wrong with two of a thing or three, and of these all
interleavings can be looked at.
"""

from dataclasses import replace

from tests.protocol.model.broker import Entry
from tests.protocol.model.world import QUARANTINED, SLOT_COUNT, Budget, Scenario
from tests.protocol.model.writes import replay_key

# A second driver takes the lead while a task of the first is anywhere between two checkpoints of one object.
TAKEOVER = Scenario(sizes={"a": 2}, leaders=(1, 1))

# The same, by a process that was started again and comes with the instance id of the first.
RESTARTED = replace(TAKEOVER, returns=True)

# The same, and the deposed driver does not notice and plans once more.
OLD_PLANS = Scenario(sizes={"a": 2}, leaders=(1, 1), budget=Budget(old_plans=1))

# The same in one process, which leads again; Spark runs a plan of its first leadership twice.
LEADS_AGAIN = Scenario(sizes={"a": 2}, leaders=(1, 1), same_process=True, budget=Budget(twins=1))

# And in one process with one instance id.
RETURNS = replace(LEADS_AGAIN, returns=True)

# One row only, but commits that are not answered, and reports that do not arrive.
UNANSWERED = Scenario(sizes={"a": 1}, leaders=(1, 1), budget=Budget(lost_answers=1, lost_reports=1))

# The same with a commit request that never arrived.
UNARRIVED = Scenario(sizes={"a": 1}, leaders=(1, 1), budget=Budget(lost_requests=1, expiries=1))

# The group's generations: the first driver's client comes back and waits, a standby joins.
GENERATIONS = Scenario(sizes={"a": 1}, leaders=(1, 1), budget=Budget(joins=1))

# One driver that takes a living task for lost, with another slot free for its work.
LATE_TASK = Scenario(sizes={"a": 2}, leaders=(2,), budget=Budget(suspicions=1, retries=1, give_backs=1))

# Commits that are not answered, and a process that was started again.
RESTARTED_UNANSWERED = replace(UNANSWERED, returns=True)

# Spark runs a plan twice, attempt 0 both times.
TWICE = Scenario(sizes={"a": 1}, leaders=(1,), budget=Budget(twins=1, suspicions=1))

# Spark is made to run failed tasks again; no plan is run twice otherwise.
RETRIED = Scenario(sizes={"a": 2}, leaders=(1,), budget=Budget(retries=1, lost_answers=1, kills=1))

# A neighbour's open transaction lies in the ledger below the commit of a task that was taken for lost.
NEIGHBOURS = Scenario(sizes={"a": 1, "b": 1}, leaders=(2,), budget=Budget(suspicions=1))

# Two slots under the first driver, one under the second; markers are written some time after the commit.
FEWER_SLOTS = Scenario(sizes={"a": 1}, leaders=(2, 1), late_markers=True)

# The second driver has two slots, the first had one.
MORE_SLOTS = Scenario(sizes={"a": 1}, leaders=(1, 2))

# Two objects in one transaction, the ledger compacted at any time, an object announced once more.
TOGETHER = Scenario(
    sizes={"a": 1, "b": 2},
    leaders=(1, 1),
    rows_per_commit=2,
    objects_per_plan=2,
    budget=Budget(announcements=1, compactions=1),
)

# An object that fails before its second row and is tried again by itself, while somebody asks for its replay.
REPLAY = Scenario(
    sizes={"a": 2},
    leaders=(1,),
    stumbles={"a": (1, "failed")},
    budget=Budget(replays=1, lost_answers=1),
    tails=True,
)

# A quarantined one, whose replay was asked for; two drivers see the command.
REPLAY_TAKEOVER = Scenario(
    sizes={"a": 1},
    leaders=(1, 1),
    stumbles={"a": (0, "quarantined")},
    ledger=(
        ("a", Entry(QUARANTINED, 0)),
        (replay_key("a"), Entry("control", 0)),
        (SLOT_COUNT, Entry("control", 1)),
    ),
    tails=True,
)

# An object in two slices, the second driver would not have cut it.
SLICES = Scenario(sizes={"a": 2}, leaders=(2, 1), cuts={"a": 1})

# Workers keep their producers, a slot's next plan may run on either of two workers.
KEPT_PRODUCERS = Scenario(
    sizes={"a": 1, "b": 1, "c": 1}, leaders=(1,), workers=2, keeps_producers=True, budget=Budget(suspicions=1)
)

# The second driver starts from the cache of the first.
CACHE = Scenario(sizes={"a": 1}, leaders=(1, 1), cache=True, budget=Budget(cache_saves=1, lost_reports=1))

# And that cache was written while a neighbour's transaction was open.
CACHE_OF_TWO = Scenario(sizes={"a": 1, "b": 1}, leaders=(2, 1), cache=True)

# The driver reads on in the ledger while reports come in.
READING_ON = Scenario(
    sizes={"a": 2, "b": 1}, leaders=(2,), tails=True, budget=Budget(give_backs=1), late_markers=True
)

# No socket: membership renewed before each fence; a task may be taken for lost.
SOCKETLESS = Scenario(sizes={"a": 1}, leaders=(2,), socketless=True, budget=Budget(suspicions=1))

# No socket: a plan runs twice, work is given back; tasks look at the ledger before they begin.
SOCKETLESS_TWICE = Scenario(
    sizes={"a": 1}, leaders=(2,), socketless=True, budget=Budget(twins=1, give_backs=1)
)

ALL_SMALL = {
    "takeover": TAKEOVER,
    "restarted": RESTARTED,
    "restarted, unanswered": RESTARTED_UNANSWERED,
    "returns": RETURNS,
    "old plans": OLD_PLANS,
    "leads again": LEADS_AGAIN,
    "unanswered": UNANSWERED,
    "unarrived": UNARRIVED,
    "generations": GENERATIONS,
    "late task": LATE_TASK,
    "twice": TWICE,
    "retried": RETRIED,
    "neighbours": NEIGHBOURS,
    "fewer slots": FEWER_SLOTS,
    "more slots": MORE_SLOTS,
    "together": TOGETHER,
    "replay": REPLAY,
    "replay and takeover": REPLAY_TAKEOVER,
    "slices": SLICES,
    "kept producers": KEPT_PRODUCERS,
    "cache": CACHE,
    "cache of two": CACHE_OF_TWO,
    "reading on": READING_ON,
    "socketless": SOCKETLESS,
    "socketless, twice": SOCKETLESS_TWICE,
}

# All of it at once; too much to look at every world, so it is walked through at random.
EVERYTHING = Scenario(
    sizes={"a": 3, "b": 1, "c": 2, "d": 2},
    leaders=(2, 3, 1),
    rows_per_commit=2,
    objects_per_plan=2,
    stumbles={"a": (1, "failed"), "d": (1, "quarantined")},
    cuts={"c": 1},
    workers=4,
    keeps_producers=True,
    late_markers=True,
    tails=True,
    cache=True,
    budget=Budget(
        suspicions=2,
        twins=2,
        kills=2,
        lost_answers=2,
        lost_requests=1,
        lost_reports=2,
        expiries=2,
        joins=2,
        announcements=2,
        replays=2,
        give_backs=2,
        compactions=2,
        old_plans=2,
    ),
)
