"""Tests of Flyball itself that a user can run too: prove, simulate, selftest."""
