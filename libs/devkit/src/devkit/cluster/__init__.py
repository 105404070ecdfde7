"""Everything on a single machine: servers, streams, APIs and the gateway."""
