"""The models that come with the package, each a folder of `exhird export`."""
