"""One Ed25519 key a user. It signs head checkpoints and certificates, and never leaves its file.

The library is imported when a key is first used: who only looks at runs does not wait for it.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import ConfigError
from flyball.state_dir import create_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAME = "signing.key"


class Signer:
    """Signs bytes."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key_hex(self) -> str:
        """The public half, which anyone may have."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> str:
        """The signature of `data`, in hex."""
        return self._key.sign(data).hex()


def verify(public_key_hex: str, data: bytes, signature: str) -> bool:
    """Whether the holder of that key signed exactly this."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key_hex))
        key.verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_or_create(directory: Path) -> Signer:
    """The key in this directory. Several processes may ask for a new one at once: all get the same."""
    path = directory / NAME
    try:
        if not path.exists():
            _create(path)
        _refuse_loose(path)
        return Signer(_load(path))
    except OSError as error:
        raise ConfigError(
            f"The signing key {path} cannot be read or made ({error.strerror or error}). "
            "Check that it and its directory are yours and writable."
        ) from error


def _refuse_loose(path: Path) -> None:
    """A key that others may read or replace proves nothing. (Landlock cannot keep an agent from changing modes.)"""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(
            f"The signing key {path} is open to other users (mode {mode:o}). If you did not change that, look at what "
            f"ran last. Close it with `chmod 600 {path}`."
        )


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_whole(path, _new_pem())


def _new_pem() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        key = error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            f"{path} does not hold an Ed25519 key. Put back a backup, or move it away to make a new one "
            "(what the old one signed can then not be checked)."
        )
    return key
