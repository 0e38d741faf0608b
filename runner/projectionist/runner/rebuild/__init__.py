"""History again, silently, beside the live system: rebuild, verify, recompute, replay."""
