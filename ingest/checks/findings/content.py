"""Findings about what objects hold: whether `input.format` reads them."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.formats.content_hints import Content
from headrace.model.text_formatting import counted
from headrace.options.choices import InputFormat
from ingest.checks.findings.finding import Finding, misconfigured, ok, warn


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
