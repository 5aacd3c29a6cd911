"""Tables and figures of the papers: that they are computed, and shown as computed."""
