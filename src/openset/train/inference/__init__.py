"""Using networks: outputs of any network, and of a finished training run."""
