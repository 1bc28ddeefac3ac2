"""The production code in simulated worlds, each made from one seed."""
