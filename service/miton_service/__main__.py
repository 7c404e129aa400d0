"""`python -m miton_service` is `miton`."""

from miton_service.cli import main

main()
