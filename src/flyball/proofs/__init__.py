"""What a proof proves: which files are the test side, what two reports say of a change, how to break it. Pure."""
