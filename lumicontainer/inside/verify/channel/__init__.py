"""Connect rank 0 of ``lumi-verify`` with the other ranks by authenticated messages."""
