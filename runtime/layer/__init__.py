"""A program as a layer of torch: torch.compile, torch.func and data loaders."""
