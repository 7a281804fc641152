"""``lumi-entry``: set the variables of one rank and replace this process by its program."""
