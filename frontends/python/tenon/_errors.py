"""Exceptions: one for each kind of failure, with the stable code, the place and a way out."""

from __future__ import annotations

from tenon import _host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Error(Exception):
    """A failure of Tenon. The text is one or more whole sentences.

    Each failure is of a subclass that says whose turn it is: `UsageError` (the call or the model is
    wrong), `NotFoundError`, `UnsupportedError`, `DeviceError`, `OutOfMemoryError`, `DataError`,
    `Cancelled`; what is left is `Error` itself.
    """

    code: str
    """The stable code, such as "T0603"; `tenon explain T0603` says more."""
    details: dict[str, str]
    """Evidence, such as the device or the file."""

    def __init__(self, message: str, code: str = "T0002", details: dict[str, str] | None = None):
        super().__init__(message, code, details or {})
        self.code = code
        self.details = details or {}

    def __str__(self) -> str:
        message = str(self.args[0])
        return message if message.startswith(self.code) else f"{self.code}: {message}"

    @property
    def location(self) -> str | None:
        """Where in the user's model or file it is: "model.tir:3:5"; None if it is nowhere there."""
        import re

        found = re.search(r"(?:^|\s|\()([^\s:'()]+:\d+(?::\d+)?)(?=[:,.)\s]|$)", str(self.args[0]))
        return found.group(1) if found else None

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDIES.get(self.code) or _of_host(self.code)


class UsageError(Error, ValueError):
    """The call, an option or the model is wrong."""


class NotFoundError(Error, LookupError):
    """A file, a device or a name is not there."""


class UnsupportedError(Error, NotImplementedError):
    """This version does not do that; the text says what it is."""


class DeviceError(Error, RuntimeError):
    """A device or a library is missing, lost or does not answer."""


class OutOfMemoryError(Error, MemoryError):
    """Memory, disk or a documented limit is used up."""


class DataError(Error):
    """A file is damaged."""


class Cancelled(Error):
    """The operation was asked to stop."""


class UnknownResult(NotFoundError, KeyError):
    """A call has no result of this name: `y["logits"]`. Also a KeyError, as of other mappings."""


# As users import them, in tracebacks too.
for _kind in (Error, *Error.__subclasses__()):
    _kind.__module__ = "tenon"

# By tenon_code_t.
ERROR_KINDS: dict[int, type[Error]] = {
    1: Cancelled,
    3: UsageError,
    4: DeviceError,
    5: NotFoundError,
    8: OutOfMemoryError,
    9: UsageError,
    11: UsageError,
    12: UnsupportedError,
    14: DeviceError,
    15: DataError,
    16: DeviceError,
}

# Where the host's own advice is for its command line.
_REMEDIES = {
    "T0004": "Correct the argument that the message names.",
    "T0008": "Use a name that is there.",
    "T0505": "This is a fault of the device's plugin: report it. Until then choose another device=.",
    "T0520": "Correct the argument that the message names, or load the model itself.",
    "T0793": "Leave the argument out, or give the model as a file of a format that takes it.",
    "T0601": "Pass every input, by position in the order of model.inputs, or by name.",
    "T0602": "Use a name of model.inputs, or a size that the message lists.",
    "T0603": 'Convert the array, as in x.astype("float32") or x.to(torch.float32).',
    "T0623": 'Give the size when loading: tenon.load(path, dims={"n": 8}).',
    "T0504": "Load with fallback=True, or name devices that take all nodes.",
}


def make(code: int, id: str, message: str, details: dict[str, str]) -> Error:
    """The exception for a failure of the host."""
    return ERROR_KINDS.get(code, Error)(message, id, details)


def near(name: str, names: Iterable[str]) -> str:
    """ ": did you mean 'logits'?", if one of the names is near."""
    import difflib

    found = difflib.get_close_matches(name, list(names), 1)
    return f": did you mean {found[0]!r}?" if found else ""


def no_result(name: str, names: tuple[str, ...]) -> UnknownResult:
    """The exception for a name that no result has."""
    known = ", ".join(names) or "none"
    return UnknownResult(
        f"there is no result {name!r}{near(name, names)} (results: {known})", "T0602"
    )


def _of_host(code: str) -> str:
    import json

    rows = json.loads(_host.explain("errors", code))["errors"]
    return str(rows[0]["what_to_do"]) if rows else ""


def flag(name: str, value: object) -> bool:
    """The value of an argument that is True or False. A text such as "no" would count as True."""
    if value is True or value is False:
        return value
    raise UsageError(f"{name}= is True or False, not {value!r}", "T0004")


def place(error: BaseException) -> str:
    """The innermost line outside of this package where an exception was, as " (file:line)"."""
    found, trace = "", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module != "tenon" and not module.startswith("tenon."):
            found = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
