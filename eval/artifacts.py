"""Files written whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from eval.errors import EvaluationError


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of a folder, each in one step and only after all could be written beside their places.

    Raises EvaluationError, and then no file was changed.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        for name, contents in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            staged.append((_beside(place, contents), place))
        for temporary, place in staged:
            temporary.replace(place)
    except OSError as error:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        raise EvaluationError(
            f"results cannot be written ({type(error).__name__}: {error.strerror})"
        ) from error


def _beside(place: Path, contents: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
