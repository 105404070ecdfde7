"""The first process of an executor's pod: Spark's driver passes the JVM's options by environment variables."""

import os
from collections.abc import Mapping

from streamstate.spark.jars import java, require_name, spark_jars

_MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
# Spark reads the file of its secret only where the master is known to be Kubernetes, and does not say so to executors.
_MASTER = "-Dspark.master=k8s://https://kubernetes.default.svc"
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(given: Mapping[str, str], classpath: str) -> list[str]:
    """The JVM's command line after the program's name, from Spark's environment for an executor."""
    numbered = (name for name in given if name.startswith("SPARK_JAVA_OPT_"))
    options = [given[name] for name in sorted(numbered, key=lambda name: int(name.rpartition("_")[2]))]
    heap = given["SPARK_EXECUTOR_MEMORY"]
    arguments = [part for option, name in _ARGUMENTS.items() for part in (option, given[name])]
    return [*options, _MASTER, f"-Xms{heap}", f"-Xmx{heap}", "-cp", classpath, _MAIN, *arguments]


def main() -> None:
    """Become the JVM. Raises `JarError` without Spark or Java, and `Misconfigured` for a nameless user."""
    require_name()
    program = java()
    os.execv(program, [program, *command(os.environ, f"{spark_jars()}/*")])  # noqa: S606, no shell is wanted


if __name__ == "__main__":
    main()
