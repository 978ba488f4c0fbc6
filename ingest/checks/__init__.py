"""What commands ask of bucket, queue, broker and ledger, and what they make of the answers.

probes     the questions; nothing is changed
findings   what `check` makes of the answers; pure
setup      what `headrace setup` makes: queue, policy, notification, topics
athena     tables over an archive; pure
"""
