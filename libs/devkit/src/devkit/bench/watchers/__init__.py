"""Clients of event streams under load: a thousand listeners, and the delay of their events."""
