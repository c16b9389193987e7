"""All shortest paths of a graph."""
import numpy as np
from safetensors.numpy import load_file
from scipy.sparse.csgraph import floyd_warshall

if __name__ == "__main__":
    roads = load_file("examples/data/roads.safetensors")["distance"]
    d = floyd_warshall(roads)
    assert np.all(d <= roads) and np.all(d <= (d[:, :, None] + d[None, :, :]).min(axis=1) + 1e-4)
    print(f"the mean distance fell from {np.minimum(roads, 100).mean():.2f} to {d.mean():.2f}")
