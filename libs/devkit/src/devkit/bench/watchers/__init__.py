"""Many clients, each of which watches a user, under the load of events."""
