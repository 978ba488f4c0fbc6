"""Commands to a running leader: `replay` and `mark` as records of the ledger.

`selection` says which objects are meant, `command_records` is their form, `submit` gets them done.
"""
