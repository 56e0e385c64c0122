"""The models, in pure torch: copying, attention, the hierarchical decoder, the losses."""
