"""The commands of `rlctl capacity`."""
