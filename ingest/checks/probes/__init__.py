"""Looks at bucket, queue, broker, ledger and a running service; nothing is changed.

`probe_calls` asks for what `check` judges, `status_reader` follows the ledger without leading.
"""
