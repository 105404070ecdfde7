"""The way of a request to the instance that owns its key: instances, owner maps, live releases, calls."""
