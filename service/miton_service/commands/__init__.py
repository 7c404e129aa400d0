"""The command line's commands, one file each; cli.py only wires them."""
