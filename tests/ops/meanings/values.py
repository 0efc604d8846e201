"""Special values of every element type, at which ops often go wrong. bf16 is two bytes without a
type."""

import itertools

import numpy as np

INTS = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
FLOATS = ("f16", "bf16", "f32", "f64")
LD = np.longdouble

# Precision and exponents: digits, and the smallest and largest exponent of normal numbers.
FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}


def bits_of(dtype):
    return {"pred": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(dtype) or np.dtype(
        INTS[dtype]
    ).itemsize * 8


def storage(dtype):
    """The NumPy type of a file; bf16 is two bytes without a type."""
    return {
        "pred": np.bool_,
        "f16": np.float16,
        "bf16": np.dtype("V2"),
        "f32": np.float32,
        "f64": np.float64,
        **INTS,
    }[dtype]


def exact(dtype, array):
    """The elements as long doubles (floats) or Python's integers."""
    if dtype not in FLOATS:
        return array.astype(object)
    if dtype == "bf16":
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return array.astype(LD)


def narrow(dtype, values):
    """Doubles as the nearest elements of a float type."""
    values = np.asarray(values, np.float64)
    if dtype != "bf16":
        with np.errstate(over="ignore"):
            return values.astype(storage(dtype))
    with np.errstate(over="ignore"):
        wide = values.astype(np.float32).view(np.uint32)
    rounded = ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).view("V2")


def patterns(dtype):
    """Every element of a float type of 16 bits."""
    return np.arange(65536, dtype=np.uint16).view(storage(dtype))


def with_neighbours(dtype, array):
    """Each with its neighbours on either side."""
    unsigned = {32: np.uint32, 64: np.uint64}[bits_of(dtype)]
    p = array.view(unsigned)
    return np.concatenate([p, p + unsigned(1), p - unsigned(1)]).view(array.dtype)


# Points where behaviour changes: thirds and tenths, boundaries between the formulas of generated
# functions, overflow and underflow of exp, sinh, erfc, logistic and exp2, zeros of lgamma and
# digamma, poles, large halves, arguments that are hard to reduce. Whole numbers, halves and
# multiples of pi are added below.
PLACES = [
    float(v)
    for v in """
    0.1 0.3 0.3333333333333333 0.66 0.75 0.84375 0.9 0.927734375 0.99 0.999 0.9999 1.0001 1.25 2.414213562373095
    1.4616321449683622 2.4570247382208006 2.7476826467274127 2.857 3.14351 3.9192 3.95529 4.0392
    0.50408300826445541 1.5734984731623904 2.6107208684441447 9.010913 10.0546 13.8 16.64 17.33 18.72 26.54
    27.2268 36.04 37.43 44 60 66.5 87.3365 87.5 88.0296919 88.3762626647949 88.72283905 88.8 89 89.4159851 89.5
    93 100 100.5 103.2789 103.97208 104 104.5 126 127 127.5 128 149 150 171.5 171.62 300.25
    708.3964185322641 709.782712893384 709.8 710 710.475860073944 710.5 744.4400719 745.1332191 746 1022
    1023.5 1024 1074 1075 1e3 1e4 1e5 1e6 4194303.5 8388607.5 8388608.5 1e8 1e9 1e10 1e15 4503599627370495.5
    1e16 1e22 1e30 4.0850e36 2.5563e305 1e-5 1e-7 1e-9 1e-10 1e-12 1e-20 1e-38 1e-40 1e-45 1e-100 1e-300
    1e-310 7.7291082e28 5.319372648326541e255 1.181111
    """.split()
]
PLACES += [16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797]
PLACES += [k / 2 for k in range(1, 82)]
PLACES += [k * np.pi / 4 for k in [*range(1, 42), 202, 710, 2002, 20002, 823114, 2000006]]


def unary(dtype):
    """For ops of one operand: every 16-bit float; for other types, the limits of the type, powers
    of two and PLACES, with their neighbours."""
    if dtype in INTS:
        return integers(dtype)
    if bits_of(dtype) == 16:
        return patterns(dtype)
    digits, low, high = FORMATS[dtype]
    step = 1 if dtype == "f32" else 7
    powers = [
        2.0**k for k in itertools.chain(range(low - digits + 1, high + 1, step), range(-70, 66))
    ]
    inside = [1 - 2.0**-k for k in range(2, digits + 1)] + [1 + 2.0**-k for k in range(2, digits)]
    top = [
        np.finfo(storage(dtype)).max,
        float(np.finfo(storage(dtype)).tiny),
        np.sqrt(float(np.finfo(storage(dtype)).max)),
    ]
    values = with_neighbours(dtype, narrow(dtype, powers + inside + top + PLACES))
    ends = np.array([0.0, np.inf, np.nan], storage(dtype))
    values = np.concatenate([values[np.isfinite(values)], ends])
    return np.unique(
        np.concatenate([values, -values]).view({32: np.uint32, 64: np.uint64}[bits_of(dtype)])
    ).view(storage(dtype))


def few(dtype):
    """For pairs of floats."""
    digits, low, high = FORMATS[dtype]
    unit = 2.0 ** (1 - digits)
    top = (2 - unit) * 2.0**high
    magnitudes = [
        0.0,
        2.0 ** (low - digits + 1),
        2.0**low * (1 - unit),
        2.0**low,
        unit,
        0.1,
        1 / 3,
        0.5,
        1 - unit / 2,
        1.0,
        1 + unit,
        1.5,
        2.0,
        2.5,
        3.0,
        5.0,
        7.0,
        10.0,
        2.0 ** (digits - 1) + 1,
        2.0 ** (digits - 1) - 0.5,
        2.0**digits - 1,
        2.0 ** (high // 2),
        2.0**high,
        top,
        np.inf,
    ]
    if high > 31:
        magnitudes += [33.3, 100.0, 127.0, 2.0**31, 1e10, 2.0**53]
    return narrow(dtype, magnitudes + [-m for m in magnitudes] + [np.nan])


def integers(dtype):
    kind = INTS[dtype]
    info, width = np.iinfo(kind), bits_of(dtype)
    values = {
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        10,
        63,
        64,
        65,
        100,
        127,
        128,
        255,
        width - 1,
        width,
        width + 1,
        info.min,
        info.min + 1,
        info.max,
        info.max - 1,
        info.max // 2,
    }
    values |= {-v for v in values} | {1 << k for k in range(width)}
    return np.array(sorted(v for v in values if info.min <= v <= info.max), kind)


def pairs(dtype):
    """All pairs of special elements, one array per side."""
    if dtype == "pred":
        one = np.array([False, True])
    elif dtype in INTS:
        one = integers(dtype)
        if len(one) > 40:  # powers of two twice show nothing new
            width = bits_of(dtype)
            keep = {int(v) for v in one if abs(int(v)) < 130 or bin(abs(int(v))).count("1") > 1} | {
                1 << (width // 2),
                1 << (width - 2),
                1 << (width - 1),
            }
            one = np.array([v for v in one if int(v) in keep], INTS[dtype])
    else:
        one = few(dtype)
    return np.repeat(one, len(one)), np.tile(one, len(one))


def triples(dtype):
    """Triples in which every special element occurs at every position."""
    one = pairs(dtype)[0]
    one = one[:: round(len(one) ** 0.5)]
    n = len(one)
    places = np.arange(n * n)
    return one[places // n], one[places % n], one[(places * 7 + places // n * 3) % n]
