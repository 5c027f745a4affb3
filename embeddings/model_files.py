"""Which files of a model folder shape its vectors, and a digest of exactly those."""

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

_SHAPING_SUFFIXES = frozenset({".json", ".txt", ".model", ".safetensors", ".bin", ".jinja"})
_OTHER_ENGINES = frozenset({"onnx", "openvino", "coreml", "tflite", "assets"})
_READ_BYTES = 1 << 20


def shaping_files(names: Iterable[str]) -> list[str]:
    """The files, by relative POSIX name and sorted, that a model needs and that its vectors depend on.

    Exports for other engines and hidden files are left out, and pickled weights (`.bin`) where the same
    folder has safetensors, since those are what is loaded.
    """
    kept = sorted(
        name
        for name in names
        if (path := PurePosixPath(name)).suffix in _SHAPING_SUFFIXES
        and not any(part.startswith(".") or part in _OTHER_ENGINES for part in path.parts)
    )
    safe = {str(PurePosixPath(name).parent) for name in kept if name.endswith(".safetensors")}
    return [name for name in kept if not (name.endswith(".bin") and str(PurePosixPath(name).parent) in safe)]


def files_below(folder: Path) -> list[str]:
    """Every file below a folder, as relative POSIX names."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def content_digest(folder: Path) -> str:
    """SHA-256 over names and bytes of the shaping files: equal models anywhere have equal digests."""
    total = hashlib.sha256()
    for name in shaping_files(files_below(folder)):
        inner = hashlib.sha256()
        with (folder / name).open("rb") as file:
            while block := file.read(_READ_BYTES):
                inner.update(block)
        total.update(f"{name}\0{inner.hexdigest()}\n".encode())
    return total.hexdigest()
