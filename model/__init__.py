"""One trial: data preparation, networks, training and evaluation; knows nothing of studies."""
