"""What `check` and `plan` report of `initial.inventory`: its manifests, and whether their files are there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.formats.inventory_manifest import InventoryRefused, Manifest
from headrace.model.errors import HeadraceError
from headrace.options import Settings
from headrace.s3.inventory import read_manifests, unread_files
from headrace.s3.s3_calls import S3Calls
from ingest.checks.findings.finding import Finding, misconfigured, ok, unusable, warn


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFacts:
    """One manifest, or why it, or one of its files, cannot be read."""

    url: str
    manifest: Manifest | None
    problem: HeadraceError | None

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        found = self.manifest
        return {
            "manifest": self.url,
            "created": None if found is None else found.created,
            "format": None if found is None else str(found.form),
            "files": None if found is None else len(found.files),
            "bytes": None if found is None else found.bytes,
            "problem": None if self.problem is None else str(self.problem),
        }

    @property
    def line(self) -> str:
        """What people are shown."""
        if self.problem is not None or self.manifest is None:
            return f"problem   {self.problem}"
        return f"the next start takes objects first from {self.manifest.summary}"


def probe_inventories(client: Any, settings: Settings, urls: Sequence[str]) -> list[InventoryFacts]:
    """Each manifest as the first start would read it; blocks on two GETs, and a HEAD a file."""
    s3 = settings.s3
    calls = S3Calls(client, backoff=s3.backoff, requester_pays=s3.requester_pays)
    return [_probe(calls, url, settings.buckets) for url in urls]


def inventory_findings(facts: Iterable[InventoryFacts], *, has_begun: bool) -> Iterator[Finding]:
    """One finding each. `has_begun`: the ledger is there, so that the first start may be over."""
    for one in facts:
        name, error = "inventory", one.problem
        if error is None and one.manifest is not None:
            yield ok(name, one.manifest.summary)
        elif not isinstance(error, InventoryRefused):
            yield unusable(name, str(error), "Check aws.s3.endpoint, aws.s3.region and the credentials.")
        elif has_begun:
            fix = f"{error.fix} Once the first start is over, initial.inventory can be removed."
            yield warn(name, error.sentence, fix)
        else:
            yield misconfigured(name, error.sentence, error.fix)


def _probe(calls: S3Calls, url: str, buckets: Sequence[str]) -> InventoryFacts:
    manifest = None
    try:
        (manifest,) = read_manifests(calls, [url], buckets=buckets)
        problem: HeadraceError | None = next(unread_files(calls, manifest), None)
    except HeadraceError as error:
        problem = error
    return InventoryFacts(url=url, manifest=manifest, problem=problem)
