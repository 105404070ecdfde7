"""The images of the services and their contents."""
