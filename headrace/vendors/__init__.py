"""Aiven, Confluent, Lenses, Quix, and our own layout: a folder each, with its names, rows, and options. Pure.

aiven, confluent, lenses, quix, headrace, connect    names.py; rows in; rows out; translation and options
load             a configuration's text as Settings, whichever vendor's it is, by `connector.class`
leftovers        what a configuration may hold that decides nothing in its connector
class_names      short names of classes, as Kafka Connect takes them; which class a configuration has
key_names        all keys of one archive; which layout a key and its content are of
exactness        what comes back exactly and what does not, with sentences
"""
