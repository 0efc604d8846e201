"""Devices and numbers of threads, as callers name them."""

from __future__ import annotations

from tenon import _host, _native
from tenon._errors import DeviceError, UsageError
from tenon._native import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def device_text(device: object) -> str:
    """What the host takes for an argument `device=`."""
    if device is None:
        return ""
    if isinstance(device, str):
        return device
    if isinstance(device, (list, tuple)):
        return first_present(device)
    raise UsageError(
        'device= is a text, with commas between devices that share the nodes ("sim,cpu"), or a list, of '
        f'which the first that is present is used (["cuda", "cpu"]); {type(device).__name__} was given',
        "T0004",
    )


def first_present(names: Sequence[object]) -> str:
    """The first of several devices that this machine has. Says so where it is not the first one.

    UsageError T0004 for what is not a list of names, NotFoundError T0502 for a name that no plugin
    has, DeviceError T0503 if none is present.
    """
    listed = tuple(names)
    for name in listed:
        if not isinstance(name, str) or not name.strip() or "," in name:
            raise UsageError(
                f"a list device= has one name in each place, as in ['cuda', 'cpu'], and not {name!r}",
                "T0004",
            )
    if not listed:
        raise UsageError("device= is an empty list: leave it out, or name a device", "T0004")
    known = tuple(map(str, listed))
    if known not in _found:
        _found[known] = _first_present(known)
    return _found[known]


_found: dict[tuple[str, ...], str] = {}  # by lists that were given


def _first_present(names: tuple[str, ...]) -> str:
    import logging

    from tenon import logs

    _host.open()
    absent: list[str] = []
    for name in names:
        try:
            Tensor(0, device=name)
        except DeviceError as error:
            if error.code != "T0503":
                raise
            absent.append(str(error.args[0]))
            continue
        if absent:
            logs.log("dispatch", f"device {name} is used: {'; '.join(absent)}", logging.WARNING)
        else:
            logs.log("dispatch", f"device {name} is used, the first of {', '.join(names)}")
        return name
    raise DeviceError(f"none of the devices is present: {'; '.join(absent)}", "T0503")


def set_num_threads(count: int | None) -> None:
    """Computes on so many threads of Tenon's own, from the next call on, in place of TENON_NUM_THREADS.

    None: as many as there are processors for this process, or in a process of PyTorch the threads of
    `torch.set_num_threads`. A model may use fewer: `tenon.load(path, threads=1)`. UsageError T0004
    for other numbers than 1 to 1024.
    """
    number = 0 if count is None else thread_number("count", count)
    _host.open()
    _native.set_thread_count(number)


def get_num_threads() -> int:
    """How many threads compute, the calling one included."""
    _host.open()
    return _native.thread_count()


def thread_number(name: str, value: object) -> int:
    """A number of threads, or T0004."""
    index = getattr(value, "__index__", None)
    number = index() if index is not None and not isinstance(value, bool) else 0
    if not 1 <= number <= 1024:
        raise UsageError(f"{name}={value!r} is not a number of threads from 1 to 1024", "T0004")
    return int(number)
