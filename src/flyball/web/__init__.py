"""The web page of `flyball serve`: it reads the journal, and leaves answers as messages like the command line does."""
