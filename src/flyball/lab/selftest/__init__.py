"""Flyball tried against itself: a real supervisor on this machine, real processes, a real disk; no model is needed.

plots       small runs of every kind, as data
place       a repository and a state directory of their own
witness     what really happened, as seen from outside
chaos       kill -9 at random instants, then count
platter     a disk that does one thing wrong
story       a run of two hundred events
storage     every write and sync of the story gone wrong
conforming  the laws of a journal, without a test runner
this_machine machine: versions, and how long its disk takes
trial       all of it, one after the other
"""
