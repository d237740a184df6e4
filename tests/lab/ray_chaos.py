"""A sweep on a Ray cluster of one head and three nodes that keep dying: `python ray_chaos.py OUT`.

Five nodes are killed without grace and replaced, twenty workers are killed (Ray's and ours), the
driver is killed once and started again; each when a seeded number of trials is stored. The cluster
listens on the loopback and asks for a token. Prints one JSON object.
"""

import importlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
TRIALS, NODES, WORKERS, DRIVERS, SEED = 300, 5, 20, 1, 47
SETTINGS = {"trials": TRIALS, "sleep": 0.2}
SURROUNDINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class Driver:
    """The process that runs the sweep; counts the trials it says are stored."""

    def __init__(self, out: Path, address: str, stored: list[str]) -> None:
        words = [str(HERE / "drive.py"), str(out), json.dumps(SETTINGS), "0", address]
        self.process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.stored, self.digest = stored, ""
        self.listener = threading.Thread(target=self._listen)
        self.listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "trial":
                self.stored.append(rest.split()[0])
            elif word == "digest":
                self.digest = rest

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        code = self.process.wait()
        self.listener.join()
        return code


class Chaos:
    """A cluster, a driver, and what is done to them."""

    def __init__(self, out: Path) -> None:
        self.out, self.rng = out, random.Random(SEED)
        self.cluster: Any = importlib.import_module("ray.cluster_utils").Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(3)]
        self.stored: list[str] = []
        self.killed = {"node": 0, "worker": 0, "driver": 0}
        self.driver = Driver(out, self.cluster.address, self.stored)

    def run(self) -> dict[str, Any]:
        for after, event in self._plan():
            while len(self.stored) < after:
                if self.driver.process.poll() is not None:
                    raise RuntimeError(f"the driver ended with {self.driver.process.returncode}")
                time.sleep(0.05)
            getattr(self, f"kill_{event}")()
        code = self.driver.wait()
        twice = len(self.stored) - len(set(self.stored))
        return {"code": code, "digest": self.driver.digest, "twice": twice, "killed": self.killed}

    def _plan(self) -> list[tuple[int, str]]:
        events = ["node"] * NODES + ["worker"] * WORKERS + ["driver"] * DRIVERS
        self.rng.shuffle(events)
        places = sorted(self.rng.sample(range(5, TRIALS * 9 // 10), len(events)))
        return list(zip(places, events, strict=True))

    def kill_node(self) -> None:
        node = self.nodes.pop(self.rng.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=1))
        self.killed["node"] += 1

    def kill_worker(self) -> None:
        for _ in range(200):  # a node may just be starting
            found = [p for p in psutil.Process().children(recursive=True) if _works(p)]
            if found:
                self.rng.choice(found).kill()
                self.killed["worker"] += 1
                return
            time.sleep(0.1)
        raise RuntimeError("no worker to kill")

    def kill_driver(self) -> None:
        self.driver.kill()
        self.killed["driver"] += 1
        self.driver = Driver(self.out, self.cluster.address, self.stored)


def _works(process: psutil.Process) -> bool:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return words.startswith("ray::run_group") or "attnlab.lab.engine.worker" in words


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ.update(SURROUNDINGS, TMPDIR=folder)  # short: Ray puts its sockets there
        chaos = Chaos(Path(sys.argv[1]))
        try:
            print(json.dumps(chaos.run()))
        finally:
            if chaos.driver.process.poll() is None:
                chaos.driver.kill()
            chaos.cluster.shutdown()


if __name__ == "__main__":
    main()
