"""The protections of the design, each one a switch: all on is the protocol, one off is a mutation of it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """Which rules the actors keep. Numbers are those of the protocol's steps in `docs/decisions/0020`."""

    # 2. Every transaction carries an offset commit with the metadata of the driver that gave the work.
    offset_commit: bool = True
    # It comes right after begin, before the first record. Off: it comes last, just before the commit.
    offset_commit_first: bool = True
    # Metadata is taken inside the assignment callback. Off: it is whatever the client is at that moment.
    metadata_under_assignment: bool = True
    # Metadata without a member id is no metadata. Off: it is used, and the broker accepts it unchecked.
    metadata_names_a_member: bool = True

    # 3. A plan is void before its slot is fenced. Off: it is void once the ledger has been read.
    void_before_fence: bool = True
    # Before reading, the transactional ids are initialised by the driver.
    fence: bool = True
    # On taking the lead, for every slot that was ever used. Off: for the slots of this configuration.
    fence_all_slots_ever_used: bool = True
    # The number of slots is in the ledger before the first task of a new slot.
    slot_count_before_first_task: bool = True
    # That number is read uncommitted. Off: read-committed, up to the first open transaction.
    slot_count_read_uncommitted: bool = True
    # A larger number in the final read means to fence again.
    fence_again_on_larger_count: bool = True
    # The end to read to is the uncommitted one. Off: what a read-committed consumer takes for the end.
    end_is_uncommitted: bool = True
    # It is asked for after the fences. Off: before them.
    end_after_fence: bool = True

    # 4. The driver says yes once for each plan number.
    grant_once: bool = True
    # A task initialises its producer, then asks for its plan. Off: it asks first.
    initialise_before_grant: bool = True
    # A task that was fenced ends. Off: it initialises again and goes on.
    never_initialise_again: bool = True

    # 5. Spark does not run a failed task again.
    no_spark_retries: bool = True

    # 6. The driver writes through its transactional producer, with metadata. Off: through a plain producer.
    driver_writes_in_transactions: bool = True
    # No driver write names an object that a live plan holds.
    driver_spares_live_plans: bool = True
    # `replay` writes the state `new`, which keeps the position. Off: a tombstone.
    replay_writes_new: bool = True
    # The cuts of a split object are committed before a slice is planned.
    cuts_first: bool = True
    # `done` and the slices' tombstones are one transaction. Off: the tombstones, then `done`.
    done_with_tombstones: bool = True

    # 7. A commit without an answer is repeated or reported as unknown. Off: aborted, and its rows sent again.
    unanswered_commit_is_unknown: bool = True
    # So is an abort without an answer. Off: the batch is reported as cleanly aborted.
    unanswered_abort_is_unknown: bool = True
    # After anything but a clean report the ledger is read. Off: the driver goes by the reports it has.
    ledger_is_the_truth: bool = True
    # A message is deleted after an acknowledged commit. Off: when the producer has the records.
    settle_after_commit: bool = True
    # What the driver knows of a key is never replaced by something older that it reads.
    newest_wins: bool = True

    # 2. A process that leads again answers the tasks of that leadership only. Off: those of its last one too.
    leads_again_with_new_sockets: bool = True

    # A worker uses its old producer only if it was the slot's last holder.
    only_last_holder: bool = True

    # The cache's rows and its position are written together.
    cache_rows_with_position: bool = True
    # The cache holds what was read. Off: results of tasks too, and the position after them.
    cache_holds_only_reads: bool = True

    # 4, without a socket: the driver's membership is renewed before each fence.
    rotate_before_fence: bool = True
    # And a task reads the ledger after its init and drops objects whose entry has moved.
    task_reads_the_ledger: bool = True
    # And what a clean report gives back untouched is planned again only after a rotation, a fence and a read.
    given_back_is_not_clean: bool = True


ALL = Protections()


def without(*names: str) -> Protections:
    """The protocol with these protections switched off."""
    return replace(ALL, **dict.fromkeys(names, False))
