"""The configuration and where each value is from: defaults < user < repository < environment < flags.

Import from its modules: `paths` is light, `load` reads the files, `detect` guesses settings for `flyball init`.
"""
