"""The `tenon` command of the wheel: the program next to this package."""

import os
import sys


def main() -> None:
    """Becomes the program, with the plugins of Python's environment."""
    from tenon._host import plugin_folders

    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
    folders = [os.environ.get("TENON_PLUGIN_ADD", ""), *plugin_folders()]
    if any(folders):
        os.environ["TENON_PLUGIN_ADD"] = ":".join(folder for folder in folders if folder)
    os.execv(program, [program, *sys.argv[1:]])
