"""The releases of a service side by side: the live release, and the release that publishes the outputs of an offset."""
