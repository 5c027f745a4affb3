"""The `citewell` command: its table of commands, and the one place where errors become exit statuses."""

import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType, TracebackType
from typing import IO, Final

import click

from service.errors import CitewellError, ConfigurationError
from service.surfaces.cli import exit_codes
from service.surfaces.cli.escaping import printable


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and what it does in one line; it is imported when it is run."""

    place: str
    help: str


ENTRIES: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "serve": Entry("serving:serve", "Answer over HTTP."),
        "ingest": Entry("ingesting:ingest", "Store documents from files and folders."),
        "retrieve": Entry("retrieving:retrieve", "Find passages by text, by system or by selection."),
        "item": Entry("items:item", "Read, trace, retire and supersede documents."),
        "vocabulary": Entry("vocabularies:vocabulary", "Import and show systems, factors and options."),
        "tags": Entry("tagging:tags", "Propose, decide and list facet tags."),
        "links": Entry("link_checks:links", "Check whether source URLs are alive."),
        "index": Entry("indexing:index", "Show and rebuild the lexical index."),
        "vectors": Entry("vector_commands:vectors", "Fill, check and change the vector index."),
        "flag": Entry("flag_commands:flag", "Show and set who gets the vector arm."),
        "keys": Entry("key_commands:keys", "Make, list and revoke API keys."),
        "export": Entry("archiving:export", "Write everything that is stored to an archive."),
        "import": Entry("archiving:import_", "Fill an empty database from an archive, or leave it empty."),
        "db": Entry("database:db", "Upgrade the database's schema."),
        "settings": Entry("configuration:settings", "Show every setting."),
        "demo": Entry("demonstration:demo", "Show what citewell does, on a database of its own."),
    }
)


EXTENSIONS: Final = "citewell.commands"


class Program(click.Group):
    """A group that imports a command only to run it, and ends with a documented exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, then those of other packages."""
        return [*ENTRIES, *sorted(extensions())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported now."""
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return _extension(cmd_name)
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"service.surfaces.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing what is in it."""
        with formatter.section("Commands"):
            own = [(name, entry.help) for name, entry in ENTRIES.items()]
            more = [(name, f"See citewell {name} --help.") for name in sorted(extensions())]
            formatter.write_dl([*own, *more])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the arguments."""
        with one_line_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a reader that went away ends it quietly."""
        try:
            with one_line_errors():
                result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            sys.stdout = io.StringIO()  # what is left to be written has no reader
            ctx.exit(exit_codes.BROKEN_PIPE)
        return result

    def __call__(self, *args: object, **kwargs: object) -> object:
        """The process's entry point, where even a defect is one line."""
        sys.excepthook = tell_defect
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return self.main()


def extensions() -> Mapping[str, EntryPoint]:
    """The commands that installed packages add under the entry point group `citewell.commands`."""
    return {point.name: point for point in entry_points(group=EXTENSIONS) if point.name not in ENTRIES}


def _extension(name: str) -> click.Command | None:
    """A command of another package. Raises ConfigurationError when it lacks something."""
    point = extensions().get(name)
    if point is None:
        return None
    try:
        command: click.Command = point.load()
    except ImportError as error:
        raise ConfigurationError(f"the command {name} cannot be loaded: {error}") from error
    return command


class Ended(click.ClickException):
    """A command that an error ended: one line on standard error, and the exit status."""

    def __init__(self, code: str, detail: str, status: int) -> None:
        super().__init__(f"{code}: {detail}")
        self.exit_code = status  # type: ignore[misc] # a class variable to its author, read from the instance

    def show(self, file: IO[str] | None = None) -> None:
        """Print the line."""
        click.echo(f"error: {printable(' '.join(self.message.split()))}", file=file, err=True)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raises Ended for whatever is wrong with a command, its input or the service."""
    try:
        yield
    except (click.exceptions.NoArgsIsHelpError, Ended):
        raise
    except click.UsageError as error:
        raise Ended("usage", _with_hint(error), exit_codes.USAGE) from error
    except click.ClickException as error:
        raise Ended("usage", error.format_message(), exit_codes.USAGE) from error
    except (click.Abort, KeyboardInterrupt) as error:
        raise Ended("interrupted", "stopped", exit_codes.INTERRUPTED) from error
    except CitewellError as error:
        raise Ended(error.code, error.detail, exit_codes.exit_code(error)) from error


def tell_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report a defect in one line; where it happened is for the one who mends it."""
    last = traceback.extract_tb(trace)[-1:]
    place = f" in {last[0].name}, line {last[0].lineno}" if last else ""
    Ended("internal", f"{kind.__name__}: {error}{place}", exit_codes.INTERNAL).show()
    os._exit(exit_codes.INTERNAL)  # Python itself would end with 1, which here means a partial failure


def _with_hint(error: click.UsageError) -> str:
    message = error.format_message()
    return message if error.ctx is None else f"{message} (see '{error.ctx.command_path} --help')"


def _statuses() -> str:
    r"""The exit statuses for the help page; \b keeps click from filling the lines."""
    return "\n".join(
        ["\b", "Exit status:", *(f"  {code:<4} {text}" for code, text in exit_codes.MEANINGS.items())]
    )


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_statuses())
@click.version_option(package_name="citewell", message="%(prog)s %(version)s")
def main() -> None:
    """Passages that can be cited, and never a stale one."""
