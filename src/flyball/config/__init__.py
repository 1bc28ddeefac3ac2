"""What is configured, and by whom: defaults < user < repository < environment < flags.

The only reader of the environment. `load` gives a Loaded; its `settings` are what a run pins at its start.
"""

from flyball.config.agent import ROLES, AgentSpec, parse_agent, parse_role
from flyball.config.detect import SHAREABLE, Detected, detect, render_config
from flyball.config.layers import Assigned, Layer
from flyball.config.load import (
    FOLDER,
    POLICY_FILE,
    REPO_FILE,
    Loaded,
    Paths,
    RepoFile,
    Row,
    environment,
    load,
    paths,
)

__all__ = [
    "FOLDER",
    "POLICY_FILE",
    "REPO_FILE",
    "ROLES",
    "SHAREABLE",
    "AgentSpec",
    "Assigned",
    "Detected",
    "Layer",
    "Loaded",
    "Paths",
    "RepoFile",
    "Row",
    "detect",
    "environment",
    "load",
    "parse_agent",
    "parse_role",
    "paths",
    "render_config",
]
