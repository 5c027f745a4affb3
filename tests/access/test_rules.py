"""The pure rules: what a key is, what it grants, how fast it may ask."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.access import (
    EVERY_WORKSPACE,
    Access,
    Allowance,
    ApiKey,
    KeyScope,
    burst,
    grant,
    hash_secret,
    is_good,
    is_loopback,
    key_text,
    open_access,
    split_key,
    workspace_name,
)
from service.errors import Forbidden, InvalidInput
from service.model import Workspace

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECRET = "s" * 43
DEFAULT = Workspace("default")


def key(*workspaces: str, revoked_at: datetime | None = None) -> ApiKey:
    """A key with the secret SECRET."""
    return ApiKey(
        key_id="0123456789abcdef",
        name="a key",
        secret_hash=hash_secret(SECRET),
        workspaces=frozenset(Workspace(name) for name in workspaces),
        scopes=frozenset({KeyScope.READ}),
        rate=None,
        created_at=NOW,
        revoked_at=revoked_at,
    )


def test_a_key_is_its_id_and_its_secret() -> None:
    """U17: a key's text holds both, and nothing else is a key."""
    assert split_key(key_text("0123456789abcdef", SECRET)) == ("0123456789abcdef", SECRET)
    for text in (
        "",
        "cw_",
        SECRET,
        f"cw_0123_{SECRET}",
        f"cw_0123456789abcdef_{SECRET}x",
        "cw_\x00",
        "é" * 64,
    ):
        assert split_key(text) is None


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """U17: what is no key is told apart from one, whatever it is."""
    parts = split_key(text)
    assert parts is None or key_text(*parts) == text


def test_only_the_secret_of_a_living_key_is_good() -> None:
    """U17: a wrong secret, a revoked key and an unknown one are the same: not good."""
    assert is_good(key("a"), SECRET)
    assert not is_good(key("a"), SECRET[:-1] + "t")
    assert not is_good(key("a", revoked_at=NOW), SECRET)
    assert not is_good(None, SECRET)
    assert not is_good(None, "")


@pytest.mark.parametrize(
    ("workspaces", "asked", "granted"),
    [
        (("a",), None, "a"),
        (("a",), "a", "a"),
        (("a", "default"), None, "default"),
        (("a", "b"), "b", "b"),
        ((EVERY_WORKSPACE,), None, "default"),
        ((EVERY_WORKSPACE,), "anything", "anything"),
    ],
)
def test_what_a_key_grants(workspaces: tuple[str, ...], asked: str | None, granted: str) -> None:
    """U17: the workspace asked for, else the only one, else the default."""
    access = grant(key(*workspaces), asked, DEFAULT)
    everywhere = EVERY_WORKSPACE in workspaces
    scopes = frozenset({KeyScope.READ})
    assert access == Access(Workspace(granted), scopes, "0123456789abcdef", "a key", everywhere)


@pytest.mark.parametrize(("workspaces", "asked"), [(("a",), "b"), (("a", "b"), None), (("a",), "default")])
def test_what_a_key_does_not_grant(workspaces: tuple[str, ...], asked: str | None) -> None:
    """U18: a workspace that the key does not reach is refused, and which exist is not said."""
    with pytest.raises(Forbidden) as refused:
        grant(key(*workspaces), asked, DEFAULT)
    assert "exist" not in refused.value.detail


@pytest.mark.parametrize("name", ["", " ", "*", " a", "a ", "a\x00", "\ud800", "a" * 201])
def test_what_no_workspace_is_called(name: str) -> None:
    """U18: names that a store cannot keep, or that mean something else, are refused."""
    with pytest.raises(InvalidInput):
        workspace_name(name)
    with pytest.raises(InvalidInput):
        open_access(name, DEFAULT)


def test_an_access_is_asked_for_its_scope() -> None:
    """U17: no scope includes another."""
    access = Access(DEFAULT, frozenset({KeyScope.OPERATE}))
    access.require(KeyScope.OPERATE)
    for scope in (KeyScope.READ, KeyScope.WRITE):
        with pytest.raises(Forbidden):
            access.require(scope)


@given(
    rate=st.floats(min_value=0.01, max_value=1_000),
    gaps=st.lists(st.floats(min_value=0, max_value=10), min_size=1, max_size=80),
)
def test_an_allowance_keeps_its_rate(rate: float, gaps: list[float]) -> None:
    """U20: no more is let through than the burst and what the rate gives; a wait told is always enough."""
    now, let_through = 100.0, 0
    allowance = Allowance.full(rate, now)
    for gap in gaps:
        now += gap
        wait = allowance.take(now)
        if wait == 0.0:
            let_through += 1
        else:
            assert allowance.tokens + wait * rate >= 1.0 - 1e-9
    assert let_through <= burst(rate) + rate * sum(gaps) + 1e-6
    assert let_through >= 1


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),  # noqa: S104 - what is no loopback address
        ("::", False),
        ("10.0.0.1", False),
        ("127.0.0.1.elsewhere.example", False),
        ("localhost.elsewhere.example", False),
        ("", False),
    ],
)
def test_loopback(address: str, *, expected: bool) -> None:
    """U17: loopback addresses and localhost are this machine's own; no other name is."""
    assert is_loopback(address) is expected
