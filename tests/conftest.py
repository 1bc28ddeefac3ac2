"""Makes `tests/support.py` importable from every suite."""
