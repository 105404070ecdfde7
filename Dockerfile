# The images of all services: `--target stream` or `--target api`, `--build-arg SERVICE=<folder in services>`.
# What services share comes first, so that their images share it too. BASE is Debian's or what is made of it, with Python 3.11.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS base
LABEL org.opencontainers.image.licenses="Apache-2.0"
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/numba
WORKDIR /app
# Of the charts.
RUN useradd --uid 10001 --no-create-home --home-dir /tmp streamstate
RUN printf '#!/bin/sh\nexec python -m streamstate.cli.main "$@"\n' >/usr/local/bin/streamstate \
 && chmod +x /usr/local/bin/streamstate
# Compiled files would make a third of the image, and save a second of a start.
COPY requirements-base.txt .
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes -r requirements-base.txt

# A Java of the modules that Spark needs: a third of the whole.
FROM base AS jre
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless binutils
RUN jlink --output /opt/java --strip-debug --no-header-files --no-man-pages --compress=2 --add-modules \
    java.se,jdk.crypto.ec,jdk.incubator.vector,jdk.management,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs

FROM base AS java
COPY --from=jre /opt/java /opt/java
ENV JAVA_HOME=/opt/java
# Java wants a name for its user. A pod may run as any user: the stream writes the user's entry where it may write.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libnss-extrausers \
 && rm -rf /var/lib/apt/lists/* \
 && sed -i 's/^passwd:.*/passwd: files extrausers/' /etc/nsswitch.conf \
 && ln -s /tmp/passwd /var/lib/extrausers/passwd
# What no query loads is a third of what Spark brings: Hive, machine learning, the state store on disk, Connect, the shell.
COPY requirements-stream.txt .
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes -r requirements-stream.txt \
 && cd "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
 && (cd pyspark/jars && rm rocksdbjni-* hive-[!s]* hive-se* hive-sh* spark-hive* datanucleus-* derby* \
    spark-mllib* breeze* spire* cats-kernel* algebra* JTransforms-* arpack* lapack* \
    spark-connect_* spark-repl* scala-compiler* jline-* netty-*-osx-* netty-*-windows-* \
    curator-* zookeeper-* leveldbjni-* spark-graphx*) \
 && rm -r pyspark/examples pyspark/ml pyspark/mllib pyspark/pandas pandas/tests pyarrow/tests pyarrow/include \
    pyarrow/libarrow_flight* pyarrow/_flight* \
 && find numpy -name tests -prune -exec rm -r {} + \
 && python -m compileall -q pyspark py4j pyarrow pandas numpy
# Jars that this machine has are taken from it: behind a proxy with a certificate of its own, Java could fetch none here.
COPY libs/streamstate/src/streamstate/spark/jars.txt .cache/spar[k] /opt/streamstate/jars/
COPY libs/client/src/streamstate_client streamstate_client
COPY libs/streamstate/src/streamstate streamstate
RUN python -m streamstate.spark.jars /opt/streamstate/jars

FROM java AS stream
COPY services services
# Before ENV: buildah caches ENV by its text, whatever the argument is; a RUN it tells apart.
ARG SERVICE
RUN test -e services/$SERVICE/model.py
ENV STREAMSTATE_PACKAGE=services.$SERVICE
USER 10001:10001
# The process itself is the first of its container, so that it gets the signals.
CMD ["sh", "-c", "exec python -m streamstate.spark $STREAMSTATE_PACKAGE"]

FROM base AS web
COPY requirements-api.txt .
RUN pip install --no-cache-dir --no-compile --no-deps --require-hashes -r requirements-api.txt
COPY libs/client/src/streamstate_client streamstate_client
COPY libs/strictasgi/src/strictasgi strictasgi
COPY libs/streamstate/src/streamstate streamstate
COPY services services

FROM web AS api
ARG SERVICE
# The kubernetes client is 17 MB of generated source. Compiled, in an archive, it is 4 MB, and imported three times as fast.
RUN set -e; own=services/$SERVICE/requirements.txt; \
    if [ -e $own ]; then pip install --no-cache-dir --no-compile --no-deps --require-hashes -r $own; fi; \
    cd "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
    if [ -e kubernetes ]; then \
      python -m compileall -q -b kubernetes; find kubernetes -name '*.py' -delete; \
      python -m zipfile -c kubernetes.zip kubernetes; rm -r kubernetes; echo kubernetes.zip > kubernetes.pth; \
    fi
ENV STREAMSTATE_PACKAGE=services.$SERVICE
USER 10001:10001
CMD ["sh", "-c", "exec python -m streamstate.web $STREAMSTATE_PACKAGE"]
