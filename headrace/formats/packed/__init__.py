"""Zip and tar: objects whose members hold the rows (`input.archive`).

members        the rows of all members, one after another; begin here
member_source  which members are read, what is refused, and one member as a source for its format's decoder
tar            the members of a tar, plain or compressed as a whole
zips           the members of a zip, by its directory
"""
