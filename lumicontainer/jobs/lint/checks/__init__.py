"""The predicates of the rules, by their subject."""
