"""Writes the polynomials of frontends/torch/decompositions/series.py, fitted with mpmath (pip install mpmath).

python3 scripts/series.py > frontends/torch/decompositions/series.py
"""

import mpmath as mp

mp.mp.dps = 40


def reach(low, high):
    """From t in [-1, 1] to x in a range."""
    return lambda t: (low + high) / 2 + t * (high - low) / 2


def far(bound):
    """From t in [-1, 1] to x from a bound on: t = 2 bound / x - 1."""
    return lambda t: 2 * bound / (t + 1)


def far_squared(bound):
    """The same in squares: t = 2 bound^2 / x^2 - 1."""
    return lambda t: bound * mp.sqrt(2 / (t + 1))


def phase(order, x):
    """The parts of J and Y that vary slowly, as factors of cos and sin."""
    angle = x - (2 * order + 1) * mp.pi / 4
    j, y, size = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
    return size * (j * mp.cos(angle) + y * mp.sin(angle)), size * (
        y * mp.cos(angle) - j * mp.sin(angle)
    ) * x


def squared(f, bound):
    """f as a function of t = 2 x^2 / bound^2 - 1."""
    return lambda t: f(bound * mp.sqrt(max((t + 1) / 2, mp.mpf(10) ** -16)))


def fits():
    eight, two = mp.mpf(8), mp.mpf(2)
    for v in (0, 1):
        yield f"I{v}_NEAR", 22, lambda t: mp.besseli(v, reach(0, 8)(t)) * mp.exp(-reach(0, 8)(t))
        yield (
            f"I{v}_FAR",
            16,
            lambda t: (lambda x: mp.besseli(v, x) * mp.exp(-x) * mp.sqrt(x))(far(eight)(t)),
        )
        yield (
            f"K{v}_FAR",
            18,
            lambda t: (lambda x: mp.besselk(v, x) * mp.exp(x) * mp.sqrt(x))(far(two)(t)),
        )
        yield f"P{v}", 12, lambda t: phase(v, far_squared(eight)(t))[0]
        yield f"Q{v}", 12, lambda t: phase(v, far_squared(eight)(t))[1]
    yield "K0_NEAR", 12, squared(lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x), two)
    yield (
        "K1_NEAR",
        12,
        squared(lambda x: (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x)) * x, two),
    )
    yield "J0_NEAR", 20, squared(lambda x: mp.besselj(0, x), eight)
    yield "J1_NEAR", 20, squared(lambda x: mp.besselj(1, x) / x, eight)
    yield (
        "Y0_NEAR",
        20,
        squared(lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x), eight),
    )
    yield (
        "Y1_NEAR",
        20,
        squared(
            lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x,
            eight,
        ),
    )
    yield "ERFCX", 24, scaled_complement


def scaled_complement(t):
    """exp(x^2) erfc(x) / u, with u = (t + 1) / 2 = 4 / (4 + x)."""
    u = (t + 1) / 2
    x = 4 / u - 4
    if x > 60:  # the asymptotic series; erfc itself is too small
        terms = (mp.mpf(-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(12))
        return mp.fsum(terms) / (x * mp.sqrt(mp.pi)) / u
    return mp.exp(x * x) * mp.erfc(x) / u


def main():
    print(
        '"""Polynomials in t of [-1, 1], the highest power first. Written by scripts/series.py."""\n'
    )
    for name, count, function in fits():
        edge = mp.mpf(10) ** -8  # where x is infinite at t = -1
        numbers = mp.chebyfit(function, [-1 + edge, 1], count)
        print(f"{name} = [")
        for number in numbers:
            print(f"    {mp.nstr(number, 17, min_fixed=-3, max_fixed=2)},")
        print("]")


if __name__ == "__main__":
    main()
