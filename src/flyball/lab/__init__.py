"""Flyball tried against itself: prove, simulate, selftest."""
