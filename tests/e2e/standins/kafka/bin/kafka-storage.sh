#!/bin/bash
exec "$(dirname "$0")/run" kafka.tools.StorageTool "$@"
