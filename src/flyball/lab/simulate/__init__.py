"""The production code in simulated worlds; each world is made from one seed."""
