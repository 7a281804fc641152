"""Stands in for torch.cuda where no GPU is."""


def is_available():
    return False


def device_count():
    return 0
