"""Small convolutions on a CPU, faster than the library's.

oneDNN works on blocks of 16 channels, so that a convolution with 1 or 6 channels wastes most of its work, and ATen's
max pool is not vectorised over a small window. Here activations lie batch last, (channels, height, width, batch):
unfolding copies whole runs of `batch` numbers, a convolution is a matrix product whatever the number of channels, and
the places of a pool's window are views whose maximum and gradient are plain vectorised operations. The sums are the
same up to their order, and so are the gradients, ties included (tests hold both to the library's).
"""
