#!/usr/bin/env python3
"""Says on every machine whose it is. `kaws plugin schema contribution` tells what else there is to say."""

import kaws


@kaws.initialise
def initialise(request: kaws.Request) -> kaws.Response:
    """Adds one file to every machine."""
    greeting = {"content": f"Ask {request.settings['owner']}.\n"}
    return kaws.Response().put("machines", "nodes", "files", "/etc/motd.d/my-plugin", greeting)


if __name__ == "__main__":
    kaws.main()
