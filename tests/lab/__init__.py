"""What builds the images and hosts on which the docker and hosts layers run; see README.md."""
