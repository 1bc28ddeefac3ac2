"""Flyball tried against itself: a real supervisor on this machine, real processes, a real disk; no model is needed.

plots     small runs of every kind, as data
place     a repository and a state directory of their own
witness   what really happened, as seen from outside
chaos     kill -9 at random instants, then count
"""
