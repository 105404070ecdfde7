"""Event streams of profiles, of rules, and of answers over all keys: read once for all clients."""
