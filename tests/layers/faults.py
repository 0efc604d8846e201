#!/usr/bin/env python3
"""Each fault on each device in turn: an error that names it, or the right result; never a signal, a
hang or a partial output; other devices go on. Usage: faults.py TENON [DEVICE...] (cpu, sim and
reference)"""

import os
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
MODEL = os.path.join(os.path.dirname(__file__), "Inputs/softmax.tir")
SITES = [
    "open",
    "alloc",
    "import",
    "copy",
    "copy_async",
    "queue",
    "fence",
    "timeout",
    "compile",
    "load",
    "execute",
    "late",
    "lost",
]
# The host has an alternative: it copies, and it polls the fence's value. So no run waits until the
# device would be given up.
HARMLESS = {"import", "timeout"}
MODES = ["{}", "{}+"]
MOST = 40  # the most calls of one kind in a run of this model


ZIGZAG = os.path.join(os.path.dirname(__file__), "Inputs/zigzag.tir")


def run(layers, *arguments, model=MODEL, **settings):
    env = dict(os.environ, TENON_LAYERS=layers, **settings)
    return subprocess.run(
        [TENON, "run", model, "--seed", "1", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def sweep(device, site, mode, expected):
    """Fails calls 1, 2, 3 ... until the option no longer fires. Returns how many fired."""
    for n in range(1, MOST):
        layers = f"faults:{site}={mode.format(n)},device={device}"
        result = run(layers, "--device", device, "--no-fallback")
        where = f"{layers} on {device}: exit {result.returncode}: {result.stderr.strip()[:300]}"
        if "never fired" in result.stderr:
            assert result.returncode == 0 and result.stdout == expected, where
            return n - 1
        if site in HARMLESS:
            assert result.returncode == 0 and result.stdout == expected, where
            continue
        assert result.returncode in (2, 3), where
        assert result.stdout == "", where
        assert "faults: " in result.stderr or "T0611" in result.stderr, where
        assert "T0003" not in result.stderr, where
    raise AssertionError(f"{site} still fires after {MOST} calls on {device}")


def lost_between_two(lost):
    """Loses a device at each of its calls, including relayed waits for the other device, while the
    queues of both wait for each other: the run must end. The number of calls depends on how often
    waits poll."""

    def zigzag(layers):
        return run(layers, "--device", "sim,sim:1", model=ZIGZAG, TENON_SIM_OPS="0/add,1/mul")

    expected = zigzag("").stdout
    assert expected
    for n in range(1, 10 * MOST):
        result = zigzag(f"faults:lost={n},device={lost}")
        where = f"lost={n},device={lost}: exit {result.returncode}: {result.stderr.strip()[:300]}"
        # A device lost after the results are there goes unnoticed.
        assert (
            result.stdout == expected
            if result.returncode == 0
            else result.returncode == 3 and result.stdout == ""
        ), where
        assert result.returncode == 0 or "T0611" in result.stderr, where
        if "never fired" in result.stderr:
            assert n > 20, where
            return n - 1
    raise AssertionError(f"lost still fires after {10 * MOST} calls on {lost}")


def main():
    os.environ["TENON_CACHE_DIR"] = tempfile.mkdtemp(prefix="tenon_faults_")
    fired = {}
    for device in sys.argv[2:] or ("cpu", "sim", "reference"):
        expected = run("", "--device", device).stdout
        assert expected
        for site in SITES:
            for mode in MODES:
                fired[device, site] = sweep(device, site, mode, expected)
        other = "sim" if device == "cpu" else "cpu"
        # The other device of the run, and a second device of the kind, are unharmed.
        assert run(f"faults:lost=1,device={device}", "--device", other).returncode == 0
    if sys.argv[2:]:
        return print(f"{sum(fired.values())} faults were survived")
    assert (
        run("faults:lost=1,device=sim:1", "--device", "sim").stdout
        == run("", "--device", "sim").stdout
    )
    for device in ("sim:0", "sim:1"):
        fired["zigzag", device] = lost_between_two(device)
    # Work that outlasts two polls, with waits that end at once from the third on.
    slow = run(
        "faults:timeout=3+,device=sim:0",
        "--device",
        "sim",
        TENON_SIM_LATENCY="launch=300000-300000,seed=1",
    )
    assert (
        slow.returncode == 0
        and slow.stdout == run("", "--device", "sim").stdout
        and "never fired" not in slow.stderr
    ), slow.stderr
    # A device that never completes is given up, and the others go on.
    result = run(
        "", "--device", "sim", TENON_SIM_FAULTS="0/stall=1", TENON_LIMIT_DEVICE_WAIT_SECONDS="1"
    )
    assert result.returncode == 3 and "T0618" in result.stderr and result.stdout == "", (
        result.stderr
    )
    assert (
        run("", "--device", "sim:1", TENON_SIM_FAULTS="0/stall=1").stdout
        == run("", "--device", "sim").stdout
    )
    for device, sites in (
        ("cpu", "open alloc import load compile execute lost"),
        ("sim", "open alloc copy_async queue fence timeout compile load execute late lost"),
    ):
        for site in sites.split():
            assert fired[device, site] > 0, f"{site} never fired on {device}"
    print(f"{sum(fired.values())} faults were survived")


main()
