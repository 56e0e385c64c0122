"""A model for abstracts of every science: see README.md beside this file."""
