"""Makes core/datasets/digits.npz from the copy of the UCI digits that scikit-learn ships.

pip install scikit-learn && python scripts/make_digits.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).parent.parent / "core" / "datasets" / "digits.npz"


def main() -> None:
    """Writes the file and prints the training part's mean and standard deviation."""
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    np.savez_compressed(TARGET, images=images, labels=labels)
    train = images[np.arange(len(labels)) % 5 != 4]
    print(f"{TARGET}: {len(labels)} digits, {TARGET.stat().st_size} bytes")
    print(f"mean {train.mean():.4f}, std {train.std():.4f} of the training part")


if __name__ == "__main__":
    main()
