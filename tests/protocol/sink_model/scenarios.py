"""Small worlds, each about one part of the sink's protocol, of which all interleavings are looked at."""

from tests.protocol.sink_model.world import BAD, Budget, Scenario

# Two groups, a slot that is killed or taken for lost at any moment.
LOST_SLOT = Scenario(records="ab", budget=Budget(suspicions=1))

# The same records, another leader, answers that are lost.
TAKEOVER = Scenario(records="a", options="11", budget=Budget(lost_answers=1))

# One group and objects of one record, whose uploads end in any order.
SLOW_UPLOADS = Scenario(records="aa", rotate=1, slow_uploads=True, budget=Budget(kills=1))

# Three records in two groups, so that a group is committed while another is open.
REPLAY = Scenario(records="aba", budget=Budget(kills=1))

# Groups by a clock that goes on.
CLOCK = Scenario(records="aa", options="c", budget=Budget(kills=1, clocks=1))

# A record that cannot be converted, above one that can.
DEAD_LETTER = Scenario(records=f"a{BAD}", budget=Budget(kills=1))

# The registry changes around a crash.
CHANGED = Scenario(records=f"a{BAD}", budget=Budget(kills=1, changes=1))
CHANGED_OBJECT = Scenario(records="ab", budget=Budget(kills=1, changes=1))

# The partition moves between two slots, one of which may be slow.
MOVED = Scenario(records="a", slots=2, budget=Budget(moves=1))
MOVED_LOST = Scenario(records="a", slots=2, budget=Budget(moves=1, suspicions=1))

# A standby joins the group at any moment.
STANDBY = Scenario(records="ab", budget=Budget(joins=1))

# The topic is deleted and made again.
MADE_AGAIN = Scenario(records="aa", rotate=1, budget=Budget(remakes=1))
MADE_AGAIN_OPEN = Scenario(records="aa", budget=Budget(remakes=1))
MADE_AGAIN_LOST = Scenario(records="ab", budget=Budget(remakes=1, kills=1))

# Names that recur, uploads that are completed late by a zombie or the leader.
RECURRING = Scenario(records="aa", options="k", rotate=1, budget=Budget(suspicions=1))
RECURRING_LATE = Scenario(records="aa", options="k", rotate=1, budget=Budget(kills=1))
RECURRING_ELSEWHERE = Scenario(
    records="aa", options="k", rotate=1, last_completion_wins=True, budget=Budget(kills=1)
)

# The bucket's rule ends uploads; a consumer takes objects away.
LOST_UPLOAD = Scenario(records="a", budget=Budget(kills=1, weeks=1))
TAKEN_AWAY = Scenario(records="a", budget=Budget(lost_answers=1, kills=1, takings=1))
TAKEN_OR_LOST = Scenario(records="a", budget=Budget(lost_answers=1, kills=1, takings=1, weeks=1))

# Each object has a side object; whoever completes them dies in between, answers are lost.
BESIDE = Scenario(records="aa", rotate=1, beside=True, budget=Budget(kills=1))
BESIDE_TAKEOVER = Scenario(records="a", options="11", beside=True, budget=Budget(lost_answers=1))
BESIDE_LOST = Scenario(records="a", beside=True, budget=Budget(kills=1, weeks=1))
BESIDE_TAKEN = Scenario(records="a", beside=True, budget=Budget(lost_answers=1, kills=1, takings=1))

# Other options after a takeover; and by the record again after another one.
OPTIONS = Scenario(records="ab", options="12")
OPTIONS_TWICE = Scenario(records="ab", options="121", no_zombies=True)
OPTIONS_OF_THREE = Scenario(records="aba", options="121", no_zombies=True)

# Records that come after the first start; the group's offset expires.
LATEST = Scenario(records="aa", latest=True, options="11", budget=Budget(produced=1))
EXPIRED = Scenario(records="aa", budget=Budget(expiries=1, kills=1))

ALL_SMALL = {
    "lost slot": LOST_SLOT,
    "takeover": TAKEOVER,
    "slow uploads": SLOW_UPLOADS,
    "replay": REPLAY,
    "clock": CLOCK,
    "dead letter": DEAD_LETTER,
    "changed": CHANGED,
    "changed object": CHANGED_OBJECT,
    "moved": MOVED,
    "moved, lost": MOVED_LOST,
    "standby": STANDBY,
    "made again": MADE_AGAIN,
    "made again, open": MADE_AGAIN_OPEN,
    "made again, lost": MADE_AGAIN_LOST,
    "recurring": RECURRING,
    "recurring, late": RECURRING_LATE,
    "recurring, elsewhere": RECURRING_ELSEWHERE,
    "lost upload": LOST_UPLOAD,
    "taken away": TAKEN_AWAY,
    "taken or lost": TAKEN_OR_LOST,
    "beside": BESIDE,
    "beside, takeover": BESIDE_TAKEOVER,
    "beside, lost": BESIDE_LOST,
    "beside, taken": BESIDE_TAKEN,
    "options": OPTIONS,
    "options twice": OPTIONS_TWICE,
    "options of three": OPTIONS_OF_THREE,
    "latest": LATEST,
    "expired": EXPIRED,
}

# All of it at once; walked through at random.
EVERYTHING = Scenario(
    records=f"abaa{BAD}ba",
    options="1211",
    slots=2,
    slow_uploads=True,
    budget=Budget(
        kills=2,
        suspicions=2,
        moves=2,
        lost_answers=2,
        joins=1,
        expiries=1,
        produced=2,
    ),
)
