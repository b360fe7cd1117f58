"""What a running server or fleet really takes. Pure: `estimate`, `sampled`."""
