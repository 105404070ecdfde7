"""What an executor's JVM is started with."""

from streamstate.spark.executor import command

GIVEN = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "metrics-0-exec-1",
    "SPARK_JAVA_OPT_10": "-Dk=last",
    "SPARK_JAVA_OPT_9": "-Dj=first",
    "PATH": "/bin",
}


def test_the_driver_decides_all_of_it() -> None:
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert command(GIVEN, "/jars/*") == [
        *(
            "-Dj=first",
            "-Dk=last",
            "-Dspark.master=k8s://https://kubernetes.default.svc",
            "-Xms512m",
            "-Xmx512m",
            "-cp",
            "/jars/*",
            backend,
        ),
        *("--driver-url", "spark://driver:7078", "--executor-id", "1", "--cores", "2", "--app-id", "app"),
        *("--hostname", "10.0.0.1", "--resourceProfileId", "0", "--podName", "metrics-0-exec-1"),
    ]
