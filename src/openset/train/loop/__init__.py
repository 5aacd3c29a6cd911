"""The training loop: batches, updates, one run, several runs on one device."""
