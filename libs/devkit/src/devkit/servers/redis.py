"""A real Redis with the settings of a deployment: the file is synced every second, and no key is evicted."""

import os
import shutil
import subprocess
from pathlib import Path

from redis import Redis as Client
from redis import RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from devkit import DevkitError
from devkit.servers.child_process import LOCALHOST, Child, require_free_port

_REPAIR = Path(__file__).parents[5] / "charts/infra/files/repair-aof.sh"

_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    # Repeated rewrites of a small, growing file cost more than the rewrites save.
    "auto-aof-rewrite-min-size": "512mb",
    "maxmemory-policy": "noeviction",
    # A snapshot waits for no further replicas.
    "repl-diskless-sync-delay": "0",
    "save": "",
}


class Redis(Child):
    """A redis-server on 127.0.0.1. A restart on the same folder keeps the data."""

    def __init__(self, directory: Path, port: int) -> None:
        """Keep data and log in `directory`; its file `users.acl`, if present, has the users.

        Raises `DevkitError` when Redis is not installed.
        """
        program = shutil.which("redis-server")
        if program is None:
            msg = "there is no redis-server on the PATH; install Redis (Debian: redis-server)"
            raise DevkitError(msg)
        self._directory = directory.absolute()
        self.port = port
        settings = {"bind": LOCALHOST, "port": str(port), "dir": str(self._directory), **_SETTINGS}
        if (users := self._directory / "users.acl").exists():
            settings["aclfile"] = str(users)
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        super().__init__("Redis", [program, *options], self._directory / "redis.log")

    @property
    def url(self) -> str:
        """Its address for `redis.from_url`, database 0."""
        return f"redis://{LOCALHOST}:{self.port}/0"

    def start(self) -> None:
        """Repair the file, start Redis, and wait until the data is loaded and Redis answers.

        Raises `DevkitError` with the end of the log after a failed start.
        """
        require_free_port(self.name, self.port, "REDIS_PORT")
        self.repair()
        super().start()
        with Client.from_url(self.url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as client:
            self.wait_until(lambda: _answers(client), timeout=60.0)

    def repair(self) -> None:
        """Cut an incomplete commit off the file, like the chart. Raises `DevkitError` for a damaged file."""
        environment = {**os.environ, "folder": str(self._directory)}
        argv = ["sh", str(_REPAIR)]
        ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise DevkitError(ran.stderr.strip())


def _answers(client: Client) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False
