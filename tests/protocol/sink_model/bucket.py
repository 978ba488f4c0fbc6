"""S3 as the protocol sees it: uploads that are invisible, completions, and what a HEAD tells."""

from headrace.model.sink_entries import (
    TIMES_GONE,
    CompletionAnswer,
    NameHolder,
    SealedObject,
    UploadAge,
    Verdict,
    holder_of,
    verdict_of,
)
from headrace.model.sink_entries import Upload as SealedUpload
from tests.protocol.sink_model.protections import Protections
from tests.protocol.sink_model.world import Bucket, Ledger, Record, Scenario, Upload, Visible


def started(bucket: Bucket, upload_id: str, name: str) -> Bucket:
    """With an upload of this id, which is also the object's; nothing is sent yet."""
    number = bucket.started + 1
    uploads = tuple(sorted((*bucket.uploads, Upload(upload_id, name, number, ()))))
    return bucket._replace(uploads=uploads, started=number)


def filled(bucket: Bucket, upload_id: str, records: tuple[Record, ...]) -> Bucket:
    """With all parts of the upload sent."""
    uploads = [one._replace(records=records) if one.id == upload_id else one for one in bucket.uploads]
    return bucket._replace(uploads=tuple(uploads))


def completed(
    scenario: Scenario, bucket: Bucket, sealed: SealedObject, ledger: Ledger
) -> tuple[Bucket, Verdict]:
    """The bucket after a try to complete the object, and what the answer comes to.

    Of several uploads the first that is not completed is: whoever tries dies perhaps before the next one.
    """
    uploads = sealed.uploads if scenario.on.main_upload_last else tuple(reversed(sealed.uploads))
    for place, each in enumerate(uploads):
        after, verdict = _completed_one(scenario, bucket, sealed, each, ledger)
        is_last = place == len(uploads) - 1
        if verdict is Verdict.COMPLETE and after is not bucket and not is_last:
            return after, Verdict.RETRY
        if verdict is not Verdict.COMPLETE or is_last:
            return after, verdict
    raise AssertionError("an entry has an upload")


def _completed_one(
    scenario: Scenario, bucket: Bucket, sealed: SealedObject, each: SealedUpload, ledger: Ledger
) -> tuple[Bucket, Verdict]:
    on = scenario.on
    upload = next((one for one in bucket.uploads if one.id == each.upload_id), None)
    holder = next((one for one in bucket.objects if one.name == each.key), None)
    if upload is None:
        return bucket, _verdict(bucket, sealed, CompletionAnswer.NO_SUCH_UPLOAD, holder, ledger, on)
    if holder is not None and on.if_none_match and not sealed.overwrites:
        return bucket, _verdict(bucket, sealed, CompletionAnswer.NAME_TAKEN, holder, ledger, on)
    objects = [one for one in bucket.objects if one is not holder]
    wins = holder is None or not sealed.overwrites or scenario.last_completion_wins
    wins = wins or (holder is not None and holder.started < upload.started)
    made = Visible(upload.name, sealed.id, upload.started, upload.records)
    objects.append(made if wins or holder is None else holder)
    after = bucket._replace(
        uploads=tuple(one for one in bucket.uploads if one is not upload),
        objects=tuple(sorted(objects)),
        # What stands beside is no record of its own.
        received=tuple(sorted((*bucket.received, *(() if each.role else upload.records)))),
    )
    return after, Verdict.COMPLETE


def _verdict(
    bucket: Bucket,
    sealed: SealedObject,
    answer: CompletionAnswer,
    holder: Visible | None,
    ledger: Ledger,
    on: Protections,
) -> Verdict:
    gone = answer is CompletionAnswer.NO_SUCH_UPLOAD
    if not on.head_compares_id:
        return Verdict.UPLOAD_GONE if gone else Verdict.NAME_TAKEN
    if gone and holder is None and not bucket.is_old and not on.young_was_completed:
        return Verdict.UPLOAD_GONE
    expiry = 1 if on.old_may_be_expired else None
    age = UploadAge(upload_ms=int(bucket.is_old), expiry_ms=expiry)
    return verdict_of(sealed, answer, _holder(sealed, holder, ledger), age, times_gone=TIMES_GONE)


def _holder(sealed: SealedObject, holder: Visible | None, ledger: Ledger) -> NameHolder:
    if holder is None:
        return NameHolder.NOBODY
    return holder_of(sealed, holder.id, ledger.object(holder.id))
