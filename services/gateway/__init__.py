"""One address for all services: each request goes straight to the instance that owns its key."""
