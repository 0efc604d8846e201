"""Files that are written whole or not at all."""

from __future__ import annotations

import os

from tenon._errors import UsageError


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """A whole file or none: under another name, then renamed. T0107 if it cannot be written."""
    try:
        _replace(path, data)
    except OSError as error:
        given = os.fspath(path)
        raise UsageError(f"{given!r} cannot be written: {error.strerror}", "T0107") from None


def _replace(path: str | os.PathLike[str], data: bytes) -> None:
    import tempfile

    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
