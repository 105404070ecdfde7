"""Credentials: files of API keys and of tokens between gateway and instances, which are read again when they change."""
