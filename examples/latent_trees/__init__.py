"""PCFGs with latent annotations, learned from a treebank."""
