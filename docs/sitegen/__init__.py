"""Pages, figures and notebooks of the documentation site that come from the code."""
