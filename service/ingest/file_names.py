"""What a local file is called as a source: the same however it is named, and no path of this machine."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from service.model import Source, SourceType


@dataclass(frozen=True, slots=True)
class FileNaming:
    """File names are relative to `base`, an absolute folder; `url_prefix` makes URLs of them."""

    base: Path
    url_prefix: str | None = None

    def place(self, path: Path) -> Path:
        """The one absolute path of a file. Links are resolved in its folder only.

        A link to a file is a name that may point at the next version tomorrow.
        """
        return Path(os.path.realpath(path.parent)) / path.name

    def name(self, place: Path) -> str:
        """A place relative to `base`, with `/` between its parts.

        A file outside keeps the `..` of its way from the base: two files never share a name, and the name does
        not depend on which of a file's folders was asked for.
        """
        return Path(os.path.relpath(place, os.path.realpath(self.base))).as_posix()

    def source(self, name: str) -> Source:
        """The source of a file that states none itself."""
        if self.url_prefix is None:
            return Source(SourceType.UPLOAD, None, name)
        return Source(SourceType.URL, f"{self.url_prefix.rstrip('/')}/{quote(name)}", None)
