"""Prints a line for each image, name, target and service: `make images` reads it."""

from devkit.images.catalogue import images

for image in images():
    print(image.name, image.target, image.service)
