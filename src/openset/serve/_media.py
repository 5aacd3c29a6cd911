"""Media types of bodies."""

JSON = "application/json"
NPY, NPZ = "application/x-npy", "application/x-npz"
OCTETS = "application/octet-stream"
BINARY = (OCTETS, NPY, NPZ)
FORM = "multipart/form-data"
IMAGES = ("image/png", "image/jpeg")


def plain_type(content_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Whether a Content-Type is that of JSON."""
    return plain_type(content_type) == JSON
