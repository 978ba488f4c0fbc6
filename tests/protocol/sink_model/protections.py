"""The sink's protections, each one a switch: all on is the protocol, one off is a mutation of it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """Which rules the actors keep; the numbers are the steps of `docs/protocol.md`."""

    # 11. The committed offset is the lowest first offset of an open object. Off: the position.
    offset_holds_for_open_objects: bool = True
    # A restart passes over what its group's entries cover. Off: it writes everything from the offset again.
    skip_by_group: bool = True
    # A group's objects are committed in offset order. Off: as their uploads end.
    group_in_offset_order: bool = True
    # Groups by a clock are committed all together. Off: each for itself, as those by the record are.
    clock_groups_together: bool = True
    # After a change of options, what was archived is known by the options of that time.
    earlier_options: bool = True

    # 12. Dead letters are listed in the checkpoint that their transaction commits.
    dead_letters_listed: bool = True
    # A listed record is passed over, even if it can be converted now.
    listed_is_passed_over: bool = True
    # A record that fails now, is covered perhaps and is not listed, stops the partition.
    replay_changed_stops: bool = True

    # 13, 14. Uploads are completed after the acknowledged commit. Off: before it.
    complete_after_commit: bool = True
    # The transaction has a `pending` entry for each object. Off: offsets only.
    pending_in_transaction: bool = True
    # Each transaction begins with the leader's group commit.
    group_commit: bool = True
    # The group's metadata is asked for before each begin, and a refusal keeps what is open.
    metadata_before_begin: bool = True
    # That question is answered once the topics are known to be the same since.
    topics_described_before_begin: bool = True

    # 10, 14. A lost slot is fenced before the ledger is read.
    fence: bool = True
    # A slot that is asked to end is waited for. Off: its partitions are granted while it closes.
    moved_after_release: bool = True
    # The leader completes what nobody holds.
    leader_completes: bool = True
    # And does so before it grants the partition again.
    completed_before_grant: bool = True
    # Completions of one name go in offset order.
    name_in_offset_order: bool = True
    # An upload of a recurring name is started after the completion before. Off: when the object is opened.
    upload_after_predecessor: bool = True
    # Entries are kept until the offset has passed them. Off: until they are complete.
    entries_until_passed: bool = True

    # An object's entry has the uploads of its side objects too. Off: that of the object alone.
    entry_has_all_uploads: bool = True
    # They are completed before it. Off: the object first.
    main_upload_last: bool = True

    # 15, 16. Completion carries IfNoneMatch=*.
    if_none_match: bool = True
    # `NoSuchUpload` is followed by a HEAD that compares the object's id. Off: the upload counts as gone.
    head_compares_id: bool = True
    # A young upload that is gone was completed. Off: it is made again.
    young_was_completed: bool = True
    # An old one is quarantined. Off: it counts as completed, as a young one.
    old_may_be_expired: bool = True
    # Somebody who knows decides whether a quarantined one is made again. Off: it always is.
    made_again_by_decision: bool = True

    # 9, 17. Entries carry the topic's id.
    entries_carry_topic_id: bool = True
    # The ledger wins over the group's committed offset.
    ledger_wins: bool = True
    # Where a partition begins is in the ledger before it is granted.
    start_in_ledger: bool = True


ALL = Protections()


def without(*names: str) -> Protections:
    """The protocol with these protections switched off."""
    return replace(ALL, **dict.fromkeys(names, False))
