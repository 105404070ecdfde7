"""The images of the services: which there are, what they are labelled with, and what is in them."""
