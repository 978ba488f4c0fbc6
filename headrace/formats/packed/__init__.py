"""Zip and tar: objects whose members hold the rows (`input.archive`).

members        the rows of all members, one after another; begin here
rules          which members are read, and what is refused of an archive
member_source  one member as a source for its format's decoder
tar            the members of a tar, plain or compressed as a whole
tar_headers    what a tar says of an entry
zips           the members of a zip
zip_directory  what a zip's directory says of its entries
"""
