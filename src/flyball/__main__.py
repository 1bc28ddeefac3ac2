"""`python -m flyball` is `flyball`."""

from flyball.cli import main

if __name__ == "__main__":
    main()
