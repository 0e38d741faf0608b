"""What a process tells about itself: names, spans, metrics, signs of life. The SDK is touched in `sdk` alone."""
