"""What a model believes about a batch of inputs: the posterior and the questions to it."""
