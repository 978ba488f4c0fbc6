"""What everybody may know: objects, positions, ledger entries, and what driver and tasks send each other.

Small frozen types without behaviour beyond their own encoding; pure. Begin with `objects` and `ledger_entry`.
"""
