"""Flyball tested on this machine: a real supervisor, real processes, a real disk; no model is needed.

scenarios       small runs of every kind, as data
place           a repository and a state directory of their own
outside_witness what really happened, recorded outside of Flyball
chaos           kill -9 at random moments, then compare
story           a run of two hundred events
storage         every write and sync of that run fails in every way
conforming      the journal conformance suite without a test runner
this_machine    versions, and how fast the disk syncs
searches        all of it, one after the other
"""
