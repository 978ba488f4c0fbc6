"""What other sinks, and our own, write into a bucket: names and rows of each layout, both ways. Pure.

names        what a key says, and which of it is certain; options: what a restore was told
detect       which layout a key and its content are of
records      columns of key, value, headers, timestamp and source offset; readers: who makes them of rows
exactness    what comes back exactly and what does not, with sentences
aiven/, confluent/, lenses/, quix/, headrace/   one package a layout
"""
