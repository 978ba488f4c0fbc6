"""What a slot of the sink does: consume, group, encode, upload, commit, complete."""
