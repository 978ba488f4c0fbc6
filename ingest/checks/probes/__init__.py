"""Looks at bucket, queue, broker, ledger and a running service; nothing is changed.

probe_calls      what `check` judges, begin here; machine: this machine, the cluster, schema registries
bucket_keys      clients, and keys page by page
preview          what `plan` counts; archive_preview, archive_samples: of an archive; sink_topics: of a sink
sample_object    an object as a sink would write it
status_reader    how an ingester is, by its service or by its ledger
"""
