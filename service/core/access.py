"""Who may ask for what: API keys, their scopes and workspaces, and how fast they may ask."""

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from service.core.text import is_storable
from service.errors import Forbidden, InvalidInput
from service.model import Workspace

EVERY_WORKSPACE: Final = Workspace("*")
MAX_WORKSPACE: Final = 200  # characters
MAX_KEY_NAME: Final = 200  # characters
SECRET_BYTES: Final = 32
_KEY: Final = re.compile(r"cw_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class KeyScope(StrEnum):
    """What a key may do. None includes another."""

    READ = "read"  # retrieve, and read items, vocabulary and tags
    WRITE = "write"  # capture, retire, supersede, replace the vocabulary, propose and decide tags
    OPERATE = "operate"  # metrics, shadow reports, drills


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored. `secret_hash` is SHA-256 in hex; `rate` is requests a second, None the default."""

    key_id: str
    name: str
    secret_hash: str
    workspaces: frozenset[Workspace]
    scopes: frozenset[KeyScope]
    rate: float | None
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do: one workspace, some scopes. Without a key (`key_id` is None) everything."""

    workspace: Workspace
    scopes: frozenset[KeyScope]
    key_id: str | None = None
    name: str = ""
    reaches_all: bool = True  # whether it reaches every workspace

    @property
    def is_operator(self) -> bool:
        """Whether what concerns every workspace may be told."""
        return self.reaches_all and KeyScope.OPERATE in self.scopes

    def require(self, scope: KeyScope) -> None:
        """Raises Forbidden without the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"this needs a key with the scope {scope.value}")


def key_text(key_id: str, secret: str) -> str:
    """The key as its owner keeps it."""
    return f"cw_{key_id}_{secret}"


def split_key(text: str) -> tuple[str, str] | None:
    """A key's id and its secret; None for what is no key."""
    match = _KEY.fullmatch(text)
    return None if match is None else (match.group(1), match.group(2))


def hash_secret(secret: str) -> str:
    """SHA-256 in hex. A secret has 256 random bits, so a slow hash would protect nothing more."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_good(key: ApiKey | None, secret: str) -> bool:
    """Whether the secret is the key's, in a time that depends on neither; an unknown key is compared too."""
    expected = hash_secret("") if key is None else key.secret_hash
    matches = hmac.compare_digest(hash_secret(secret), expected)
    return matches and key is not None and key.revoked_at is None


def workspace_name(text: str) -> Workspace:
    """A workspace by its name. Raises InvalidInput for what cannot be one."""
    if not 1 <= len(text) <= MAX_WORKSPACE or not is_storable(text) or text.strip() != text or text == "*":
        raise InvalidInput(f"a workspace's name has 1 to {MAX_WORKSPACE} characters", field="workspace")
    return Workspace(text)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address; a name is trusted only if it is localhost."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address.lower() == "localhost"
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def open_access(asked: str | None, default: Workspace) -> Access:
    """What a request may do while no key was ever made. Raises InvalidInput."""
    workspace = default if asked is None else workspace_name(asked)
    return Access(workspace, frozenset(KeyScope))


def grant(key: ApiKey, asked: str | None, default: Workspace) -> Access:
    """What a good key may do in the workspace asked for; which exist is never said.

    Without a wish it is the key's only workspace, else the service's default if the key reaches it.
    Raises InvalidInput, Forbidden.
    """
    if asked is not None:
        workspace = workspace_name(asked)
    elif len(key.workspaces) == 1 and EVERY_WORKSPACE not in key.workspaces:
        (workspace,) = key.workspaces
    else:
        workspace = default
    if not key.workspaces & {workspace, EVERY_WORKSPACE}:
        raise Forbidden("the key does not reach this workspace; name one of its own")
    return Access(workspace, key.scopes, key.key_id, key.name, EVERY_WORKSPACE in key.workspaces)


@dataclass(slots=True)
class Allowance:
    """A token bucket: `rate` requests a second, twice that (at least one) at once. Times are monotonic seconds."""

    rate: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> "Allowance":
        """A bucket nobody has taken from."""
        return cls(rate, burst(rate), now)

    def take(self, now: float) -> float:
        """Take one; the seconds until there is one again, or 0.0 when it was taken."""
        self.tokens = min(burst(self.rate), self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / self.rate


def burst(rate: float) -> float:
    """How many requests may come at once."""
    return max(1.0, 2.0 * rate)
