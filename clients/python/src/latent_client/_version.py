"""The version: the repository's, which a test compares."""

__version__ = "0.1.0"
