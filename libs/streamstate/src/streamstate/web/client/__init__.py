"""Asking other instances over kept connections. Nothing here knows the state."""
