"""Use the kernel of Jupyter that is named as a notebook does, and print what happened as JSON."""

import json
import sys

from jupyter_client import KernelManager

TIME = 120
"""Seconds to wait for a message."""
ENDLESS = "import signal; print('begins', flush=True)\nwhile True: signal.sigtimedwait([], 1)"


def text_of(message):
    return message["content"].get("text", "")


def run(client, code):
    """Run a cell; return its status and what it printed."""
    printed = []
    reply = client.execute_interactive(
        code, timeout=TIME, output_hook=lambda message: printed.append(text_of(message))
    )
    return [reply["content"]["status"], "".join(printed)]


def interrupted(manager, client):
    """Interrupt a cell that has begun; return what ended it."""
    # Else the kernel aborts what it receives right after an error.
    client.execute(ENDLESS, stop_on_error=False)
    while "begins" not in text_of(client.get_iopub_msg(timeout=TIME)):
        pass
    manager.interrupt_kernel()
    return client.get_shell_msg(timeout=TIME)["content"]["ename"]


def main(name):
    manager = KernelManager(kernel_name=name, transport_encryption="auto")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=TIME)
    results = {"name": manager.kernel_spec.display_name}
    results["encrypted"] = bool(manager.curve_publickey)
    code = "import os; x = 1; print(os.path.exists('/.singularity.d'), os.environ['SLURM_JOB_ID'])"
    results["cell"] = run(client, code)
    results["interrupted"] = interrupted(manager, client)
    results["afterwards"] = run(client, "print(x)")
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=TIME)
    results["restarted"] = run(client, "print('x' in dir())")
    client.execute("import os; os._exit(3)")
    manager.provisioner.process.wait(timeout=TIME)
    results["alive"] = manager.is_alive()
    manager.start_kernel()
    client.wait_for_ready(timeout=TIME)
    manager.shutdown_kernel()
    print(json.dumps(results))


main(sys.argv[1])
