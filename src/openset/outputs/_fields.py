"""The names of the fields of `Outputs`, by kind."""

PER_SAMPLE = ("logits", "features", "labels", "groups", "ids")
ARRAYS = (*PER_SAMPLE, "weight", "bias")
ABOUT = ("classes", "layers", "input_step")
# In the caller's array library and on one device; the other arrays are NumPy's.
IN_ONE_PLACE = ("logits", "features", "weight", "bias")
