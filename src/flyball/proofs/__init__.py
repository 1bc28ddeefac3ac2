"""What a proof proves: which files are the test side, how two reports compare, how to break code on purpose. Pure."""
