"""Who can hold the flag: SQL rows, the environment, a file, flagd; and what each does when it is broken."""

import asyncio
import builtins
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.flag_file import MAX_BYTES, FileProvider
from service.adapters.flags.opening import open_flag
from service.adapters.flags.settings import FlagSettings, FlagTiming
from service.adapters.sql.rollout import SqlFlagLedger
from service.core.rollout import OFF, parse_flag
from service.errors import ConfigurationError
from service.model import Workspace
from service.ports.flag import FlagChange, FlagHolder, FlagRows
from tests.rollout.parts import until

pytestmark = pytest.mark.anyio
ACME, OTHER = Workspace("acme"), Workspace("other")
ALWAYS_ANEW = FlagTiming(fresh=0.0, first_patience=10.0, patience=10.0)


@asynccontextmanager
async def opened(settings: FlagSettings, ledger: SqlFlagLedger) -> AsyncIterator[OpenFeatureFlag]:
    """A flag, closed afterwards."""
    flag = open_flag(settings, ledger)
    try:
        yield flag
    finally:
        await flag.close()


async def put(ledger: SqlFlagLedger, workspace: Workspace | None, text: str | None) -> None:
    """Write a row past every rule."""
    async with ledger.changing(workspace) as write:
        now = datetime.now(UTC)
        await write.record(
            FlagChange(workspace, now, "test", write.before, text, "a test", None, forced=False)
        )


async def read(flag: OpenFeatureFlag, workspace: Workspace = ACME) -> str:
    """The state in its written form."""
    return str(await flag.state(workspace))


async def test_rows_hold_the_flag_with_overrides(flags_both: SqlFlagLedger) -> None:
    """E12: a workspace's own row counts before the default row, and that before the environment's value."""
    settings = FlagSettings(FlagHolder.STORE, "shadow", timing=ALWAYS_ANEW)
    async with opened(settings, flags_both) as flag:
        assert [await read(flag), await read(flag, OTHER)] == ["shadow", "shadow"]
        await put(flags_both, None, "off")
        assert [await read(flag), await read(flag, OTHER)] == ["off", "off"]
        await put(flags_both, ACME, "12.5%")
        assert [await read(flag), await read(flag, OTHER)] == ["12.5%", "off"]
        await put(flags_both, None, "on")
        assert [await read(flag), await read(flag, OTHER)] == ["12.5%", "on"]
        await put(flags_both, ACME, None)
        assert [await read(flag), await read(flag, OTHER)] == ["on", "on"]
    assert await flags_both.rows(ACME) == FlagRows(None, "on")
    assert dict(await flags_both.all_rows()) == {None: "on"}


async def test_the_flag_is_off_where_nobody_set_it(flags: SqlFlagLedger) -> None:
    """C27: the flag is off by default."""
    async with opened(FlagSettings(timing=ALWAYS_ANEW), flags) as flag:
        assert await flag.state(ACME) == OFF


async def test_a_row_counts_within_a_second(flags: SqlFlagLedger) -> None:
    """E12: a state is remembered for a second at most, so that the kill switch needs no restart."""
    await put(flags, None, "on")
    async with opened(FlagSettings(), flags) as flag:
        assert await read(flag) == "on"
        await put(flags, None, "off")
        await until(flag, ACME, OFF)
    assert FlagTiming().fresh <= 1.0


async def test_the_environment_holds_the_flag(flags: SqlFlagLedger) -> None:
    """E12: the environment's value counts for every workspace, whatever the rows say."""
    await put(flags, None, "off")
    async with opened(FlagSettings(FlagHolder.ENV, "50%", timing=ALWAYS_ANEW), flags) as flag:
        assert [await read(flag), await read(flag, OTHER)] == ["50%", "50%"]


@pytest.mark.parametrize("text", ["", "enabled", "150%", "on\x00"])
async def test_a_value_that_is_none_means_off(text: str, flags: SqlFlagLedger) -> None:
    """E12: a value that cannot be understood means off, is counted, and its reason can be seen."""
    async with opened(FlagSettings(FlagHolder.ENV, text, timing=ALWAYS_ANEW), flags) as flag:
        assert await flag.state(ACME) == OFF
        reading = await flag.reading(ACME)
        assert reading.problem is not None
        assert "no state of the flag" in reading.problem
        assert flag.counters.unparsable == 2


class File:
    """A flag file that a test edits."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, default: str, **workspaces: str) -> None:
        """Replace its contents in place."""
        self.path.write_text(json.dumps({"default": default, "workspaces": workspaces}))


@pytest.fixture
def file(tmp_path: Path) -> File:
    """A flag file that does not exist yet."""
    return File(tmp_path / "flag.json")


@asynccontextmanager
async def held_by(file: File) -> AsyncIterator[OpenFeatureFlag]:
    """A flag held by the file, asked anew every time."""
    flag = OpenFeatureFlag(FileProvider(file.path), FlagHolder.FILE, "on", ALWAYS_ANEW)
    try:
        yield flag
    finally:
        await flag.close()


async def test_a_file_holds_the_flag_and_is_a_kill_switch(file: File) -> None:
    """E12: an edit of the flag file counts without a restart, for the default and for a workspace."""
    file.say("off", acme="50%")
    async with held_by(file) as flag:
        assert [await read(flag), await read(flag, OTHER)] == ["50%", "off"]
        file.say("on", acme="shadow")
        assert [await read(flag), await read(flag, OTHER)] == ["shadow", "on"]
        file.say("off", acme="off")
        assert [await read(flag), await read(flag, OTHER)] == ["off", "off"]


async def test_edits_of_the_same_length_at_once_are_seen(file: File) -> None:
    """E12: two edits within one tick of the file system's clock, of the same length, are both seen."""
    file.say("11%")
    async with held_by(file) as flag:
        for number in range(12, 99):
            file.say(f"{number}%")
            assert await read(flag) == f"{number}%"


async def test_an_unchanged_file_is_not_read_again(file: File) -> None:
    """E12: a file whose time stamps are old is only looked at."""
    file.say("on")
    before = time.time() - 3_600
    os.utime(file.path, (before, before))
    provider = FileProvider(file.path)
    signature, contents = None, None
    for _ in range(100):  # the change time cannot be set back: wait until it is old enough
        assert provider.resolve_string_details("key", "off").value == "on"
        if provider._read is not None:
            if contents is None:
                signature, contents = provider._read
            assert provider._read == (signature, contents)
            assert provider._read[1] is contents
            break
        await asyncio.sleep(0.1)
    assert provider.resolve_string_details("key", "off").value == "on"
    assert provider._read is not None
    assert provider._read[1] is contents


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (b"", "broken"),
        (b"on", "broken"),
        (b'{"default": "on"', "broken"),
        (b'{"default": true}', "broken"),
        (b'{"default": "on", "workspace": {"acme": "off"}}', "broken"),
        (b'["on"]', "broken"),
        (b"\xff\xfe", "broken"),
        (b'{"default": "on"}' + b" " * MAX_BYTES, "larger"),
        (b'{"default": "yes"}', "no state of the flag"),
    ],
)
async def test_a_broken_file_means_off(file: File, contents: bytes, problem: str) -> None:
    """E12: a file that was on and gets broken means off, says why, and counts again when it is mended."""
    file.say("on")
    async with held_by(file) as flag:
        assert await read(flag) == "on"
        file.path.write_bytes(contents)
        reading = await flag.reading(ACME)
        assert reading.state == OFF
        assert problem in (reading.problem or "")
        file.say("on")
        assert await read(flag) == "on"


async def test_a_vanished_file_means_off(file: File) -> None:
    """E12: deleting the flag file switches the vector arm off."""
    file.say("on")
    async with held_by(file) as flag:
        assert await read(flag) == "on"
        file.path.unlink()
        reading = await flag.reading(ACME)
        assert (reading.state, reading.problem) == (OFF, "the flag file is not there")
        file.path.mkdir()
        assert "cannot be read" in ((await flag.reading(ACME)).problem or "")


async def test_a_file_that_says_nothing_means_off(file: File) -> None:
    """E12: a file without a default means off for whom it does not name."""
    file.path.write_text('{"workspaces": {"acme": "on"}}')
    async with held_by(file) as flag:
        assert [await read(flag), await read(flag, OTHER)] == ["on", "off"]


async def test_a_file_holder_needs_a_file(flags: SqlFlagLedger) -> None:
    """E12: the file holder without a file does not start, and says which setting is missing."""
    with pytest.raises(ConfigurationError, match="CITEWELL_FLAG_FILE"):
        open_flag(FlagSettings(FlagHolder.FILE), flags)


async def test_flagd_without_its_package_does_not_start(
    flags: SqlFlagLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E12: choosing flagd where its package is missing is a configuration error that names the package."""
    ordinary = builtins.__import__

    def without_flagd(name: str, *rest: object) -> object:
        if "flagd" in name and name.startswith("openfeature"):
            raise ModuleNotFoundError(name)
        return ordinary(name, *rest)  # type: ignore[arg-type] # the rest is import's own business

    monkeypatch.setattr(builtins, "__import__", without_flagd)
    with pytest.raises(ConfigurationError, match="openfeature-provider-flagd"):
        open_flag(FlagSettings(FlagHolder.FLAGD), flags)


def flagd_file(path: Path, default: str, state: str = "ENABLED") -> None:
    """Write flagd's own format: a targeting rule gives acme shadow, others the default."""
    variants = {"off": "off", "shadow": "shadow", "quarter": "25%", "on": "on", "wrong": "maybe"}
    targeting = {"if": [{"==": [{"var": "workspace"}, "acme"]}, "shadow", default]}
    flag = {"state": state, "variants": variants, "defaultVariant": default, "targeting": targeting}
    path.write_text(json.dumps({"flags": {"corpus-hybrid-retrieval": flag}}))


@pytest.fixture
def flagd_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that flagd's provider watches."""
    pytest.importorskip("openfeature.contrib.provider.flagd")
    path = tmp_path / "flagd.json"
    monkeypatch.setenv("FLAGD_RESOLVER", "file")
    monkeypatch.setenv("FLAGD_OFFLINE_FLAG_SOURCE_PATH", str(path))
    monkeypatch.setenv("FLAGD_DEADLINE_MS", "100")
    return path


async def test_flagd_holds_the_flag(flagd_source: Path, flags: SqlFlagLedger) -> None:
    """E12: flagd's values and targeting rules count, and so does an edit of them, without a restart."""
    flagd_file(flagd_source, "quarter")
    async with opened(FlagSettings(FlagHolder.FLAGD, timing=ALWAYS_ANEW), flags) as flag:
        await until(flag, OTHER, parse_flag("25%"))
        assert await read(flag, ACME) == "shadow"
        flagd_file(flagd_source, "on")
        await until(flag, OTHER, parse_flag("on"))
        flagd_file(flagd_source, "wrong")
        await until(flag, OTHER, OFF)
        assert "no state of the flag" in ((await flag.reading(OTHER)).problem or "")
        flagd_file(flagd_source, "on")
        await until(flag, OTHER, parse_flag("on"))
        flagd_file(flagd_source, "on", state="DISABLED")
        await until(flag, OTHER, OFF)


async def test_a_flagd_without_the_flag_leaves_it_to_the_environment(
    flagd_source: Path, flags: SqlFlagLedger
) -> None:
    """E12: where flagd knows no such flag, the environment's value counts."""
    await asyncio.to_thread(flagd_source.write_text, json.dumps({"flags": {}}))
    async with opened(FlagSettings(FlagHolder.FLAGD, "shadow", timing=ALWAYS_ANEW), flags) as flag:
        await until(flag, ACME, parse_flag("shadow"))


# In a process of its own: gRPC's threads report a channel that is closed while it connects.
ABSENT_FLAGD = """
import asyncio
import time

from service.adapters.flags.opening import open_flag
from service.adapters.flags.settings import FlagSettings
from service.adapters.sql.engine import database_url, open_engines
from service.adapters.sql.rollout import SqlFlagLedger
from service.core.rollout import OFF
from service.model import Workspace
from service.ports.flag import FlagHolder


async def ask() -> None:
    engines = open_engines(database_url("sqlite:///never-opened.db"))
    began = time.monotonic()
    flag = open_flag(FlagSettings(FlagHolder.FLAGD, "on"), SqlFlagLedger(engines))
    for _ in range(50):
        reading = await flag.reading(Workspace("acme"))
        assert reading.state == OFF, reading
        assert reading.problem is not None
        await asyncio.sleep(0.05)
    assert time.monotonic() - began < 5
    await flag.close()
    await engines.close()


asyncio.run(ask())
print("off all the time")
"""


def test_an_absent_flagd_means_off(tmp_path: Path, unused_port: int) -> None:
    """E12: no start waits for a flagd server; while none answers the flag is off, whatever the environment."""
    pytest.importorskip("openfeature.contrib.provider.flagd")
    told = {
        "FLAGD_HOST": "127.0.0.1",
        "FLAGD_PORT": str(unused_port),
        "FLAGD_RESOLVER": "rpc",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", ABSENT_FLAGD],
        cwd=tmp_path,
        env=told,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "off all the time" in done.stdout, done.stderr
