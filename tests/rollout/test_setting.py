"""Setting the flag: what it needs, and what is kept of it."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import func, select

from service.adapters.flags.opening import open_flag
from service.adapters.flags.report_file import read_report
from service.adapters.flags.settings import FlagSettings, FlagTiming
from service.adapters.flags.sweep import SqlFlagSweep
from service.adapters.sql import schema
from service.adapters.sql.engine import Engines
from service.adapters.sql.rollout import SqlFlagLedger
from service.core.rollout import parse_flag
from service.errors import Conflict, FlagHeldElsewhere, FlagNeedsEvaluation, InvalidInput, InvalidReport
from service.ingest.flag import FlagControl, FlagOrder, FlagOrigin
from service.ingest.kill_switch import KillSwitch
from service.model import Workspace
from service.ports.flag import FlagChange, FlagEvidence, FlagHolder, Verdict

pytestmark = pytest.mark.anyio
ACME = Workspace("acme")
NOON = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
EVALUATED = datetime(2025, 5, 31, 8, 30, tzinfo=UTC)
ALWAYS_ANEW = FlagTiming(fresh=0.0, first_patience=10.0, patience=10.0)


def control(
    ledger: SqlFlagLedger, environment: str = "off", holder: FlagHolder = FlagHolder.STORE
) -> FlagControl:
    """The use case with a clock that stands still."""
    flag = open_flag(FlagSettings(FlagHolder.STORE, environment, timing=ALWAYS_ANEW), ledger)
    return FlagControl(ledger, flag, FlagOrigin(holder, environment), read_report, lambda: NOON)


def order(text: str | None, workspace: Workspace | None = None, report: Path | None = None) -> FlagOrder:
    """An order of Ada's."""
    state = None if text is None else parse_flag(text)
    return FlagOrder(workspace=workspace, state=state, who="ada", reason="a test", report=report)


def forced(text: str | None, workspace: Workspace | None = None, report: Path | None = None) -> FlagOrder:
    """The same by force."""
    state = None if text is None else parse_flag(text)
    return FlagOrder(workspace=workspace, state=state, who="ada", reason="a test", report=report, force=True)


def write_report(path: Path, **others: object) -> Path:
    """A report as the harness writes it, as far as the flag reads it."""
    fields: dict[str, object] = {
        "schema": "citewell-eval-1",
        "decision": "GO",
        "dataset_hash": "sha256:0a1b",
        "created_at": EVALUATED.isoformat(),
        "measures": {"recall@8": {"hybrid": 0.83}},
    }
    path.write_text(json.dumps({k: v for k, v in (fields | others).items() if v is not None}))
    return path


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """A report that says GO."""
    return write_report(tmp_path / "go.json")


@pytest.fixture
def no_go(tmp_path: Path) -> Path:
    """A report that says NO-GO."""
    return write_report(tmp_path / "no-go.json", decision="NO-GO")


async def counts(engines: Engines) -> tuple[int, int]:
    """How many rows and how many changes there are."""
    async with engines.read.connect() as connection:
        rows = await connection.execute(select(func.count()).select_from(schema.rollout_flag))
        changes = await connection.execute(select(func.count()).select_from(schema.rollout_flag_changes))
        return rows.scalar_one(), changes.scalar_one()


async def test_off_and_shadow_need_no_report(flags_both: SqlFlagLedger) -> None:
    """E3: shadow and off are set by anyone who says who they are and why; each change is kept."""
    setting = control(flags_both)
    first = await setting.set_flag(order("shadow"))
    second = await setting.set_flag(order("off", ACME))
    assert first == FlagChange(None, NOON, "ada", None, "shadow", "a test", None, forced=False)
    assert list(await flags_both.changes(10)) == [second, first]
    assert dict(await flags_both.all_rows()) == {None: "shadow", ACME: "off"}


@pytest.mark.parametrize("text", ["on", "0.01%", "50%", "100%"])
async def test_past_shadow_the_flag_needs_a_report(
    flags: SqlFlagLedger, engines: Engines, text: str, no_go: Path
) -> None:
    """E3: a percentage or on, without a report or with one that says NO-GO, is refused and nothing is kept."""
    setting = control(flags)
    with pytest.raises(FlagNeedsEvaluation, match="needs an evaluation report") as refused:
        await setting.set_flag(order(text))
    with pytest.raises(FlagNeedsEvaluation, match="NO-GO"):
        await setting.set_flag(order(text, ACME, no_go))
    assert refused.value.code == "flag_needs_evaluation"
    assert isinstance(refused.value, Conflict)
    assert await counts(engines) == (0, 0)


async def test_a_report_that_says_go_is_kept_with_the_change(flags_both: SqlFlagLedger, go: Path) -> None:
    """E3: turning it on records who, when, from what to what, why, and the report with its dataset."""
    setting = control(flags_both)
    await setting.set_flag(order("shadow", ACME))
    await setting.set_flag(order("25%", ACME, go))
    newest = (await flags_both.changes(1))[0]
    evidence = FlagEvidence(str(go), Verdict.GO, "sha256:0a1b", EVALUATED)
    assert newest == FlagChange(ACME, NOON, "ada", "shadow", "25%", "a test", evidence, forced=False)


async def test_force_is_kept_as_force(flags_both: SqlFlagLedger, go: Path, no_go: Path) -> None:
    """E3: force turns it on without a GO and the account says so; force that was not needed is none."""
    setting = control(flags_both)
    assert (await setting.set_flag(forced("on"))).forced
    against = await setting.set_flag(forced("on", None, no_go))
    assert against.forced
    assert against.evidence is not None
    assert against.evidence.verdict is Verdict.NO_GO
    assert not (await setting.set_flag(forced("on", None, go))).forced
    assert not (await setting.set_flag(forced("off"))).forced
    assert [change.forced for change in await flags_both.changes(10)] == [False, False, True, True]


async def test_a_row_can_be_taken_away(flags_both: SqlFlagLedger, go: Path) -> None:
    """E12: an override is removed by a change like any other, and then the default counts."""
    setting = control(flags_both)
    await setting.set_flag(order("shadow"))
    await setting.set_flag(order("on", ACME, go))
    gone = await setting.set_flag(order(None, ACME))
    assert (gone.before, gone.after) == ("on", None)
    assert (await flags_both.rows(ACME)).text == "shadow"


async def test_taking_a_row_away_is_no_way_past_the_evaluation(flags: SqlFlagLedger, go: Path) -> None:
    """E3: removing a row that held the flag down needs what turning it on needs."""
    setting = control(flags, environment="on")
    await setting.set_flag(order("off", ACME))
    with pytest.raises(FlagNeedsEvaluation):  # the environment says on
        await setting.set_flag(order(None, ACME))
    await setting.set_flag(order("shadow"))
    assert (await setting.set_flag(order(None, ACME))).after is None
    with pytest.raises(FlagNeedsEvaluation):
        await setting.set_flag(order(None))
    assert (await setting.set_flag(order(None, None, go))).evidence is not None


@pytest.mark.parametrize("holder", [FlagHolder.ENV, FlagHolder.FILE, FlagHolder.FLAGD])
async def test_a_row_that_nobody_reads_is_not_written(
    flags: SqlFlagLedger, engines: Engines, holder: FlagHolder
) -> None:
    """E12: where another holder has the flag, setting the row is refused and says who has it."""
    with pytest.raises(FlagHeldElsewhere, match=holder.value):
        await control(flags, holder=holder).set_flag(order("off"))
    assert await counts(engines) == (0, 0)


@pytest.mark.parametrize(
    ("who", "reason", "workspace"),
    [
        ("", "why", None),
        ("  ", "why", None),
        ("ada", "", None),
        ("a\x00", "why", None),
        ("a" * 201, "why", None),
        ("ada", "y" * 2_001, None),
        ("ada", "why", ""),
        ("ada", "why", "\x00"),
    ],
)
def test_an_order_without_a_name_or_a_reason_is_none(who: str, reason: str, workspace: str | None) -> None:
    """E3: nobody turns the flag without a name and a reason."""
    scope = None if workspace is None else Workspace(workspace)
    with pytest.raises(InvalidInput):
        FlagOrder(workspace=scope, state=parse_flag("off"), who=who, reason=reason)


async def test_orders_at_once_make_one_chain(flags_both: SqlFlagLedger) -> None:
    """E3: of changes made at the same time each begins where the one before it ended."""
    setting = control(flags_both)
    texts = ["shadow", "off"] * 10
    await asyncio.gather(*(setting.set_flag(order(text, ACME)) for text in texts))
    chain = list(reversed(await flags_both.changes(100)))
    assert len(chain) == len(texts)
    assert chain[0].before is None
    assert all(later.before == earlier.after for earlier, later in pairwise(chain))
    assert (await flags_both.rows(ACME)).override == chain[-1].after


async def test_a_change_that_cannot_be_kept_does_not_happen(flags_both: SqlFlagLedger) -> None:
    """E3: the row and its account are one transaction: when one fails, neither is there."""

    async def breaks_off() -> None:
        async with flags_both.changing(ACME) as write:
            await write.record(FlagChange(ACME, NOON, "ada", None, "on", "why", None, forced=True))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await breaks_off()
    assert dict(await flags_both.all_rows()) == {}
    assert list(await flags_both.changes(10)) == []


async def test_the_overview_shows_what_counts_and_why(flags_both: SqlFlagLedger, go: Path) -> None:
    """E12: the flag is shown as a workspace sees it, with every row and the newest changes."""
    setting = control(flags_both, environment="shadow")
    before = await setting.show(ACME)
    assert (str(before.reading.state), before.rows, before.changes) == ("shadow", {}, [])
    await setting.set_flag(order("50%", ACME, go))
    await setting.set_flag(order("off"))
    shown = await setting.show(ACME)
    assert (str(shown.reading.state), shown.reading.holder) == ("50%", FlagHolder.STORE)
    assert list(shown.rows.items()) == [(None, "off"), (ACME, "50%")]
    assert [change.after for change in shown.changes] == ["off", "50%"]
    assert str((await setting.show(Workspace("other"))).reading.state) == "off"


async def test_the_overview_shows_what_counts_for_each_workspace(flags_both: SqlFlagLedger, go: Path) -> None:
    """E12: each workspace that has a row or is asked for is shown with the state that counts for it."""
    setting = control(flags_both, environment="shadow")
    await setting.set_flag(order("50%", ACME, go))
    shown = await setting.show(Workspace("zeta"), [Workspace("beta")])
    counts_for = [(scope, str(reading.state)) for scope, reading in shown.readings.items()]
    assert counts_for == [("acme", "50%"), ("beta", "shadow"), ("zeta", "shadow")]
    assert dict(await setting.stored()) == {ACME: "50%"}


def kill_switch(engines: Engines, holder: FlagHolder = FlagHolder.STORE) -> KillSwitch:
    """The kill switch with a clock that stands still."""
    return KillSwitch(SqlFlagSweep(engines), holder, lambda: NOON)


async def test_one_action_switches_everybody_off(
    flags_both: SqlFlagLedger, engines_both: Engines, go: Path
) -> None:
    """E12: the default and every workspace's own state become off at once, each with its own account."""
    setting = control(flags_both)
    await setting.set_flag(order("shadow"))
    for name, text in (("acme", "50%"), ("beta", "off"), ("zeta", "on")):
        await setting.set_flag(order(text, Workspace(name), go))
    changes = await kill_switch(engines_both).off_everywhere("bob", "an incident")
    assert [(c.workspace, c.before, c.after) for c in changes] == [
        (None, "shadow", "off"),
        ("acme", "50%", "off"),
        ("zeta", "on", "off"),
    ]
    assert list(reversed(await flags_both.changes(3))) == changes
    assert {(c.who, c.reason, c.forced) for c in changes} == {("bob", "an incident", False)}
    assert dict(await flags_both.all_rows()) == {None: "off", "acme": "off", "beta": "off", "zeta": "off"}
    (again,) = await kill_switch(engines_both).off_everywhere("bob", "to be sure")
    assert (again.workspace, again.before, again.after) == (None, "off", "off")


async def test_the_kill_switch_works_where_nothing_is_stored(flags: SqlFlagLedger, engines: Engines) -> None:
    """E12: where only the environment said on, the default's row says off from then on."""
    setting = control(flags, environment="on")
    assert str((await setting.show(ACME)).reading.state) == "on"
    await kill_switch(engines).off_everywhere("bob", "an incident")
    assert str((await setting.show(ACME)).reading.state) == "off"


async def test_a_kill_switch_that_fails_half_way_changes_nothing(
    flags_both: SqlFlagLedger, engines_both: Engines, go: Path
) -> None:
    """E12: all rows and all accounts are one transaction."""
    await control(flags_both).set_flag(order("on", ACME, go))

    async def breaks_off() -> None:
        async with SqlFlagSweep(engines_both).sweeping() as writes:
            await writes.record(FlagChange(None, NOON, "bob", None, "off", "why", None, forced=False))
            await writes.record(FlagChange(ACME, NOON, "bob", "on", "off", "why", None, forced=False))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await breaks_off()
    assert dict(await flags_both.all_rows()) == {ACME: "on"}
    assert len(await flags_both.changes(10)) == 1


async def test_switching_off_and_setting_at_once_make_one_chain(
    flags_both: SqlFlagLedger, engines_both: Engines
) -> None:
    """E3: each change begins where the one before it ended, those of the kill switch included."""
    setting, switch = control(flags_both), kill_switch(engines_both)
    await asyncio.gather(
        *(setting.set_flag(order("shadow", ACME)) for _ in range(8)),
        *(switch.off_everywhere("bob", "an incident") for _ in range(8)),
    )
    chain = [change for change in reversed(await flags_both.changes(100)) if change.workspace == ACME]
    assert all(later.before == earlier.after for earlier, later in pairwise(chain))
    assert (await flags_both.rows(ACME)).override == chain[-1].after


@pytest.mark.parametrize(
    ("holder", "hint"),
    [
        (FlagHolder.ENV, "CORPUS_HYBRID_RETRIEVAL"),
        (FlagHolder.FILE, "CITEWELL_FLAG_FILE"),
        (FlagHolder.FLAGD, "disabled"),
    ],
)
async def test_the_kill_switch_says_where_else_it_is(engines: Engines, holder: FlagHolder, hint: str) -> None:
    """E12: where another holder has the flag nothing is written, and what to do there is said."""
    with pytest.raises(FlagHeldElsewhere, match=hint):
        await kill_switch(engines, holder).off_everywhere("bob", "an incident")
    assert await counts(engines) == (0, 0)


@pytest.mark.parametrize(("who", "reason"), [("", "why"), ("bob", " ")])
async def test_the_kill_switch_needs_a_name_and_a_reason(engines: Engines, who: str, reason: str) -> None:
    """E3: nobody turns the flag without a name and a reason, in an emergency neither."""
    with pytest.raises(InvalidInput):
        await kill_switch(engines).off_everywhere(who, reason)
    assert await counts(engines) == (0, 0)


@pytest.mark.parametrize(
    "others",
    [
        {"schema": "citewell-eval-2"},
        {"schema": None},
        {"decision": None},
        {"decision": "go"},
        {"decision": True},
        {"dataset_hash": None},
        {"dataset_hash": ""},
        {"dataset_hash": "a\x00b"},
        {"created_at": None},
        {"created_at": "yesterday"},
        {"created_at": "2025-05-31T08:30:00"},
    ],
)
async def test_a_report_is_read_strictly(
    flags: SqlFlagLedger, engines: Engines, tmp_path: Path, others: dict[str, object]
) -> None:
    """E3: a file that is no report of this version is no evidence, and force does not make it one."""
    report = write_report(tmp_path / "report.json", **others)
    with pytest.raises(InvalidReport):
        await control(flags).set_flag(forced("on", None, report))
    assert await counts(engines) == (0, 0)


@pytest.mark.parametrize("contents", [b"", b"[]", b"\xff", b'{"schema": "citewell-eval-1"', b'"GO"'])
def test_a_damaged_report_is_refused(tmp_path: Path, contents: bytes) -> None:
    """E3: a damaged file is no evidence."""
    path = tmp_path / "report.json"
    path.write_bytes(contents)
    with pytest.raises(InvalidReport):
        read_report(path)


@pytest.mark.parametrize("name", ["absent.json", ".", "a\x00b", "\udcff.json"])
def test_a_report_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    """E3: a report that cannot be read is no evidence."""
    with pytest.raises(InvalidReport):
        read_report(tmp_path / name)


def test_a_report_keeps_its_moment(tmp_path: Path) -> None:
    """E3: a report's time is kept as a moment, whatever its zone."""
    path = write_report(tmp_path / "r.json", created_at="2025-05-31T10:30:00+02:00")
    assert read_report(path).created_at - EVALUATED == timedelta(0)
