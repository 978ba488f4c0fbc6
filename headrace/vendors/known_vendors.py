"""The connectors whose configurations run here."""

from collections.abc import Mapping
from typing import Final

from headrace.options.vendor import Vendor
from headrace.vendors.aiven.translation import AIVEN
from headrace.vendors.confluent.source_translation import CONFLUENT_SOURCE_VENDOR
from headrace.vendors.confluent.translation import CONFLUENT
from headrace.vendors.lenses.source_translation import LENSES_SOURCE_VENDOR
from headrace.vendors.lenses.translation import LENSES

VENDORS: Final[tuple[Vendor, ...]] = (
    AIVEN,
    CONFLUENT,
    LENSES,
    CONFLUENT_SOURCE_VENDOR,
    LENSES_SOURCE_VENDOR,
)


def vendor_of(configuration: Mapping[str, str], vendors: tuple[Vendor, ...] = VENDORS) -> Vendor | None:
    """The vendor whose connector `connector.class` names; None for our own classes and unknown ones."""
    named = configuration.get("connector.class", "").strip()
    return next((vendor for vendor in vendors if named in vendor.classes), None)
