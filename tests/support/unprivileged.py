"""`python -m tests.support.unprivileged …`: the command line as a normal user, for tests that root runs.

Everything is imported before root is given up: the account may not get to the interpreter's own files.
"""

from __future__ import annotations

import os
import pwd
import sys

from projectionist.ops import main
from projectionist.ops.embedded import binaries
from projectionist.ops.embedded.account import SystemAccount


def account() -> SystemAccount:
    """The normal user."""
    entry = pwd.getpwnam("nobody")
    return SystemAccount(entry.pw_name, entry.pw_uid, entry.pw_gid)


if __name__ == "__main__":
    user = account()
    list(main.found())
    binaries.nats_server()
    "".encode("idna")
    os.setgroups([])
    os.setgid(user.gid)
    os.setuid(user.uid)
    sys.exit(main.main())
