#!/usr/bin/env python3
"""Writes docs/generated/array_api.md: the standard's functions, and which of them tenon.xp has.

PYTHONPATH=build/python python3 tests/python/xp_table.py --bless
"""

import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "generated" / "array_api.md"

# The names of the array API standard 2025.12, by its chapters.
STANDARD = {
    "Constants": "e inf nan newaxis pi",
    "Creation": "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones "
    "ones_like tril triu zeros zeros_like",
    "Data types": "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
    "complex128 __array_namespace_info__ astype can_cast finfo iinfo isdtype result_type",
    "Elementwise": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
    "bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide "
    "equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less "
    "less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum "
    "minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round sign "
    "signbit sin sinh square sqrt subtract tan tanh trunc",
    "Indexing": "take take_along_axis",
    "Linear algebra": "matmul matrix_transpose tensordot vecdot",
    "Manipulation": "broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis "
    "permute_dims repeat reshape roll squeeze stack tile unstack",
    "Searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "Sets": "isin unique_all unique_counts unique_inverse unique_values",
    "Sorting": "argsort sort",
    "Statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "Utilities": "all any diff",
    "linalg": "cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power "
    "matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot "
    "vector_norm",
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}

EXTENSIONS = ("linalg", "fft")


def text() -> str:
    from tenon import xp

    lines = [
        "# The array API standard",
        "",
        "Which names of the standard 2025.12 `tenon.xp` has. Written by `tests/python/xp_table.py`.",
        "",
        "| chapter | there | not yet |",
        "|---|---|---|",
    ]
    for chapter, names in STANDARD.items():
        room = getattr(xp, chapter) if chapter in EXTENSIONS else xp
        there = [n for n in names.split() if hasattr(room, n)]
        later = [n for n in names.split() if n not in there]
        cells = [", ".join(f"`{n}`" for n in part) for part in (there, later)]
        lines.append(f"| {chapter} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--bless" in sys.argv:
        PAGE.write_text(text())
    elif PAGE.read_text() != text():
        sys.exit(f"{PAGE.name} differs: run tests/python/xp_table.py --bless")
