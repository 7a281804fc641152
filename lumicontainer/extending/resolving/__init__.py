"""Choose the versions of added packages, and explain why none fit."""
