"""The commands: the composition root, which alone knows every room and reads the environment."""
