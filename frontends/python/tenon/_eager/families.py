"""Which sizes of eager programs have varied, and are symbols therefore (ADR 0049)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from tenon import _native

    Sizes: TypeAlias = tuple[int, ...]

SEEN_MAX = 8
PROGRAMS_MAX = 8


class Pattern:
    """By position in a flush: the number of a symbol, or None where the size is a number."""

    __slots__ = ("symbols", "sizes")

    def __init__(self, symbols: tuple[int | None, ...], sizes: Sizes):
        self.symbols = symbols
        self.sizes = sizes  # those it was made for

    def fits(self, sizes: Sizes) -> bool:
        """Whether numbers are the same, and sizes of one symbol are equal and at least 2."""
        values: dict[int, int] = {}
        for symbol, known, size in zip(self.symbols, self.sizes, sizes):
            if symbol is None:
                if size != known:
                    return False
            elif size < 2 or values.setdefault(symbol, size) != size:
                return False
        return True


class General:
    """A program with symbols."""

    __slots__ = ("pattern", "program", "given")

    def __init__(self, pattern: Pattern, program: _native.Program, given: dict[str, int]):
        self.pattern = pattern
        self.program = program
        self.given = given  # symbols that follow from no input: a position of each

    def given_sizes(self, sizes: Sizes) -> list[tuple[str, int]]:
        """The sizes that a call has to pass besides its inputs."""
        return [(name, sizes[at]) for name, at in self.given.items()]


class Family:
    """Flushes that differ in sizes only."""

    def __init__(self) -> None:
        self.seen: list[Sizes] = []
        self.programs: list[General] = []
        self.by_size = False  # symbols do not work here

    def find(self, sizes: Sizes) -> General | None:
        """A program with symbols that serves these sizes."""
        for general in self.programs:
            if general.pattern.fits(sizes):
                return general
        return None

    def see(self, sizes: Sizes) -> Pattern | None:
        """Notes these sizes. The symbols of a program for them; None: it is for numbers alone."""
        if sizes not in self.seen:
            self.seen.append(sizes)
            del self.seen[:-SEEN_MAX]
        if self.by_size:
            return None
        numbers: dict[tuple[int, ...], int] = {}  # of symbols, by what was seen in their place
        symbols: list[int | None] = []
        for size, column in zip(sizes, zip(*self.seen)):
            varied = size > 1 and any(s != size for s in column)
            symbols.append(numbers.setdefault(column, len(numbers)) if varied else None)
        return Pattern(tuple(symbols), sizes) if numbers else None

    def add(self, general: General) -> None:
        self.programs.append(general)
        del self.programs[:-PROGRAMS_MAX]

    def give_up(self) -> None:
        """From now on there is a program for each size."""
        self.by_size = True
        self.programs.clear()
