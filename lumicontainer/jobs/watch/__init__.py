"""What a running job does on its nodes."""
