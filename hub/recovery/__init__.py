"""Records of other systems that may get stuck: where they are, finding those that are, and bringing them back."""
