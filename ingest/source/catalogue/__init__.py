"""What is known of each object: which are new, which are on their way, which have come to their end.

The service's thread owns one `Catalogue` and one `ingest.source.planner.Planner` over it, and tells them what
happens. Nothing here blocks, starts a thread or reads a clock. Every call answers with `Effects`, and one
function of the service carries all of them out:

    def carry_out(effects):
        delete(effects.settled); leave(effects.abandoned); request(effects.heads); log(effects.warnings)
        if effects.writes:                                  # one Effects, one driver transaction
            commit(effects.writes)                          # returns after the acknowledged commit
            carry_out(catalogue.on_written(effects.writes, now()))

On taking the lead, after void, fence and read:

    catalogue = Catalogue(view=cache, filters={bucket: ObjectFilter(..)})
    planner = Planner(catalogue, limits=BatchLimits(slots=..), backoff=Backoff(..))
    carry_out(catalogue.resume(now()))                   # partial, failed and new become pending

Then, for each thing in the inbox:

    a message           carry_out(catalogue.on_message(message_id, events, now()))
    a HEAD's answer     carry_out(catalogue.on_head_answer(token, found, now()))
    a listing's page    carry_out(catalogue.on_listing_page(ListingPage(..), now()))
    whether to start one  planner.ready(now()) > 0
    a free slot         works = planner.next_batch(slot, plan, now(), idle_slots=n)
    Committed           carry_out(planner.on_committed(plan, checkpoints))
    Finished            carry_out(planner.on_finished(plan, finished, now()))
    a slot lost         planner.on_lost(plan); void, fence, read, catalogue.on_ledger_record(..) of it all;
                        carry_out(planner.on_recovered(slot, now(), worker_died=..))
    a record read back  catalogue.on_ledger_record(key, entry)
    a command           carry_out(catalogue.apply_command(Replay(..), objects, now()))
    every turn          carry_out(planner.tick(now()))

Rules that hold throughout: a message is settled only by what an acknowledged commit, or a ledger read
after a fence, has said of all its objects; a plan that ended FENCED or UNKNOWN is a lost one; no driver write
names an object that a live plan holds; an object whose driver write is under way is not planned; versions of
one key go one after the other. `catalogue.wants_listing` says whether to ask for more pages.
"""

from headrace.model.objects import ListingPage
from ingest.source.catalogue.catalogue import Catalogue
from ingest.source.catalogue.effects import Effects, FinishedObject, HeadRequest, LedgerWrite
from ingest.source.catalogue.ledger_view import LedgerView
from ingest.source.catalogue.listing_merge import Baseline, ExclusionReason, ObjectFilter, Unread
from ingest.source.catalogue.object_commands import Mark, ObjectCommand, Replay, Selection

__all__ = [
    "Baseline",
    "Catalogue",
    "Effects",
    "ExclusionReason",
    "FinishedObject",
    "HeadRequest",
    "LedgerView",
    "LedgerWrite",
    "ListingPage",
    "Mark",
    "ObjectCommand",
    "ObjectFilter",
    "Replay",
    "Selection",
    "Unread",
]
