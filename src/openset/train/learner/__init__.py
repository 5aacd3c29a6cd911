"""Network and method as one module, its input tensors, its weights on disk."""
