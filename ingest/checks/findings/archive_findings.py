"""Findings about an archive: whose it is, what will not come back, whether `input.format` reads it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.formats.content_kind import Content
from headrace.model.text_formatting import counted, printable
from headrace.names.archive_names import LayoutName, is_index
from headrace.options.choices import InputFormat
from headrace.options.settings import RestoreSettings
from headrace.vendors.exactness import Exactness, Grade, worst
from headrace.vendors.key_names import READ_NAME, ArchiveNames, read_as
from ingest.checks.findings.finding import Finding, misconfigured, ok, warn

_NAME: Final = "layout"
_RESTORE_REMEDY: Final = (
    "docs/restore.md says which option helps; `headrace plan` shows each topic by itself."
)
_NOT_STORED_REMEDY: Final = (
    "What is not stored no option brings back: docs/restore.md says what the sink has to be told to store it "
    "from now on."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSample:
    """One object of the archive that was looked into.

    `exactness` is None where it cannot be restored, for the `problem`. `shown` is the layout whose envelope
    its content has, None where it has none.
    """

    url: str
    layout: LayoutName | None
    exactness: tuple[Exactness, ...] | None
    shown: LayoutName | None = None
    problem: str | None = None


def archive_findings(
    restore: RestoreSettings, keys: Sequence[str], samples: Sequence[ArchiveSample]
) -> Iterator[Finding]:
    """What is to be said of an archive with these keys, and of what was looked into."""
    data = [key for key in keys if not is_index(key, restore.names.indexes)]
    if not data:
        yield warn(
            _NAME,
            f"none of {counted(len(keys), 'key')} is data: all are below layout.indexes or folders."
            if keys
            else "there is no object yet, so nothing tells whose archive it is.",
            "Correct aws.s3.prefix or layout.indexes, if there should be some.",
        )
        return
    found = _by_keys(restore, data)
    by_content = _by_content(restore, samples)
    yield by_content or found
    if found.remedy is None and by_content is None:
        yield from _of_samples(samples)


def _by_keys(restore: RestoreSettings, keys: Sequence[str]) -> Finding:
    """Whether the layout that was told reads the keys, and which one would."""
    names = ArchiveNames(restore.layout, restore.names, restore.template)
    unread = [key for key in keys if (found := names.read(key)).name is None and not found.needs_content]
    told = "auto" if restore.layout is None else restore.layout.value
    how = "file.name.template" if restore.template is not None else f"input.layout={told}"
    total = counted(len(keys), "key")
    if not unread:
        return ok(_NAME, f"{how} reads all of {total} that hold data")
    fitting = _fitting(restore, unread)
    sentence = (
        f"{how} reads {'none' if len(unread) == len(keys) else f'{len(keys) - len(unread):,}'} of {total}"
    )
    if fitting is None:
        return _unknown(sentence, unread, is_all=len(unread) == len(keys))
    layout, count, example = fitting
    sentence = (
        f"{sentence}; {count:,} of the others are of {layout.value}'s form, such as {printable(example)}."
    )
    if len(unread) == len(keys):
        left_out = " and leave file.name.template out" if restore.template is not None else ""
        return misconfigured(_NAME, sentence, f"Set input.layout={layout.value}{left_out}.")
    return warn(
        _NAME,
        sentence,
        "Two archives in one bucket: restore each with a configuration of its own (aws.s3.prefix, "
        "object.include), or set input.layout=auto.",
    )


def _fitting(restore: RestoreSettings, keys: Sequence[str]) -> tuple[LayoutName, int, str] | None:
    """The layout that reads most of the keys, how many, and one of them."""
    counts: Counter[LayoutName] = Counter()
    examples: dict[LayoutName, str] = {}
    for key in keys:
        for layout in READ_NAME:
            if read_as(layout, key, restore.names) is not None:
                counts[layout] += 1
                examples.setdefault(layout, key)
    if not counts:
        return None
    layout, count = counts.most_common(1)[0]
    return layout, count, examples[layout]


def _unknown(sentence: str, unread: Sequence[str], *, is_all: bool) -> Finding:
    sentence = f"{sentence}, and no other layout reads the rest, such as {printable(unread[0])}."
    remedy = (
        "Set file.name.template to what the sink had, aws.s3.prefix where its prefix does not end in /, or "
        "file.delim and directory.delim; `headrace explain CONFIG KEY` says what a key is read as."
    )
    return misconfigured(_NAME, sentence, remedy) if is_all else warn(_NAME, sentence, remedy)


def _by_content(restore: RestoreSettings, samples: Sequence[ArchiveSample]) -> Finding | None:
    """Where the content has the envelope of another layout than the one that was told."""
    if restore.layout is None:
        return None
    shown = [sample for sample in samples if sample.shown not in {None, restore.layout}]
    if not shown or shown[0].shown is None:
        return None
    other = shown[0].shown.value
    sentence = (
        f"{len(shown)} of {counted(len(samples), 'object')} looked at "
        f"{'has' if len(shown) == 1 else 'have'} the rows of {other}, such as {printable(shown[0].url)}: "
        f"input.layout={restore.layout.value} would restore them as something else."
    )
    if len(shown) == len(samples):
        return misconfigured(_NAME, sentence, f"Set input.layout={other}.")
    return warn(_NAME, sentence, f"Restore these with input.layout={other}, in a configuration of their own.")


def _of_samples(samples: Sequence[ArchiveSample]) -> Iterator[Finding]:
    for problem in dict.fromkeys(sample.problem for sample in samples if sample.problem is not None):
        yield warn("format", problem, "Until then objects such as this one are quarantined.")
    by_layout: dict[LayoutName, list[tuple[Exactness, ...]]] = {}
    for sample in samples:
        if sample.exactness is not None and sample.layout is not None:
            by_layout.setdefault(sample.layout, []).append(sample.exactness)
    for layout, found in by_layout.items():
        lacking = [each for each in worst(found) if each.grade is not Grade.EXACT]
        looked_at = f"{counted(len(found), 'object')} of {layout.value} looked at"
        if not lacking:
            yield ok("restore", f"{looked_at}: every part of their records comes back")
            continue
        lines = [f"{each.aspect}: {_grades(each)}{'; '.join(each.why)}" for each in lacking]
        sentence = "\n".join([f"{looked_at}: not everything comes back.", *lines])
        helps = any(each.grade is not Grade.ABSENT for each in lacking)
        yield warn("restore", sentence, _RESTORE_REMEDY if helps else _NOT_STORED_REMEDY)


def _grades(each: Exactness) -> str:
    return "does not come back: " if each.grade is Grade.ABSENT else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The first bytes of one object: what they look like (None: not known), and their compression."""

    url: str
    content: Content | None
    codec: str | None

    @property
    def words(self) -> str:
        """What it looks like, for a sentence."""
        content = "something that its first bytes do not tell" if self.content is None else self.content.words
        return content if self.codec is None else f"{content} compressed with {self.codec}"


def format_fits(input_format: InputFormat, samples: Sequence[Sample]) -> Finding | None:
    """Whether the objects that were looked at are rows to the configured format."""
    name, known = "format", [sample for sample in samples if sample.content is not None]
    if not known:
        return None
    unfit = [sample for sample in known if not _is_read(sample, input_format)]
    looked_at = f"{counted(len(known), 'object')} looked at"
    if not unfit:
        kinds = " and ".join(sorted({sample.words for sample in known}))
        return ok(name, f"{looked_at}: {kinds}, which input.format={input_format} reads")
    first = unfit[0]
    assert first.content is not None, "what cannot be told was left out"
    sentence = (
        f"{len(unfit)} of {looked_at} {'looks' if len(unfit) == 1 else 'look'} like {first.words}, "
        f"such as {first.url}: "
        f"input.format={input_format} does not fit."
    )
    remedy = f"{_capital(_remedy(first.content, input_format))}."
    if len(unfit) == len(known):
        return misconfigured(name, sentence, remedy)
    return warn(name, sentence, f"{remedy} Or leave such keys out by object.include or object.exclude.")


def _is_read(sample: Sample, input_format: InputFormat) -> bool:
    if sample.content is None or sample.content.is_read_by(input_format):
        return sample.codec is None or input_format is not InputFormat.PARQUET
    return False


def _remedy(content: Content, input_format: InputFormat) -> str:
    if content.format is input_format:
        # Its footer is read first, which a compression of the whole file does not allow.
        return "upload Parquet files uncompressed: their own compression is within"
    return content.remedy


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
