"""Attention over the attached memory and the request's own tokens."""
