"""Memory of rate-limit state: the published models, the bytes that servers really take, and plans made from them."""
