"""Where a path leads: everything that decides it is here, and the rest of the guard asks.

    folding   names as the most forgiving disk compares them; names that are odd
    links     a path followed through `..` and links; is it inside the workspace?
    places    which kind of place a path of a command line leads to, and what may be done there
    globs     patterns as in ignore files

Nothing here reads the disk: links and directories are given.
"""
