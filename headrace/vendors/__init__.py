"""Aiven, Confluent, Lenses, Quix, and our own layout: a folder each, with its names, rows, and options. Pure.

aiven, confluent, lenses, quix, headrace, connect    names.py; rows in; rows out; translation and options
load             a configuration's text as Settings, whichever vendor's it is
known_vendors    those that are known, by `connector.class`, and the tables of their options
key_names        all keys of one archive; which layout a key and its content are of
row_readers      who reads an object's rows, and which members they have
exactness        what comes back exactly and what does not, with sentences
"""

from headrace.vendors.known_vendors import VENDORS, vendor_of

__all__ = ["VENDORS", "vendor_of"]
