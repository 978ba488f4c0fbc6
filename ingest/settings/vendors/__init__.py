"""Configurations of other makers' sinks, translated into Headrace's own options.

vendor           what a maker's sink is: its classes, a table of its options, and its translation
translation      what a translation reads and writes
connect_options  what the sinks of Kafka Connect have in common: converters, errors
vendors          those that are known, by `connector.class`

One module a maker; each holds the table of all options that its documentation names, and says of each whether
it is kept, changed, needless or refused.
"""

from ingest.settings.vendors.translation import Translated, TranslatedLine, Translation, translate
from ingest.settings.vendors.vendor import Fate, Vendor, VendorOption
from ingest.settings.vendors.vendors import VENDORS, vendor_of

__all__ = [
    "VENDORS",
    "Fate",
    "Translated",
    "TranslatedLine",
    "Translation",
    "Vendor",
    "VendorOption",
    "translate",
    "vendor_of",
]
