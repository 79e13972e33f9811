#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py VERSION FILE…: prints what a release consists of, as CycloneDX 1.5: its files, and the libraries that are
linked into their programs, with the versions of the Debian packages that they come from.

The serial number is made of the files' digests, so equal files have an equal list.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import uuid

# Of libxxhash a header is compiled in. libuv and liblmdb are in wheels and RPMs, libc in the static `warm` of Debian's.
INSIDE = {
    "libc6-dev": "LGPL-2.1-or-later",
    "liblmdb-dev": "OLDAP-2.8",
    "libncurses-dev": "X11",
    "libsodium-dev": "ISC",
    "libssl-dev": "Apache-2.0",
    "libuv1-dev": "MIT",
    "libxxhash-dev": "BSD-2-Clause",
    "libzstd-dev": "BSD-3-Clause",
    "zlib1g-dev": "Zlib",
}


def library(package, license_id):
    version = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}\n", package], check=True, capture_output=True, text=True
    ).stdout.split()[0]
    return {
        "type": "library",
        "bom-ref": package,
        "name": package,
        "version": version,
        "licenses": [{"license": {"id": license_id}}],
        "purl": f"pkg:deb/debian/{package}@{version}",
    }


def artifact(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"type": "file", "bom-ref": path.name, "name": path.name, "hashes": [{"alg": "SHA-256", "content": digest}]}


def main():
    version, files = sys.argv[1], sorted(map(pathlib.Path, sys.argv[2:]))
    components = [*map(artifact, files), *(library(*item) for item in sorted(INSIDE.items()))]
    text = json.dumps(components, sort_keys=True)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, text)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "warm",
                "name": "warm",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "warm", "dependsOn": sorted(INSIDE)}],
    }
    print(json.dumps(bom, indent=1, sort_keys=True))


main()
