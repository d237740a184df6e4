"""attnlab: a laboratory for attention that does not let you fool yourself."""

__version__ = "0.1.0"
