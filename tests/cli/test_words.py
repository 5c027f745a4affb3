"""What commands say: numbers with their nouns, moments in one form, and no more than was done."""

import re
from pathlib import Path

from service.surfaces.cli.terminal import counted
from tests.cli.commands import CommandLine

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(\S*)")


def test_numbers_have_their_nouns() -> None:
    """U22: one is singular, everything else is plural, and what is not known is said to be unknown."""
    assert [counted(count, "orphan point") for count in (0, 1, 2, None)] == [
        "0 orphan points",
        "1 orphan point",
        "2 orphan points",
        "unknown orphan points",
    ]


def test_an_ingest_of_one_file(cli: CommandLine, tmp_path: Path) -> None:
    """U22: one document of one file is told as that."""
    (tmp_path / "a.txt").write_text("a sill")
    said = cli.ok("ingest", str(tmp_path / "a.txt"))
    assert said.startswith("1 document stored (1 passage), ")
    assert "1 file, 0 of them unchanged" in said


def test_a_key_is_revoked_once(cli: CommandLine) -> None:
    """U17: who revokes a key again is told that, and when, it was revoked already; nothing changes."""
    made = cli.json("keys", "create", "me")
    key_id = str(made["key_id"])
    assert cli.ok("keys", "revoke", key_id) == f"{key_id} (me) is revoked\n"
    again = cli.ok("keys", "revoke", key_id)
    assert again.startswith(f"{key_id} (me) was revoked already, at ")
    assert cli.ok("keys", "revoke", str(made["key"])) == again
    assert cli.json("keys", "revoke", key_id)["revoked_at"] == again.split()[-1]


def test_moments_have_one_form(cli: CommandLine) -> None:
    """U22: every moment that a command shows is in UTC and ends in Z."""
    cli.ok("keys", "create", "me")
    cli.ok("flag", "set", "shadow", "--reason", "a test")
    for command in (("keys", "list"), ("flag", "show"), ("flag", "shadow-report")):
        for form in ((), ("--json",)):
            ends = [end.strip('",') for end in MOMENT.findall(cli.ok(*command, *form))]
            assert ends, command
            assert set(ends) == {"Z"}
