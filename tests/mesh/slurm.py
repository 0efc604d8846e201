"""Slurm as one node of this machine, in a folder of its own: its daemons without systemd."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager

DAEMONS = ("munged", "slurmctld", "slurmd")
SECONDS = 60
"""Until the node is up. It takes two or three."""
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CONFIGURATION = """\
ClusterName=tenon
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=here NodeHostname={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why there is no Slurm here, or nothing."""
    if os.geteuid() != 0:
        return "Slurm's daemons are started by root"
    names = [n for n in (*DAEMONS, "srun") if shutil.which(n, path=PATH) is None]
    return f"not installed: {', '.join(names)} (Debian's slurm-wlm)" if names else ""


def free_ports(count):
    with ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def munged(folder):
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    return ["munged", "--foreground", "--force", f"--key-file={key}", *options]


def is_up(environment):
    words = ["sinfo", "--noheader", "--format=%t"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    return done.stdout.strip() in ("idle", "mix", "alloc")


def wait_for(ready, daemons, folder):
    end = time.monotonic() + SECONDS
    while not ready():
        texts = [f"{log}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.out")]
        assert all(d.poll() is None for d in daemons), texts
        assert time.monotonic() < end, texts
        time.sleep(0.1)


def stop(daemon):
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


@contextmanager
def one_node(folder):
    """The environment in which `srun` uses it."""
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(host=socket.gethostname(), folder=folder, ports=free_ports(2))
    )
    for name in ("state", "spool"):
        (folder / name).mkdir()
    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(configuration)}
    daemons = []
    with ExitStack() as running:

        def start(words):
            log = running.enter_context((folder / f"{words[0]}.out").open("w"))
            path = shutil.which(words[0], path=PATH)
            daemon = subprocess.Popen(
                [path, *words[1:]], stdout=log, stderr=log, env=environment, start_new_session=True
            )
            daemons.append(daemon)
            running.callback(stop, daemon)

        start(munged(folder))
        wait_for((folder / "munge.socket").exists, daemons, folder)
        start(["slurmctld", "-D", "-i"])
        start(["slurmd", "-D", "-N", "here"])
        wait_for(lambda: is_up(environment), daemons, folder)
        yield environment
