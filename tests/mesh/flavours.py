"""The MPI libraries of this machine, and how each starts processes.

Debian's Open MPI and MPICH; of PyPI, in an environment of its own (scripts/packages.sh), MPICH 5 with
the ABI of the MPI 5 standard and, with `./check --full`, Intel's library.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(os.environ.get("MPI_ENVIRONMENT", ROOT / ".venv-mpi"))


@dataclass
class Flavour:
    name: str
    launcher: list
    ranks: list
    """How many processes it can have here. MPICH waits in a way that starves shared processors."""
    environment: dict = field(default_factory=dict)

    def run(self, count, command, timeout=240, **environment):
        """The finished process. Both streams are in `stdout`."""
        return subprocess.run(
            [*self.launcher, "-n", str(count), *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env={**os.environ, **self.environment, **environment},
        )


def _debian():
    if path := shutil.which("mpirun.openmpi"):
        # Containers have one user, and fewer processors than processes.
        # They may also forbid one process to read another's memory.
        root = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        }
        yield Flavour("openmpi", [path, "--oversubscribe", "--quiet"], [2, 3, 4], root)
    if path := shutil.which("mpirun.mpich"):
        yield Flavour("mpich", [path], [2])


def _wheels():
    library, launcher = WHEELS / "lib/libmpi_abi.so.1", WHEELS / "bin/mpiexec"
    if library.exists() and launcher.exists():
        yield Flavour("standard", [str(launcher)], [2], {"TENON_MPI_LIBRARY": str(library)})
    intel = WHEELS / "intel"
    library, launcher = intel / "lib/libmpi.so.12", intel / "bin/mpiexec.hydra"
    if library.exists() and launcher.exists():
        yield Flavour("intel", [str(launcher)], [2], {"TENON_MPI_LIBRARY": str(library)})


FLAVOURS = [*_debian(), *_wheels()]
TENON = os.environ.get("COMMAND_TENON", "tenon")
PYTHON = sys.executable
