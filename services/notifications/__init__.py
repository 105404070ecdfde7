"""Notifications: messages about closed users, and how many each user got in windows of ten minutes."""
