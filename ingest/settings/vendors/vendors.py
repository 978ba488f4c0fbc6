"""The sinks whose configurations run here."""

from collections.abc import Mapping
from typing import Final

from ingest.settings.vendors.aiven import AIVEN
from ingest.settings.vendors.confluent import CONFLUENT
from ingest.settings.vendors.lenses import LENSES
from ingest.settings.vendors.vendor import Vendor

VENDORS: Final[tuple[Vendor, ...]] = (AIVEN, CONFLUENT, LENSES)


def vendor_of(configuration: Mapping[str, str], vendors: tuple[Vendor, ...] = VENDORS) -> Vendor | None:
    """The maker whose sink `connector.class` names; None for our own classes and unknown ones."""
    named = configuration.get("connector.class", "").strip()
    return next((vendor for vendor in vendors if named in vendor.classes), None)
