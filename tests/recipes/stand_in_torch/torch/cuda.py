"""Stands in for torch.cuda without a GPU."""


def is_available():
    return False


def device_count():
    return 0
