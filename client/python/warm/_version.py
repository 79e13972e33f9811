# SPDX-License-Identifier: Apache-2.0
VERSION = "0+source"  # `make install` writes the version here
