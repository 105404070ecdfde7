# What a developer types. Every target installs what it needs.
# The system's own, where it can make environments: pyenv compiles without profile-guided optimization by default, and
# such a Python takes about a third more CPU time.
PYTHON ?= $(shell for each in /usr/bin/python3 python3; do \
  $$each -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
BROWSER := $(VENV)/browser
SOURCES := libs services tests
GO_BIN := .cache/go/bin
HELM := $(or $(shell command -v helm),$(GO_BIN)/helm)
HELM4 := $(GO_BIN)/4/helm
OCI_REGISTRY := $(GO_BIN)/registry
S3_SERVER := $(GO_BIN)/versitygw
SKAFFOLD := $(or $(shell command -v skaffold),$(GO_BIN)/skaffold)
PACKAGES := .cache/packages
CLASSES := .cache/spark.jsa
BASE = $(shell sed -n 's/^ARG BASE=//p' Dockerfile)
TAG = $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' libs/devkit/src/devkit/charts/parts.py)
BUILDER = $(or $(shell command -v docker),buildah)
BUILT = $(if $(findstring docker,$(BUILDER)),docker-daemon:,containers-storage:)

.DEFAULT_GOAL := help
.PHONY: help demo demo-clean test test-quick test-room test-browser screenshots record verify faults soak change history nightly charts publish images push sbom cluster-images cluster-test check docs site fix bench object-store

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 28

demo: $(INSTALLED) redis ## everything on this machine, fed and answering, until Ctrl-C (ONCE=1, LFM=folder, FORMAT=avro, EXAMPLES=words,inventory, PROFILE=my.yaml)
	@$(BIN)/python -m devkit.demo

demo-clean: ## remove the demo's state (not what was downloaded)
	@[ ! -e .demo ] || flock --nonblock .demo rm -r .demo || { echo "a demo of this clone runs: end it first"; exit 1; }

# In this order the tests of the cluster and of its servers, which take longest, come first.
test: $(CLASSES) redis prometheus nginx ## all tests, on a real Kafka, Redis and Spark that they start themselves
	@echo "tests start a Kafka, Redis, Spark and services of their own, at free ports, beside whatever runs; two cores, 6 GB and ten minutes"
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST)

test-quick: $(INSTALLED) ## all tests that need no server, laws with few examples (a minute)
	@$(BIN)/python -m pytest -q -n 2 -m "not servers" --hypothesis-profile=quick tests/unit tests/laws $(PYTEST)

test-room: $(INSTALLED) redis ## those of a package, a room of the library or a service, with its servers: ROOM=state (30 seconds)
	@files=$$($(BIN)/python -m tests.rooms $(ROOM)) && $(BIN)/python -m pytest -q -n 2 --hypothesis-profile=quick $$files $(PYTEST)

$(CLASSES): $(INSTALLED)
	@$(BIN)/python -m devkit.servers.class_archive $@

test-browser: $(BROWSER) redis chromium ## the page, in a real browser (3 minutes)
	@$(BIN)/python -m pytest tests/browser $(PYTEST)

screenshots: ## the same, and the pictures of the docs
	@$(MAKE) test-browser PYTEST="-k legible --screenshots=docs/images"

record: $(CLASSES) redis ## run the commands of README beside a demo, and write their output into it (3 minutes)
	@RECORD=1 $(BIN)/python -m pytest tests/integration/test_first_page.py

verify: $(INSTALLED) ## hold every key of the running demo (or what STREAMSTATE_KAFKA and _REDIS name) against a replay
	@$(BIN)/streamstate verify $(SERVICES)

faults: $(INSTALLED) redis wrk ## let everything fail in turn under load, replay; writes docs/faults.md (75 minutes; a part: SHARD=redis SEEDS=1; one fault of each kind, in minutes: QUICK=1)
	@[ -z "$(QUICK)" ] || { SEEDS=1 timeout --signal=INT 1200 $(BIN)/python -m pytest -s -m quick tests/faults; exit; }; \
	for shard in $(or $(SHARD),processes redis cluster kafka topics history reads); do \
	  timeout --signal=INT 2400 $(BIN)/python -m pytest -s tests/faults/test_$$shard.py || failed=1; \
	done; [ -z "$$failed" ]

soak: $(INSTALLED) redis ## an hour of load while something fails every minute, replayed; writes docs/reliability.md (MINUTES=60)
	@$(BIN)/python -m pytest -s tests/faults/test_soak.py

change: $(CLASSES) redis ## change folds under load by stage, wait, promote, back and drop (8 minutes; EVENTS=2000 READS=200 WATCHERS=1000)
	@$(BIN)/python -m devkit.lab.change

history: $(CLASSES) redis ## build a state from an archive beside the build from Kafka, and with kills; replay, train and unload (20 minutes; EVENTS=2000000 KILLS=5)
	@$(BIN)/python -m devkit.lab.history

nightly: $(INSTALLED) ## the model of the commit protocol, 100,000 histories on two cores (about 30 minutes)
	@printf '%s\n' $(foreach shard,1 2 3 4 5,TestTally TestJoin) | xargs -P 2 -I{} \
	  $(BIN)/python -m pytest -q --hypothesis-profile=nightly tests/laws/test_commit_model.py::{}

charts: $(INSTALLED) $(HELM) $(HELM4) $(OCI_REGISTRY) $(SKAFFOLD) gpg skopeo ## the charts: lint, render by Helm 3 and 4 and skaffold, validate, package, sign, publish
	@HELM=$(HELM) HELM4=$(HELM4) OCI_REGISTRY=$(OCI_REGISTRY) SKAFFOLD=$(SKAFFOLD) $(BIN)/python -m pytest tests/charts

publish: $(HELM) ## package all charts and push them: REGISTRY=oci://registry.company/charts (signed: KEY=name KEYRING=file)
	@[ -n "$(REGISTRY)" ] || { echo "name the registry: make publish REGISTRY=oci://registry.company/charts"; exit 1; }
	@rm -rf $(PACKAGES)/*.tgz*
	@$(HELM) package $(if $(KEY),--sign --key '$(KEY)' --keyring $(KEYRING)) --destination $(PACKAGES) $(patsubst %/values.yaml,%,$(wildcard charts/*/values.yaml))
	@for package in $(PACKAGES)/*.tgz; do $(HELM) push $$package $(REGISTRY) $(PUSH) || exit 1; done

# Without a daemon: BUILDER=buildah. For another architecture: OPTIONS="--platform linux/arm64".
images: $(INSTALLED) ## build the images of all services (BASE=image@digest PREFIX=registry/ TAG=version BUILDER=buildah OPTIONS=…)
	@$(BIN)/python -m devkit.images | while read -r name target service; do \
	  echo "building $(PREFIX)$$name:$(TAG)"; \
	  $(BUILDER) build --quiet --target $$target --build-arg SERVICE=$$service --build-arg BASE=$(BASE) \
	    --label org.opencontainers.image.title=$$name --label org.opencontainers.image.version=$(TAG) \
	    --label org.opencontainers.image.revision=$$(git rev-parse HEAD) --label org.opencontainers.image.base.name=$(BASE) \
	    --tag $(PREFIX)$$name:$(TAG) $(OPTIONS) . </dev/null || exit 1; \
	done

# A signature is a file, which whoever verifies it (podman, CRI-O, OpenShift) fetches from where the folder is served.
push: $(INSTALLED) skopeo ## push the images that were built with this PREFIX to its registry (signed: KEY=name SIGNATURES=folder)
	@[ -n "$(PREFIX)" ] || { echo "name the registry: make push PREFIX=registry.company/team/"; exit 1; }
	@[ -z "$(KEY)" ] || [ -n "$(SIGNATURES)" ] || { echo "name a folder for the signatures: make push SIGNATURES=folder"; exit 1; }
	@[ -z "$(KEY)" ] || { mkdir -p .cache/registries.d && \
	  printf 'default-docker:\n  lookaside-staging: file://%s\n' '$(abspath $(SIGNATURES))' >.cache/registries.d/signatures.yaml; }
	@$(BIN)/python -m devkit.images | while read -r name rest; do \
	  image=$(PREFIX)$$name:$(TAG); \
	  skopeo copy --quiet $(if $(KEY),--registries.d .cache/registries.d --sign-by '$(KEY)') $(PUSH) \
	    $(BUILT)$$image docker://$$image </dev/null || exit 1; \
	done

sbom: $(INSTALLED) ## what is in the images: CycloneDX documents, and licences, in .cache/sbom
	@$(BIN)/python -m devkit.images.sbom .cache/sbom

# BUILD_IMAGE: a script that builds an image (NAME DIRECTORY [OPTION...]) and gives it to the cluster. STANDINS=1: there is
# no registry, so Kafka and Redis are built too.
cluster-images: $(INSTALLED) ## build the images of the cluster's tests (which then need no builder: BUILD_IMAGE=true)
	@BUILD_IMAGE=$(BUILD_IMAGE) STANDINS=$(STANDINS) $(BIN)/python -m tests.e2e.images

cluster-test: $(INSTALLED) $(HELM) ## all of it on the cluster of the current kubeconfig (BUILD_IMAGE=tests/e2e/build/kind)
	@HELM=$(HELM) BUILD_IMAGE=$(BUILD_IMAGE) STANDINS=$(STANDINS) $(BIN)/python -m pytest -s -v -x --durations=20 tests/e2e

check: $(BROWSER) ## ruff and mypy strict; changes nothing
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy

docs: $(INSTALLED) ## make docs/reference.md, and the values of the charts, from the source
	@$(BIN)/python -m devkit.docs.reference
	@$(BIN)/python -m devkit.charts

site: $(INSTALLED) .cache/mkdocs/installed ## make a site of all documents in .site/
	@$(BIN)/python -m devkit.docs.site .cache/pages
	@NO_MKDOCS_2_WARNING=1 .cache/mkdocs/bin/mkdocs build --strict

fix: $(INSTALLED) ## let ruff mend what it can
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

bench: $(INSTALLED) redis wrk ## measure everything and write docs/bench.md (ONLY=reads,freshness)
	@$(BIN)/python -m devkit.lab.bench

$(INSTALLED): requirements.txt $(wildcard libs/*/pyproject.toml)
	@[ -n "$(PYTHON)" ] || { echo "install Python 3.11 or newer with venv (Debian: python3-venv), or name it: make PYTHON=python3.11"; exit 1; }
	@command -v java >/dev/null || { echo "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless)"; exit 1; }
	@echo "installing the Python packages, with PySpark, into $(VENV) (600 MB fetched once: one to three minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --no-deps --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e libs/client -e libs/strictasgi -e libs/streamstate -e libs/devkit
	@$(BIN)/python -m pip check --quiet --disable-pip-version-check
	@touch $@

# Only the tests of the page need them, and whoever checks the types of these.
$(BROWSER): requirements-browser.txt $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-browser.txt
	@touch $@

.cache/mkdocs/installed: requirements-docs.txt
	@[ -n "$(PYTHON)" ] && $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.txt
	@touch $@

# Argument: package.
COMPILING = command -v go >/dev/null || { echo "install Go: $(@F) is compiled here"; exit 1; }; \
  echo "compiling $(1) (minutes, once)"
GO_INSTALL = $(COMPILING); GOBIN=$(CURDIR)/$(@D) go install $(1)
$(GO_BIN)/helm:
	@$(call GO_INSTALL,helm.sh/helm/v3/cmd/helm@v3.18.6)

$(HELM4):
	@$(call GO_INSTALL,helm.sh/helm/v4/cmd/helm@v4.0.4)

$(OCI_REGISTRY):
	@$(call GO_INSTALL,github.com/google/go-containerregistry/cmd/registry@v0.20.6)

$(S3_SERVER):
	@$(call GO_INSTALL,github.com/versity/versitygw/cmd/versitygw@v1.8.0)

# Without the server, the tests of archives in buckets are skipped, and say why.
object-store: ## an S3 server, with which make test tries archives in buckets too (compiled, minutes, once)
	@$(MAKE) -s --no-print-directory $(S3_SERVER) || echo "there is no S3 server: tests of archives in buckets are skipped"

# By its module's own list of versions, which `go install` refuses.
$(GO_BIN)/skaffold:
	@$(call COMPILING,skaffold); cd "$$(go mod download -json github.com/GoogleContainerTools/skaffold/v2@v2.16.1 \
	  | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" && go build -mod=mod -o $(CURDIR)/$@ ./cmd/skaffold

# The versions of the images are those of development. uv, which finds them, is not needed otherwise.
PIN = .cache/uv/bin/uv pip compile --quiet --generate-hashes --custom-compile-command 'make requirements' --python-version 3.11
.PHONY: requirements
requirements: .cache/uv ## pin all requirements anew, with hashes
	@$(PIN) requirements.in -o requirements.txt
	@$(PIN) --extra cli --extra formats --extra traces -c requirements.txt libs/streamstate/pyproject.toml -o requirements-base.txt
	@$(PIN) --extra web --extra cli --extra formats --extra traces -c requirements.txt libs/streamstate/pyproject.toml libs/strictasgi/pyproject.toml -o requirements-api.txt
	@$(PIN) --extra spark --extra cli --extra formats --extra traces -c requirements.txt libs/streamstate/pyproject.toml -o requirements-stream.txt
	@$(PIN) requirements-docs.in -o requirements-docs.txt
	@$(PIN) -c requirements.txt requirements-browser.in -o requirements-browser.txt
	@$(PIN) requirements-msk.in -o requirements-msk.txt
	@for in in services/*/requirements.in; do $(PIN) -c requirements.txt $$in -o $${in%.in}.txt; done

.cache/uv:
	@$(PYTHON) -m venv $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check uv

# RUNLEVEL keeps Debian from starting a server of its own.
INSTALL = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing $(1)" \
  && apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq $(1) >/dev/null
.PHONY: redis wrk chromium prometheus nginx gpg skopeo
redis:
	@command -v redis-server >/dev/null || { $(call INSTALL,redis-server); } \
	  || { echo "install redis-server (Debian: apt-get install redis-server)"; exit 1; }

wrk:
	@command -v wrk >/dev/null || { $(call INSTALL,wrk); } || { echo "install wrk (Debian: apt-get install wrk)"; exit 1; }

nginx:
	@command -v nginx >/dev/null || { $(call INSTALL,nginx-light); } || { echo "install nginx (Debian: apt-get install nginx-light)"; exit 1; }

gpg:
	@command -v gpg >/dev/null || { $(call INSTALL,gpg); } || { echo "install gpg (Debian: apt-get install gpg)"; exit 1; }

skopeo:
	@command -v skopeo >/dev/null || { $(call INSTALL,skopeo); } || { echo "install skopeo (Debian: apt-get install skopeo)"; exit 1; }

chromium:
	@command -v chromium >/dev/null || { $(call INSTALL,chromium); } \
	  || { echo "install chromium (Debian: apt-get install chromium)"; exit 1; }

prometheus:
	@command -v promtool >/dev/null || { $(call INSTALL,prometheus); } \
	  || { echo "install prometheus (Debian: apt-get install prometheus)"; exit 1; }
