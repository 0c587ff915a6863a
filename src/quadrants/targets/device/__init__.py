"""What targets share whose host launches parallel loops on a device with memory of its own."""
