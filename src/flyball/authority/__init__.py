"""Who may speak for a person, and which of a repository's files are trusted."""
