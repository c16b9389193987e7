"""Clusters of the rows of a CSV file."""
import numpy as np


def nearest(points, centers):
    offset = points[:, None, :] - centers
    return (offset * offset).sum(axis=2).argmin(axis=1)


def kmeans(points, centers, steps):
    for _ in range(steps):
        label = nearest(points, centers)
        centers = np.stack([points[label == k].mean(axis=0) for k in range(len(centers))])
    return centers


if __name__ == "__main__":
    table = np.loadtxt("examples/data/flowers.csv", delimiter=",", skiprows=1)
    points, kind = table[:, :3], table[:, 3]
    centers = kmeans(points, points[:141:70], 20)
    label = nearest(points, centers)
    print("centers:", centers, "sizes:", np.bincount(label), sep="\n")
    assert np.mean(label == kind) > 0.95
