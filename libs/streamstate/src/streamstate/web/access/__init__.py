"""Credentials: files of API keys and of tokens between gateway and instances, read again on change."""
