#!/bin/bash
exec "$(dirname "$0")/run" org.apache.kafka.tools.TopicCommand "$@"
